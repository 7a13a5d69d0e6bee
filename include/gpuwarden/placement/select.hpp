// SPDX-License-Identifier: Apache-2.0
// Chooses GPUs for a request: pure, from facts to a decision with a reason for every GPU.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/health.hpp"
#include "gpuwarden/facts/lease.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/placement/model_fit.hpp"
#include "gpuwarden/placement/request.hpp"

namespace gpuwarden::placement {

/// A GPU or MIG instance that can be given to a job.
struct Device {
  GpuIndex index;                    ///< of the GPU, or of the GPU the instance is on
  Uuid uuid;                         ///< what goes into CUDA_VISIBLE_DEVICES
  std::optional<std::uint32_t> mig;  ///< the instance's index within its GPU
  std::string name;
  bool operator==(const Device&) const = default;
};

/// Why a device was taken or not. `transient` reasons (busy, leased, too little free memory, a waiting line) may pass
/// by waiting; the others will not.
struct Verdict {
  /// What the reason is about; `reason` is for people alone.
  enum class Kind {
    fits,              ///< nothing stands in the way; chosen, or others were preferred, or the rest is missing
    not_named,         ///< the request names others
    hidden,            ///< CUDA_VISIBLE_DEVICES hides it
    excluded,          ///< by the request
    other_vendor,      ///< CUDA cannot use it
    disabled,          ///< somebody took it out of use (`gpuwarden disable`)
    unhealthy,         ///< it is in trouble
    mig_on,            ///< only its instances can be used
    other_profile,     ///< of the instance
    mode_prohibited,   ///< compute mode
    other_name,        ///< than the request wants
    low_capability,    ///< compute capability
    little_memory,     ///< in all
    leased,            ///< by others
    promised,          ///< to those who waited before
    in_use,            ///< by processes that are seen
    use_unknown,       ///< who uses it cannot be read, so it does not count as free
    unseen_use,        ///< by processes that are not seen
    little_free,       ///< memory
    high_utilization,  ///< above the request's bound
  };
  Device device;
  bool chosen = false;
  bool transient = false;
  Kind kind = Kind::fits;
  std::string reason;
};
std::string_view to_string(Verdict::Kind kind);

/// How a model is on the GPUs: on one, whole on each, or spread over them (FSDP, ZeRO, tensor parallelism ...).
enum class Strategy { single, ddp, fsdp };
std::string_view to_string(Strategy strategy);

/// The outcome. Not satisfied: `selected` is empty and `missing` says what is lacking, on which GPU.
struct Decision {
  bool satisfied = false;
  bool cpu = false;  ///< the job is to run on the CPU: CUDA_VISIBLE_DEVICES is empty
  std::vector<Device> selected;
  std::vector<Verdict> verdicts;  ///< every device considered, in index order
  std::vector<std::string> warnings;
  std::string missing;
  bool may_come_true = false;  ///< waiting could help
  /// Devices that would do if they were free: what a waiting request stands in line for.
  std::vector<Uuid> candidates;
  /// Runs whose launcher was killed and of which something is left that holds such devices: it may do so for ever.
  std::vector<std::string> leftover_runs;
  std::size_t wanted = 1;            ///< how many devices the request takes
  std::optional<Strategy> strategy;  ///< where work or a model size was given
  /// Where one was given: how it fits the chosen devices; not satisfied: how it does not fit those that can be had.
  /// Empty: none can be had.
  std::optional<ModelFit> model;
};

/// Everything the decision depends on.
struct Inputs {
  const facts::Snapshot& snapshot;
  const std::vector<facts::Lease>& leases;
  /// Devices that requests waiting in line before this one have a claim to.
  const std::vector<Uuid>& spoken_for;
  Visibility visibility;
  /// Devices that are out of use for the caller, by his own or root's word.
  std::span<const facts::Disabling> disabled = {};
};

/// Decides. Fails with invalid_argument for a request that contradicts itself, names what does not exist (the hint says
/// what exists) or wants work whose settings planning::check() refuses, with unavailable where the driver does not
/// answer.
Result<Decision> select(const Request& request, const Inputs& inputs);

/// A line for every device that was considered: chosen, or why not.
std::string explain(const Decision& decision);

/// The plan for the machine's GPUs that the request's work could have if they were free: what a user is told where it
/// does not fit (its `search.changes` are what would make it fit, cheapest first). Fails as select() does, with
/// invalid_argument for a request without work, and with unsatisfied where no GPU could ever be had.
Result<planning::PlanAnswer> plan_if_free(const Request& request, const Inputs& inputs);

/// "GPU-a,GPU-b"; empty for the CPU.
std::string cuda_visible_devices(const Decision& decision);

}  // namespace gpuwarden::placement
