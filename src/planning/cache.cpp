// SPDX-License-Identifier: Apache-2.0
// The KV cache, and the pool that vLLM makes of what is left.
#include <algorithm>
#include <cmath>

#include "equations.hpp"
#include "gpuwarden/planning/serving.hpp"

namespace gpuwarden::planning {

double kv_bytes_per_token(const ModelFigures& model, const Settings& settings) {
  const ModelShape& shape = model.shape;
  const double layers = std::ceil(static_cast<double>(shape.layers) / settings.parallel.pipeline);
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
                                                  : profiled_activations(model, settings, budget.batched_tokens);
  pool.outside = static_cast<double>(budget.outside.value);
  const double total = static_cast<double>(budget.gpu.usable.value);
  pool.cache = std::max(0.0, budget.utilization * total - pool.weights - pool.outside - pool.activations);
  const double token = kv_bytes_per_token(model, settings);
  const double blocks = token > 0 ? std::floor(pool.cache / (token * budget.block_tokens)) : 0;
  pool.tokens = static_cast<std::uint64_t>(blocks) * budget.block_tokens;
  const double whole = std::ceil(settings.sequence / static_cast<double>(budget.block_tokens)) * budget.block_tokens;
  const double request = whole * sliding_share(model.shape, settings.sequence);
  pool.requests = request > 0 ? static_cast<double>(pool.tokens) / request : 0;
  return pool;
}

double profiled_activations(const ModelFigures& model, const Settings& settings, std::uint32_t batched_tokens) {
  const Widths w = widths_of(model, settings);
  // Gate, up and their product of one layer, residuals, and fp32 logits of the last tokens of a full batch of requests.
  const double layer = 6 * std::max(w.mlp, w.expert * w.experts_per_token) + 8 * model.shape.hidden;
  const double logits = 6 * w.vocab * 256;
  return layer * batched_tokens + logits;
}

}  // namespace gpuwarden::planning
