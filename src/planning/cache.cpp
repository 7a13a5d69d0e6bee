// SPDX-License-Identifier: Apache-2.0
// The KV cache, and the pool that vLLM makes of what is left.
#include <algorithm>
#include <cmath>

#include "equations.hpp"
#include "gpuwarden/planning/serving.hpp"

namespace gpuwarden::planning {

double kv_bytes_per_token(const ModelFigures& model, const Settings& settings) {
  const ModelShape& shape = model.shape;
  const double layers = std::ceil(static_cast<double>(kv_layers(shape)) / settings.parallel.pipeline);
  double elements = static_cast<double>(kv_elements_per_layer(shape));
  const double tensor = settings.parallel.tensor;
  if (shape.latent.kv_rank == 0) elements /= std::min(tensor, std::max(1.0, 1.0 * shape.kv_heads));
  return elements * layers * settings.kv_bytes;
}

double sliding_share(const ModelShape& model, double tokens) {
  if (model.sliding_window == 0 || model.sliding_layers == 0 || tokens <= model.sliding_window) return 1;
  const double sliding = std::min<double>(model.sliding_layers, model.layers) / std::max(1U, model.layers);
  return 1 - sliding + sliding * model.sliding_window / tokens;
}

namespace {

/// What an engine's layout adds to weights: rotary tables, padded vocabularies and workspaces beside 16-bit ones;
/// beside packed ones the kernels' own layouts; mxfp4's experts are padded to whole tiles of 256 in both directions
/// (vLLM's mxfp4 layers, which run gpt-oss's 2880 as 3072).
double layout_bytes(const ModelFigures& model, const Settings& settings, double weights) {
  constexpr double kBeside16 = 0.02;
  constexpr double kBesidePacked = 0.04;
  constexpr double kTile = 256;
  if (settings.quantization == Quantization::none) return kBeside16 * weights;
  if (settings.quantization != Quantization::mxfp4) return kBesidePacked * weights;
  const auto padded = [](double width) { return width > 0 ? std::ceil(width / kTile) * kTile / width : 1; };
  const double growth = padded(model.shape.hidden) * padded(model.shape.experts.intermediate) - 1;
  const double experts =
      frozen_bytes(frozen_format(model.shape, settings.quantization), 2) * local_parameters(model, settings).experts;
  return kBeside16 * weights + growth * experts;
}

/// The pool of engines that keep the most and the least besides.
void add_ends(const ModelFigures& model, const Settings& settings, const ServingBudget& budget, ServingPool& pool) {
  const bool measured = budget.activations.value > 0;
  const double ranks = settings.parallel.gpus();
  const double outside_most =
      std::max(pool.outside, ranks > 1 ? figures().serving_outside_ranks_most : figures().serving_outside_most);
  const double outside_least = std::min(pool.outside, figures().serving_outside_least);
  // Routed tokens are copied for each of their experts in the profiling run; dense layers' runs differ by half.
  const double most = measured ? 1 : settings.quantization == Quantization::mxfp4 ? 4 : 1.5;
  pool.weights_low = pool.weights * (settings.quantization == Quantization::none ? 0.998 : 0.97);
  pool.weights_high = pool.weights + layout_bytes(model, settings, pool.weights);
  const double total = budget.utilization * static_cast<double>(budget.gpu.usable.value);
  const auto left = [&](double weights, double outside, double activations) {
    return std::max(0.0, total - weights - outside - activations);
  };
  pool.cache_low = left(pool.weights_high, outside_most, most * pool.activations);
  pool.cache_high = left(pool.weights_low, outside_least, (measured ? 1 : 0.4) * pool.activations);
}

}  // namespace

Result<ServingPool> serving_pool(const ModelFigures& model, const Settings& settings, const ServingBudget& budget) {
  GPUWARDEN_CHECK(check(settings));
  if (budget.utilization <= 0 || budget.utilization > 1 || budget.block_tokens == 0) {
    return fail(ErrorCode::invalid_argument,
                "the utilization of a serving pool is above 0 and at most 1, its blocks have tokens",
                "vLLM's defaults are 0.9 and 16");
  }
  Settings alone = settings;
  alone.task = Task::serving;
  Estimate weights;
  add_generation_moment(model, alone, weights);
  ServingPool pool;
  pool.weights = weights.peak_moment().at(Use::weights);
  pool.activations = budget.activations.value > 0 ? static_cast<double>(budget.activations.value)
                                                  : profiled_activations(model, settings, budget);
  pool.outside = static_cast<double>(budget.outside.value);
  const double total = static_cast<double>(budget.gpu.usable.value);
  pool.cache = std::max(0.0, budget.utilization * total - pool.weights - pool.outside - pool.activations);
  // A request's sliding layers stop at their window, so that its tokens take less each the longer it is.
  const double token = kv_bytes_per_token(model, settings) * sliding_share(model.shape, settings.sequence);
  const auto tokens_in = [&](double cache) {
    const double blocks = token > 0 ? std::floor(cache / (token * budget.block_tokens)) : 0;
    return static_cast<std::uint64_t>(blocks) * budget.block_tokens;
  };
  pool.tokens = tokens_in(pool.cache);
  add_ends(model, settings, budget, pool);
  pool.tokens_low = tokens_in(pool.cache_low);
  pool.tokens_high = tokens_in(pool.cache_high);
  const double whole = std::ceil(settings.sequence / static_cast<double>(budget.block_tokens)) * budget.block_tokens;
  pool.requests = whole > 0 ? static_cast<double>(pool.tokens) / whole : 0;
  return pool;
}

double profiled_activations(const ModelFigures& model, const Settings& settings, const ServingBudget& budget) {
  const Widths w = widths_of(model, settings);
  // Gate, up and their product of one layer, residuals, and fp32 logits of the last tokens of a full batch of requests.
  const double layer = 6 * std::max(w.mlp, w.expert * w.experts_per_token) + 8 * model.shape.hidden;
  const double logits = 6 * w.vocab * std::min(budget.requests, budget.batched_tokens);
  return layer * budget.batched_tokens + logits;
}

}  // namespace gpuwarden::planning
