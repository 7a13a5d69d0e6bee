// SPDX-License-Identifier: Apache-2.0
// The GPUs that a plan is made for: named and counted ("8xh100"), or those of a snapshot.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/knowledge/gpu_models.hpp"

namespace gpuwarden::planning {

/// GPUs of one kind. Figures of speed are published peaks without sparsity; 0: not known.
struct GpuGroup {
  std::uint32_t count = 1;
  std::string name;              ///< "NVIDIA H100 80GB HBM3"
  Bytes usable{};                ///< memory that programs can have on an idle GPU, of each
  bool usable_measured = false;  ///< as CUDA or NVML told; false: a share of what the maker prints
  double fp32_tflops = 0;        ///< 10^12 a second
  double tf32_tflops = 0;
  double fp16_tflops = 0;
  double bf16_tflops = 0;
  double fp8_tflops = 0;
  double memory_bandwidth_gb_s = 0;  ///< 10^9 bytes a second
  double nvlink_gb_s = 0;            ///< both directions together; 0: PCIe only, or not known
  int capability_major = 0;
  int capability_minor = 0;
  std::string source;  ///< of the figures
  bool operator==(const GpuGroup&) const = default;
};

inline constexpr std::uint32_t kMostGpus = 1'000'000;

/// The GPUs of a text: "h200", "8xh100", "4 x a100-40gb", "16 * rtx 4090". Words are looked up among the models of the
/// knowledge base; of several that fit, the one that most people mean: the name itself, then SXM before PCIe, then the
/// larger memory. Fails with invalid_argument on a count that is none, with not_found on a model that is not known.
Result<GpuGroup> gpus_named(std::string_view text);

/// One GPU of this model.
GpuGroup gpus_of(const knowledge::GpuModel& model);

/// The usable GPUs of a snapshot that are most alike: of several kinds, the one with the most memory together. Where a
/// reading names a GPU but not its memory (nvidia-smi -L, collect_env), the memory is the model's. Fails with
/// unsatisfied where there is none whose memory is known, or MIG divides them all.
Result<GpuGroup> gpus_of(const facts::Snapshot& snapshot);

/// What a plan for that group of the snapshot's GPUs leaves unsaid, a sentence each: GPUs of its kind that do not
/// answer or are divided, which are not counted, and those of which others hold more than `kIdleMemory`, which are
/// counted as if they were free.
std::vector<std::string> gpus_left_unsaid(const facts::Snapshot& snapshot, const GpuGroup& group);
/// What an idle GPU may hold beside what its driver reserves.
inline constexpr Bytes kIdleMemory{1ULL << 30U};

}  // namespace gpuwarden::planning
