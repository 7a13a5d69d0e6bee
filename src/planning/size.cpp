// SPDX-License-Identifier: Apache-2.0
// Shapes for models of which only the number of parameters is known.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/config.hpp"
#include "gpuwarden/planning/parameters.hpp"

namespace gpuwarden::planning {
namespace {

constexpr double kFewest = 1e6;
constexpr double kMost = 1e14;
constexpr std::uint32_t kHiddenStep = 64;
constexpr std::uint32_t kWidestHidden = 65'536;
constexpr std::uint32_t kMostLayers = 512;
/// Llama 3's proportions (source: the config.json files of Llama 3.1 8B, 70B and 405B): hidden / layers is 128, 102 and
/// 130; intermediate / hidden is 3.5, 3.5 and 3.25; 8 key-value heads; 128 numbers a head.
constexpr double kHiddenPerLayer = 116;
constexpr double kIntermediatePerHidden = 3.5;
constexpr std::uint32_t kKvHeads = 8;
/// Heads of all but small models are a multiple of this, so that eight GPUs can share them (8B: 32, 70B: 64, 405B:
/// 128); another number is as strange as a third more width.
constexpr std::uint32_t kHeadsMultiple = 8;
constexpr std::uint32_t kFewHeads = 16;
constexpr double kOddHeads = 0.3;
/// Below these sizes published models tie the output to the embedding, and take a smaller vocabulary (Llama 3.2 1B and
/// 3B; SmolLM2).
constexpr double kTiedBelow = 5e9;
constexpr double kSmallVocabularyBelow = 1e9;
/// Below this the tables of a usual vocabulary would be all of the model.
constexpr double kTinyVocabularyBelow = 5e7;

struct ShapeCandidate {
  ModelShape model;
  double strangeness = std::numeric_limits<double>::infinity();
};

/// How far a ratio is from the usual one, whichever way.
double distance(double value, double usual) { return std::abs(std::log(value / usual)); }

std::optional<ModelShape> with_heads(ModelShape model, const ShapeHints& hints) {
  const std::uint32_t usual_dim = model.hidden >= 2048 ? 128 : 64;
  model.heads = hints.heads > 0 ? hints.heads : std::max<std::uint32_t>(1, model.hidden / usual_dim);
  if (model.hidden % model.heads != 0) return std::nullopt;
  model.head_dim = model.hidden / model.heads;
  const bool grouped = model.heads >= 2 * kKvHeads && model.heads % kKvHeads == 0;
  model.kv_heads = hints.kv_heads > 0 ? hints.kv_heads : grouped ? kKvHeads : model.heads;
  if (model.heads % model.kv_heads != 0) return std::nullopt;
  return model;
}

/// The candidate of this width and depth, its MLP as wide as the parameters that are left make it.
ShapeCandidate candidate(ModelShape model, double parameters, const ShapeHints& hints) {
  const auto headed = with_heads(std::move(model), hints);
  if (!headed) return {};
  ShapeCandidate result{.model = *headed};
  ModelShape& shape = result.model;
  shape.intermediate = 0;
  const double rest = parameters - static_cast<double>(count_parameters(shape).total);
  const double width = rest / (3.0 * shape.hidden * shape.layers);
  if (hints.intermediate == 0 && (width < 0.25 * shape.hidden || width > 16.0 * shape.hidden)) return {};
  shape.intermediate = hints.intermediate > 0 ? hints.intermediate : static_cast<std::uint32_t>(std::lround(width));
  const double count = static_cast<double>(count_parameters(shape).total);
  if (hints.intermediate > 0 && distance(count, parameters) > 0.1) return {};
  result.strangeness = distance(static_cast<double>(shape.hidden) / shape.layers, kHiddenPerLayer) +
                       distance(static_cast<double>(shape.intermediate) / shape.hidden, kIntermediatePerHidden) +
                       10 * distance(count, parameters);
  if (shape.heads >= kFewHeads && shape.heads % kHeadsMultiple != 0) result.strangeness += kOddHeads;
  return result;
}

ShapeCandidate best_of_width(const ModelShape& base, double parameters, const ShapeHints& hints) {
  ShapeCandidate best;
  const double depth = base.hidden / kHiddenPerLayer;
  const auto low = static_cast<std::uint32_t>(std::max(1.0, depth * 0.5));
  const auto high = std::min(kMostLayers, static_cast<std::uint32_t>(std::max(4.0, depth * 2)));
  const std::uint32_t first = hints.layers > 0 ? hints.layers : low;
  const std::uint32_t last = hints.layers > 0 ? hints.layers : high;
  for (std::uint32_t layers = first; layers <= last; ++layers) {
    ModelShape model = base;
    model.layers = layers;
    ShapeCandidate next = candidate(std::move(model), parameters, hints);
    if (next.strangeness < best.strangeness) best = std::move(next);
  }
  return best;
}

std::uint32_t usual_vocabulary(double parameters) {
  if (parameters < kTinyVocabularyBelow) return 4'096;
  return parameters < kSmallVocabularyBelow ? 49'152 : 128'256;
}

/// The width that Llama 3's proportions give: 13 h^2 parameters a layer, h / 116 layers.
double usual_hidden(double parameters) { return std::cbrt(parameters * kHiddenPerLayer / 13.0); }

}  // namespace

Result<ModelShape> shape_of_size(double parameters, const ShapeHints& hints) {
  if (!(parameters >= kFewest && parameters <= kMost))
    return fail(ErrorCode::invalid_argument, fmt::format("{:.3g} parameters: a model has 1e6 to 1e14", parameters),
                "write 7B for seven billion, 350M for 350 million");
  ModelShape base;
  base.family = "llama";
  base.estimated = true;
  base.tied_embeddings = parameters < kTiedBelow;
  base.vocab = hints.vocab > 0 ? hints.vocab : usual_vocabulary(parameters);
  base.max_positions = 131'072;
  const double usual = usual_hidden(parameters);
  const auto low = static_cast<std::uint32_t>(usual * 0.4) / kHiddenStep * kHiddenStep;
  const auto high = std::min<std::uint32_t>(kWidestHidden, static_cast<std::uint32_t>(usual * 1.6) + kHiddenStep);
  ShapeCandidate best;
  const std::uint32_t first = hints.hidden > 0 ? hints.hidden : std::max(kHiddenStep, low);
  const std::uint32_t last = hints.hidden > 0 ? hints.hidden : high;
  for (std::uint32_t hidden = first; hidden <= last; hidden += kHiddenStep) {
    base.hidden = hidden;
    ShapeCandidate next = best_of_width(base, parameters, hints);
    if (next.strangeness < best.strangeness) best = std::move(next);
  }
  if (best.model.hidden == 0)
    return fail(ErrorCode::invalid_argument,
                fmt::format("no Llama-like model of {:.4g} parameters has those sizes", parameters),
                "give fewer of them, or the model's config.json");
  best.model.source = fmt::format("estimated from {:.4g} parameters with Llama 3's proportions", parameters);
  best.model.notes.emplace_back("the shape is a guess from the parameter count: give a config.json for exact figures");
  return best.model;
}

Result<double> parse_parameters(std::string_view text) {
  const std::string_view trimmed = trim(text);
  const auto refuse = [&](std::string hint) {
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a number of parameters", printable(text)),
                std::move(hint));
  };
  if (trimmed.empty()) return refuse("write 7B, 350M or 6738415616");
  double factor = 1;
  std::string_view number = trimmed;
  switch (trimmed.back()) {
    case 'k':
    case 'K':
      factor = 1e3;
      break;
    case 'm':
    case 'M':
      factor = 1e6;
      break;
    case 'b':
    case 'B':
      factor = 1e9;
      break;
    case 't':
    case 'T':
      factor = 1e12;
      break;
    default:
      break;
  }
  if (factor > 1) number.remove_suffix(1);
  if (number.contains('x')) return refuse("models with experts need their shape: give a config.json or a name");
  const auto value = parse_number(number);
  if (!value || *value <= 0) return refuse("write 7B, 350M or 6738415616");
  if (*value * factor < kFewest || *value * factor > kMost) return refuse("a model has 1M to 100T parameters");
  return *value * factor;
}

}  // namespace gpuwarden::planning
