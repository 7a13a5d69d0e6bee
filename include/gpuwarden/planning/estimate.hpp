// SPDX-License-Identifier: Apache-2.0
// How much memory one GPU needs, by component, at each moment of a step. A step's peak is the largest of its moments,
// and each moment is a sum of terms affine in the tokens of a micro-batch; docs/plan.md tells them.
//
// The terms were found by reading what the frameworks keep alive, and held against 366 measured training peaks and 68
// of inference (bench/planner_truth; tests/planning/truth_test.cpp holds the figures reached).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/planning/model.hpp"
#include "gpuwarden/planning/settings.hpp"

namespace gpuwarden::planning {

/// What memory is used for.
enum class Use {
  weights,
  gradients,
  optimizer_states,
  optimizer_temporaries,
  unsharded_layers,  ///< weights gathered for computing (FSDP, ZeRO-3)
  checkpoints,       ///< layers' inputs, or all that is kept without recomputation
  working_set,       ///< of the layer that is being differentiated or computed
  logits,            ///< and the loss
  kv_cache,
  buffers,  ///< of communication and of kernels, inside the allocator
};
inline constexpr std::size_t kUses = 10;
std::string_view to_string(Use use);
/// The same in words that suit the settings: what is kept where nothing is computed again is "activations".
std::string_view name_of(Use use, const Settings& settings);

/// When.
enum class MomentKind {
  loss,            ///< the forward pass is done, the loss is differentiated
  first_backward,  ///< the last layer is differentiated while all layers' inputs are kept
  last_backward,   ///< the first layer is, and nearly all gradients are there
  optimizer_step,
  sharding,    ///< shards are cut from a whole replica, before the first step
  generation,  ///< inference
};
std::string_view to_string(MomentKind kind);

/// One moment of a step, in bytes.
struct Moment {
  MomentKind kind = MomentKind::loss;
  std::array<double, kUses> uses{};

  double total() const;
  double at(Use use) const { return uses[static_cast<std::size_t>(use)]; }
  bool operator==(const Moment&) const = default;
};

/// What lies on each GPU beside the model that is planned: a draft model, whose cache is as long as the model's.
struct Beside {
  std::string name;           ///< empty: nothing
  double fixed = 0;           ///< bytes, however long requests are: weights, states of linear attention
  double token = 0;           ///< bytes of each token's cache
  double windowed_token = 0;  ///< besides, of each of the first `window` tokens: in layers that look no further back
  std::uint32_t window = 0;
  double cache(std::uint32_t tokens) const;
  double bytes(std::uint32_t tokens) const { return fixed + cache(tokens); }
  bool operator==(const Beside&) const = default;
};

/// What is known about a GPU's memory; `usable` is what nvidia-smi calls total (79.15 GiB of an A100 of 80 GB).
struct GpuBudget {
  Bytes usable{};
  Beside beside{};
  /// Bytes that are left to the model where requests have so many tokens.
  double left(std::uint32_t tokens) const;
  bool operator==(const GpuBudget&) const = default;
};

struct Estimate {
  std::array<Moment, 5> moments{};
  std::size_t moment_count = 0;
  std::size_t peak = 0;     ///< index of the largest moment
  bool last_stage = false;  ///< of a pipeline the last stage needs the most, not the first

  double allocated = 0;      ///< bytes: what torch.cuda.max_memory_allocated would say
  double context = 0;        ///< outside of the allocator: the CUDA context
  double communication = 0;  ///< outside of the allocator: NCCL
  double reserve = 0;        ///< what the caching allocator holds beyond what is allocated
  double host = 0;           ///< bytes per GPU on the host: what is offloaded

  /// By how much the allocated peak may be off, as shares of it: less, and beside that more. By kind of plan, from
  /// measured rows of that kind (planning_figures.csv, uncertainty_*).
  double uncertainty = 0.10;
  double more_share = 0;
  double more_bytes = 0;  ///< that other versions of the same software hold besides

  const Moment& peak_moment() const { return moments[peak]; }
  double expected() const { return allocated + context + communication + reserve; }
  double low() const { return allocated * (1 - uncertainty) + context / 2; }
  double high() const {
    return allocated * (1 + uncertainty + more_share) + more_bytes + context + communication + reserve;
  }
  bool operator==(const Estimate&) const = default;
};

/// The numbers of a model that the equations need, counted once.
struct ModelFigures {
  ModelShape shape;
  double total = 0;      ///< parameters
  double active = 0;     ///< that a token passes through
  double linear = 0;     ///< in the layers' matrices, which quantised loaders shrink
  double experts = 0;    ///< of them, in routed experts
  double embedding = 0;  ///< rows x hidden
  double root = 0;       ///< outside of the layers: embedding, head, last norm
  double layer = 0;      ///< the largest layer
  double adapters(const Adapters& adapters) const;
};
ModelFigures figures_of(const ModelShape& model);

/// The memory of one GPU (the one that needs the most), pure and exact to the byte for the same input. Settings that
/// check() refuses give an invalid_argument.
Result<Estimate> estimate(const ModelFigures& model, const Settings& settings);
Result<Estimate> estimate(const ModelShape& model, const Settings& settings);

/// One line of an explanation: a use, its bytes at the peak, how they come about, and who says so.
struct ExplainedUse {
  std::string name;
  double bytes = 0;
  std::string formula;
  std::string_view source;
  bool operator==(const ExplainedUse&) const = default;
};
/// Every line of the peak moment that is not 0, then what is outside of the allocator.
std::vector<ExplainedUse> explain(const ModelFigures& model, const Settings& settings, const Estimate& estimate);

enum class Fit {
  fits,   ///< even the high figure does, or the expected one with 15% to spare
  tight,  ///< the expected figure does
  does_not_fit,
};
std::string_view to_string(Fit fit);
/// `tokens`: of a request, which say how much what lies beside the model takes.
Fit judge(const Estimate& estimate, const GpuBudget& gpu, std::uint32_t tokens = 0);

}  // namespace gpuwarden::planning
