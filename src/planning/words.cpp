// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "planning/word_count.hpp"

namespace gpuwarden::planning {
namespace {

constexpr auto kSizeNames =
    std::to_array<std::string_view>({"hidden", "layers", "heads", "kv-heads", "intermediate", "vocab"});
constexpr auto kPlanNames = std::to_array<std::string_view>(
    {"model", "params", "family", "gpus", "gpus-per-node", "cpus", "tokens", "mfu", "calibrate", "draft-model"});

/// "7B", "350M", "8x7B": a number of parameters, not of bytes.
bool counts_parameters(std::string_view text) {
  text = trim(text);
  if (text.size() < 2 || !std::string_view("kKmMbBtT").contains(text.back())) return false;
  const char before = text[text.size() - 2];
  return before >= '0' && before <= '9';
}

std::string with_dashes(std::string_view name) {
  std::string result(name);
  std::ranges::replace(result, '_', '-');
  return result;
}

}  // namespace

void Words::set(std::string_view name, std::vector<std::string> values) {
  values_[with_dashes(name)] = std::move(values);
}

std::optional<std::string> Words::text(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() || found->second.empty() ? std::nullopt : std::optional(found->second.back());
}

std::vector<std::string> Words::list(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::vector<std::string>{} : found->second;
}

Words Words::without(std::span<const std::string_view> names) const {
  Words rest = *this;
  for (const std::string_view name : names) rest.values_.erase(std::string(name));
  return rest;
}

std::vector<std::string> Words::names() const {
  std::vector<std::string> result;
  for (const auto& [name, values] : values_) result.push_back(name);
  return result;
}

std::string normal_word(std::string_view word) {
  std::string result = to_lower(trim(word));
  std::ranges::replace(result, '_', '-');
  return result;
}

std::span<const std::string_view> size_names() { return kSizeNames; }

std::span<const std::string_view> plan_names() { return kPlanNames; }

Result<void> read_word_count(const Words& words, const std::string& name, std::uint32_t most, std::uint32_t& value) {
  const auto text = words.text(name);
  if (!text) return {};
  const auto number = parse_integer(*text);
  if (!number || *number < 0 || *number > most)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: '{}' is not a whole number from 0 to {}", words.shown(name), printable(*text), most));
  if (*number == 0) return fail(ErrorCode::invalid_argument, words.shown(name) + " must be at least 1");
  value = static_cast<std::uint32_t>(*number);
  return {};
}

Result<ModelShape> sized_model(const Words& words, const std::string& name) {
  const std::string text = words.text(name).value_or("");
  const auto parameters = parse_parameters(text);
  if (!parameters)
    return fail(parameters.error().code, fmt::format("{}: {}", words.shown(name), parameters.error().message),
                parameters.error().hint);
  ShapeHints hints;
  const std::array<std::uint32_t*, kSizeNames.size()> values{&hints.hidden,   &hints.layers,       &hints.heads,
                                                             &hints.kv_heads, &hints.intermediate, &hints.vocab};
  for (std::size_t i = 0; i < values.size(); ++i)
    GPUWARDEN_CHECK(read_word_count(words, std::string(kSizeNames[i]), 1U << 24U, *values[i]));
  GPUWARDEN_TRY(ModelShape model, shape_of_size(*parameters, hints));
  model.name = "a model of " + printable(text);
  return model;
}

Result<Workload> workload_of_size(const Words& words, const std::string& name) {
  const std::string text = words.text(name).value_or("");
  if (counts_parameters(text)) {
    GPUWARDEN_TRY(ModelShape model, sized_model(words, name));
    return workload_from(std::move(model), words, "train");
  }
  const auto weights = parse_size(text);
  if (!weights)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: '{}' is neither a number of parameters nor a size of weights", words.shown(name),
                            printable(text)),
                "for example 7B or 350M parameters, 140GB or 13GiB of 16-bit weights");
  auto held = workload_of_size(*weights);
  if (!held)
    return fail(held.error().code, fmt::format("{}: {}", words.shown(name), held.error().message), held.error().hint);
  GPUWARDEN_CHECK(refuse_sizes(words, name + " 7B"));
  held->model.name = "a model of " + printable(text);
  return workload_from(std::move(held->model), words, "inference");
}

Result<void> refuse_sizes(const Words& words, const std::string& name) {
  for (const std::string_view size : kSizeNames) {
    if (words.has(std::string(size)))
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{} completes {}, which is not given", words.shown(size), words.shown(name)),
                  "a named model has its own sizes");
  }
  return {};
}

Result<std::optional<double>> read_share(const Words& words, const std::string& name) {
  auto text = words.text(name);
  if (!text) return std::nullopt;
  const bool percent = text->ends_with('%');
  if (percent) text->pop_back();
  const auto number = parse_number(*text);
  // "1.5" is more than all, or a slip; nobody means one and a half per cent by it.
  constexpr double kLeastPercent = 5;
  if (number && !percent && *number > 1 && *number < kLeastPercent)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: {} is more than the whole", words.shown(name), printable(*text)),
                fmt::format("write a share up to 1 (0.9), or per cent with their sign ({}%)", printable(*text)));
  const double share = number ? (percent || *number > 1 ? *number / 100 : *number) : -1;
  if (share <= 0 || share > 1)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: '{}' is not a share", words.shown(name), printable(*text)), "for example 45%");
  return share;
}

Result<std::optional<double>> read_tokens(const Words& words, const std::string& name) {
  constexpr double kMostTokens = 1e18;
  const auto text = words.text(name);
  if (!text) return std::nullopt;
  std::string_view digits = trim(*text);
  double factor = 1;
  constexpr std::pair<char, double> kUnits[] = {{'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'T', 1e12}};
  for (const auto& [unit, value] : kUnits) {
    const bool has = !digits.empty() && (digits.back() == unit || digits.back() == unit + ('a' - 'A'));
    if (has && factor == 1) {
      factor = value;
      digits.remove_suffix(1);
    }
  }
  const auto number = parse_number(digits);
  if (!number || *number <= 0 || *number * factor > kMostTokens)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: '{}' is not a number of tokens", words.shown(name), printable(*text)),
                "for example 300B, 2T, 50000000");
  return *number * factor;
}

Result<std::vector<MeasuredPeak>> read_peaks(const Words& words, const std::string& name) {
  constexpr double kMostGiB = 1e6;
  std::vector<MeasuredPeak> peaks;
  for (const std::string& pair : words.list(name)) {
    const auto parts = split(pair, '=');
    const auto micro_batch = parse_integer(parts.front());
    const auto gib = parts.size() == 2 ? parse_number(parts.back()) : std::nullopt;
    const bool good = micro_batch && gib && *micro_batch > 0 && *micro_batch <= 1 << 20 && *gib > 0 && *gib < kMostGiB;
    if (!good)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{}: '{}' is not MICRO-BATCH=GiB", words.shown(name), printable(pair)),
                  "for example 1=23.4,2=30.1: torch.cuda.max_memory_allocated() / 2**30 at two or three micro-batches");
    peaks.push_back({static_cast<std::uint32_t>(*micro_batch), Bytes(static_cast<std::uint64_t>(*gib * kBytesPerGiB))});
  }
  return peaks;
}

}  // namespace gpuwarden::planning
