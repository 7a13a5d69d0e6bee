// SPDX-License-Identifier: Apache-2.0
// What a user asks of the selector.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/facts/gpu.hpp"
#include "gpuwarden/planning/workload.hpp"

namespace gpuwarden::placement {

/// A GPU as a user names it: an NVML index, a UUID or a unique prefix of one ("GPU-3f", "MIG-…"), a PCI bus
/// id, whose domain may be left out where one GPU alone fits ("17:00.0").
struct GpuName {
  std::string text;
  bool operator==(const GpuName&) const = default;
};

/// Which GPUs are wanted. Empty fields do not restrict.
struct Request {
  std::vector<GpuName> gpu_ids;          ///< exactly these
  std::optional<std::uint32_t> count;    ///< this many; without gpu_ids, count and a model: one
  bool all = false;                      ///< every GPU that passes
  std::optional<Bytes> min_memory;       ///< total, per GPU
  std::optional<Bytes> min_free_memory;  ///< free right now, per GPU
  std::optional<Percent> max_utilization;
  std::optional<facts::ComputeCapability> min_compute_capability;
  std::optional<std::string> name_contains;  ///< case-insensitive
  /// As many GPUs, and as much free memory of each, as planning says that this work needs (placement/model_fit.hpp),
  /// at the micro-batch of its settings. With gpu_ids, count or all: whether these do.
  std::optional<planning::Workload> work;
  std::optional<Bytes> model_size;         ///< the same for inference with weights of this size in 16 bit
  std::uint32_t nodes = 1;                 ///< machines like this one, over which the work is spread
  bool mig = false;                        ///< MIG instances instead of whole GPUs
  std::optional<std::string> mig_profile;  ///< "1g.10gb"; implies mig
  std::vector<GpuName> prefer;             ///< tried in this order before all others
  std::vector<GpuName> exclude;
  bool shared = false;      ///< others may use the GPUs too: shared leases and busy GPUs are acceptable
  bool allow_busy = false;  ///< GPUs that processes without a lease hold are acceptable
  /// MIG instances are for one process each; several are only valid when every rank gets its own.
  bool one_process_per_device = false;
  bool force_cpu = false;

  bool operator==(const Request&) const = default;
};

/// The part of the caller's environment that restricts the choice.
struct Visibility {
  std::optional<std::string> cuda_visible_devices;
  std::optional<std::string> cuda_device_order;
};
Visibility visibility_from(const Environment& environment);

}  // namespace gpuwarden::placement
