// SPDX-License-Identifier: Apache-2.0
// Which strategy: every sensible way to spread a task over GPUs, judged by memory and by what it costs in time.
//
// Memory comes from estimate(). The cost that ranks strategies is a rough time for a token: arithmetic at the GPU's
// usual utilization, what is computed again, what is sent over NVLink and between nodes, and the idle time of
// pipelines. It orders strategies; it is no promise of speed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/planning/calibrate.hpp"
#include "gpuwarden/planning/estimate.hpp"
#include "gpuwarden/planning/settings.hpp"

namespace gpuwarden::planning {

struct SearchRequest {
  Settings settings;  ///< the task; parallelism, and where not fixed micro-batch and recomputation, are searched
  GpuBudget gpu;
  std::uint32_t gpus = 1;
  std::uint32_t gpus_per_node = 8;  ///< that NVLink joins
  std::uint64_t global_batch = 0;   ///< samples of an optimizer step; 0: free
  std::uint32_t micro_batch = 0;    ///< fixed; 0: the largest that fits
  bool fixed_recompute = false;     ///< settings.recompute is to be kept
  /// settings.parallel is to be kept; its data-parallel ranks follow from `gpus`. Recomputation is searched unless it
  /// is fixed, or calibrated.
  bool fixed_strategy = false;
  /// Of a fixed strategy: its sharding was not asked for. Where no replicas are left there is none.
  bool usual_sharding = false;
  std::optional<Calibration> calibration;    ///< measured peaks of these settings, in the place of the equations
  std::uint32_t largest_micro_batch = 4096;  ///< beyond which nothing is tried
  double peak_flops = 312e12;                ///< of one GPU, dense, in the type of computing
  double link_bytes = 200e9;                 ///< per second and GPU within a node, reached in collectives
  double network_bytes = 20e9;               ///< per second and GPU between nodes
};

/// One strategy with the micro-batch that suits it.
struct Candidate {
  std::string name;  ///< "FSDP over 8", "TP 4 x DDP 2"
  Settings settings;
  Estimate estimate;  ///< at that micro-batch
  Fit fit = Fit::does_not_fit;
  std::uint32_t largest_micro_batch = 0;  ///< that fits, up to the request's; 0: not even one sample
  std::uint64_t effective_batch = 0;      ///< samples of an optimizer step: micro-batch x data x accumulation
  bool misses_global_batch = false;       ///< that is not the global batch: its ranks and micro-batch do not divide it
  double seconds_per_token = 0;           ///< rough, of all GPUs together
  /// True where the request's framework does not bring this: tensor, pipeline, context or expert parallelism in
  /// training outside of Megatron and torchtitan. settings.framework is then the one that does: torchtitan with FSDP,
  /// else Megatron; its bytes are counted. Preferred only where nothing of the request's own framework fits.
  bool other_framework = false;
};

/// A change to the settings that makes a task fit that did not.
struct Change {
  std::string what;  ///< "compute the loss without storing logits (fused linear cross entropy)"
  Candidate candidate;
};

struct Search {
  std::vector<Candidate> candidates;  ///< best first; those of the settings' own framework that fit or are tight lead
  std::size_t searched = 0;           ///< settings whose memory was computed
  std::optional<std::size_t> recommended;  ///< index of a candidate; empty: nothing fits
  std::string reason;                      ///< a sentence
  /// With which some strategy (the fixed one) fits or is tight: every count up to a node is tried, then whole nodes,
  /// and from 1,024 GPUs on steps of a sixteenth, up to 65,536. Empty: none.
  std::optional<std::uint32_t> smallest_gpus;
  /// With which what is recommended fits with room to spare, not only tightly; empty: none up to these GPUs or, where
  /// these are too few, up to four times as many as are needed at least.
  std::optional<std::uint32_t> roomy_gpus;
  std::vector<Change> changes;  ///< cheapest first; only where nothing fits
};

/// All ways to spread the task over exactly `gpus` GPUs: names and settings, not judged. Training: DDP, ZeRO-1 and -2,
/// FSDP, tensor and pipeline parallelism over them, context parallelism for sequences of 32,768 and more, experts
/// spread. Inference and serving: tensor parallelism, across nodes too. Of several nodes, stages where a node's tensor
/// parallelism ends: up to 64, which divide the GPUs but not necessarily the layers. A fixed strategy: that one, or
/// none where it cannot be spread over so many.
std::vector<Candidate> strategies(const ModelFigures& model, const SearchRequest& request);

/// Fails with invalid_argument on settings that check() refuses, on no GPUs, and on a budget without memory.
Result<Search> plan(const ModelFigures& model, const SearchRequest& request);

/// The fewest GPUs, up to `most`, on which some strategy fits; request.gpus is not looked at. Empty: none.
std::optional<std::uint32_t> fewest_gpus(const ModelFigures& model, const SearchRequest& request, std::uint32_t most);

}  // namespace gpuwarden::planning
