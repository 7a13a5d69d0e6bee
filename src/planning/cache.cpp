// SPDX-License-Identifier: Apache-2.0
// The KV cache, and the pool that vLLM makes of what is left.
#include <algorithm>
#include <cmath>

#include "equations.hpp"
#include "gpuwarden/planning/gguf.hpp"
#include "gpuwarden/planning/layer_split.hpp"
#include "gpuwarden/planning/serving.hpp"

namespace gpuwarden::planning {

double kv_bytes_per_token(const ModelFigures& model, const Settings& settings) {
  const ModelShape& shape = model.shape;
  const double stages = settings.parallel.pipeline;
  const double layers = std::ceil(kv_layers(shape) / stages);
  double bytes = kv_bytes_per_layer(shape, settings.kv_bytes);
  const double tensor = settings.parallel.tensor;
  if (shape.latent.kv_rank == 0) bytes /= std::min(tensor, std::max(1.0, 1.0 * shape.kv_heads));
  const double token = bytes * layers + indexer_bytes_per_layer(shape) * std::ceil(shape.indexer.layers / stages);
  return token * cache_share(model, settings);
}

double cache_share(const ModelFigures& model, const Settings& settings) {
  return settings.split ? heaviest_load(model, settings).cache_share : 1;
}

double state_bytes_per_request(const ModelFigures& model, const Settings& settings) {
  const double state = linear_state_bytes(model.shape);
  return state > 0 ? state / settings.parallel.tensor * cache_share(model, settings) : 0;
}

double sliding_share(const ModelShape& model, double tokens) {
  if (model.sliding_window == 0 || model.sliding_layers == 0 || tokens <= model.sliding_window) return 1;
  const double sliding = std::min<double>(model.sliding_layers, model.layers) / std::max(1U, model.layers);
  return 1 - sliding + sliding * model.sliding_window / tokens;
}

namespace {

/// The least and the most of weights that engines are seen to hold, as shares of their own bytes: beside 16 bit rotary
/// tables and padded vocabularies, beside packed ones the kernels' own layouts. bitsandbytes' scratch is a sixth at
/// most, and was not told at all in one log (vLLM, gemma-2-9b on a T4).
struct LayoutShares {
  double least;
  double most;
};
LayoutShares layout_shares(const ModelShape& model, Quantization quantization) {
  // llama.cpp's buffers hold tensors as their file does, whose mix may be known by its nearest alone (llama_words.cpp).
  if (find_mix(quantization) != nullptr)
    return model.dynamic_mix.empty() ? LayoutShares{0.995, 1.01} : LayoutShares{0.93, 1.12};
  switch (quantization) {
    case Quantization::none:
      return {0.998, 1.02};
    case Quantization::nf4:
    case Quantization::nf4_double:
      return {0.87, 1.15};
    default:
      return {0.97, 1.04};
  }
}

/// What mxfp4's experts gain where they are padded to whole tiles of 256 in both directions, as vLLM's mxfp4 layers do,
/// which run gpt-oss's 2880 as 3072.
double padding_bytes(const ModelFigures& model, const Settings& settings, const ServingBudget& budget) {
  if (settings.quantization != Quantization::mxfp4 || !budget.pools) return 0;
  constexpr double kTile = 256;
  const auto padded = [](double width) { return width > 0 ? std::ceil(width / kTile) * kTile / width : 1; };
  const double growth = padded(model.shape.hidden) * padded(model.shape.experts.intermediate) - 1;
  const double each = frozen_bytes(frozen_format(model.shape, settings.quantization), 2);
  return growth * each * local_parameters(model, settings).experts;
}

/// Towers that tensor parallelism does not divide.
double whole_towers(const ModelFigures& model, const Settings& settings) {
  constexpr double kBytes = 2;
  return kBytes * static_cast<double>(model.shape.tower_parameters) * (1 - 1.0 / settings.parallel.tensor);
}

/// What an engine's profiling run holds that reads a whole request at once, as vLLM's did before it read prompts in
/// pieces (version 0.8; longer requests were read so before).
double whole_request_activations(const ModelFigures& model, const Settings& settings, ServingBudget budget) {
  constexpr std::uint32_t kReadInPieces = 32'768;
  if (settings.sequence <= kReadInPieces) budget.batched_tokens = std::max(budget.batched_tokens, settings.sequence);
  return profiled_activations(model, settings, budget);
}

/// What is left for the pool. SGLang's own share leaves what is computed with aside.
double pool_left(const ServingBudget& budget, double weights, double outside, double activations) {
  const double total = static_cast<double>(budget.gpu.usable.value);
  if (budget.static_share > 0) return std::max(0.0, budget.static_share * (total - outside) - weights);
  return (1 - budget.spared) * std::max(0.0, budget.utilization * total - weights - outside - activations);
}

/// The pool of engines that keep the most and the least besides.
void add_ends(const ModelFigures& model, const Settings& settings, const ServingBudget& budget, ServingPool& pool) {
  const bool measured = budget.activations.value > 0 || settings.split;
  const bool mxfp4 = settings.quantization == Quantization::mxfp4;
  const Figures& f = figures();
  const double outside_of_pools = settings.parallel.gpus() > 1 ? f.serving_outside_ranks_most : f.serving_outside_most;
  // Without a pool it is the CUDA context alone.
  const double beside = budget.gpu.beside.bytes(settings.sequence);
  const double outside = pool.outside - beside;
  const double outside_most = beside + std::max(outside, budget.pools ? outside_of_pools : f.cuda_context);
  const double outside_least = beside + std::min(outside, f.serving_outside_least);
  const double padding = padding_bytes(model, settings, budget);
  const LayoutShares shares = layout_shares(model.shape, settings.quantization);
  const double plain = pool.weights - padding / 2;
  pool.weights_low = plain * shares.least;
  pool.weights_high = plain * shares.most + padding + whole_towers(model, settings);
  // Dense layers' profiling runs differ by a quarter.
  constexpr double kMore = 1.25;
  constexpr double kLess = 0.4;
  const double most = measured ? pool.activations
                      : mxfp4  ? std::max(pool.activations, f.serving_mxfp4.high)
                               : kMore * whole_request_activations(model, settings, budget);
  const double least = measured ? pool.activations : mxfp4 ? f.serving_mxfp4.low : kLess * pool.activations;
  const auto left = [&](double weights, double outside, double activations) {
    return pool_left(budget, weights, outside, activations);
  };
  pool.cache_low = left(pool.weights_high, outside_most, most);
  pool.cache_high = left(pool.weights_low, outside_least, least);
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
  // How much of the padding an engine has differs by kernel: half of it is expected.
  pool.weights = weights.peak_moment().at(Use::weights) + padding_bytes(model, alone, budget) / 2;
  pool.activations = budget.activations.value > 0 ? static_cast<double>(budget.activations.value)
                     : settings.split             ? compute_buffer(model.shape, settings)
                                                  : profiled_activations(model, settings, budget);
  if (budget.activations.value == 0 && !settings.split && settings.quantization == Quantization::mxfp4)
    pool.activations = std::max(pool.activations, figures().serving_mxfp4.value);
  pool.outside = static_cast<double>(budget.outside.value) + budget.gpu.beside.bytes(settings.sequence);
  pool.cache = pool_left(budget, pool.weights, pool.outside, pool.activations);
  // A request's sliding layers stop at their window, so that its tokens take less each the longer it is; so does the
  // state of its linear attention, which has one size however long it is.
  const double whole = std::ceil(settings.sequence / static_cast<double>(budget.block_tokens)) * budget.block_tokens;
  const double state = state_bytes_per_request(model, settings);
  const double token = kv_bytes_per_token(model, settings) * sliding_share(model.shape, settings.sequence) +
                       (whole > 0 ? state / whole : 0);
  const auto tokens_in = [&](double cache) {
    // A cache that rests on the host is no matter of this GPU.
    if (token <= 0 && settings.split) return static_cast<std::uint64_t>(whole);
    const double blocks = token > 0 ? std::floor(cache / (token * budget.block_tokens)) : 0;
    return static_cast<std::uint64_t>(blocks) * budget.block_tokens;
  };
  pool.tokens = tokens_in(pool.cache);
  add_ends(model, settings, budget, pool);
  pool.tokens_low = tokens_in(pool.cache_low);
  pool.tokens_high = tokens_in(pool.cache_high);
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
