// SPDX-License-Identifier: Apache-2.0
// How many tokens and requests a serving engine keeps at once, as vLLM's pool arithmetic gives it:
// pool = utilization x total - weights - outside of the allocator - activations of its profiling run.
// Source: vLLM's start-up log ("Available KV cache memory"); 0.9 x 79.22 - 14.96 - 1.79 - 1.26 = 53.28 GiB where the
// log says 53.29 (Llama 3 8B, H100).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/planning/estimate.hpp"
#include "gpuwarden/planning/search.hpp"
#include "gpuwarden/planning/settings.hpp"

namespace gpuwarden::planning {

struct ServingBudget {
  GpuBudget gpu;
  double utilization = 0.9;  ///< of the GPU's memory that the engine takes
  /// SGLang's --mem-fraction-static, above 0: the pool is this share of what is free before the weights are loaded,
  /// less the weights; what is computed with lies in the rest. Source: sglang/srt/model_executor/
  /// model_runner_kv_cache_mixin.py (rest_memory = available - total x (1 - mem_fraction_static)).
  double static_share = 0;
  double spared = 0;             ///< of what weights and computing leave, what the engine takes for no cache
  Bytes outside{512ULL << 20U};  ///< of the allocator: context, NCCL; 0.16 to 1.8 GiB by version, 3.6 with two ranks
  Bytes activations{};           ///< of the profiling run where measured; 0: computed
  std::uint32_t batched_tokens = 8192;  ///< of the profiling run (max_num_batched_tokens)
  std::uint32_t requests = 256;         ///< of it, whose last tokens have logits (max_num_seqs)
  std::uint32_t block_tokens = 16;      ///< of a block of the pool
  /// A share of the GPU is taken for a pool, as vLLM does; false: the cache that is asked for is allocated beside
  /// weights and buffers, the input's embedding stays with the CPU, as llama.cpp has it.
  bool pools = true;
  bool operator==(const ServingBudget&) const = default;
};

/// Bytes are of one GPU.
struct ServingPool {
  double weights = 0;
  double activations = 0;
  double outside = 0;
  double cache = 0;                          ///< 0: the model leaves no room
  std::uint64_t tokens = 0;                  ///< that the pool holds, all requests together
  double weights_low = 0, weights_high = 0;  ///< as engines lay them out: padded, with what kernels keep beside them
  double cache_low = 0, cache_high = 0;      ///< by version of the engine: what it keeps outside, its profiling run
  std::uint64_t tokens_low = 0, tokens_high = 0;
  double requests = 0;  ///< of settings.sequence tokens each, at once
  bool operator==(const ServingPool&) const = default;
};

/// The pool of one GPU, or of each tensor-parallel rank. `settings.sequence` is one request's tokens, kv_bytes the
/// cache's element. Fails with invalid_argument on settings that check() refuses and on a utilization outside 0 to 1.
Result<ServingPool> serving_pool(const ModelFigures& model, const Settings& settings, const ServingBudget& budget);

/// The most tokens, up to settings.sequence and else in whole blocks, of a request that the pool of the best strategy
/// over request.gpus holds; 0: none.
std::uint32_t longest_request(const ModelFigures& model, const SearchRequest& request, const ServingBudget& budget);

/// Where the weights fit, but the pool holds not one request of settings.sequence tokens: what makes it hold one,
/// cheapest first. Settings of the engine, an 8-bit cache, quantised weights, requests of `longest` tokens (what
/// longest_request says), and `smallest` GPUs. Empty where it holds one already, and where nothing helps.
std::vector<Change> pool_changes(const ModelFigures& model, const SearchRequest& request, const ServingBudget& budget,
                                 std::uint32_t longest, std::optional<std::uint32_t> smallest);

/// What a forward pass over budget.batched_tokens holds beside the weights, bytes.
double profiled_activations(const ModelFigures& model, const Settings& settings, const ServingBudget& budget);

}  // namespace gpuwarden::planning
