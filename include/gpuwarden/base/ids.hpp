// SPDX-License-Identifier: Apache-2.0
// Identities that must not be mixed: NVML's index and CUDA's ordinal name different GPUs on a mixed machine.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <utility>

namespace gpuwarden {

/// Position of a GPU in NVML's order (by PCI bus id), as nvidia-smi shows it. From 0.
struct GpuIndex {
  std::uint32_t value = 0;
  auto operator<=>(const GpuIndex&) const = default;
};

/// Position of a GPU in CUDA's order, which depends on CUDA_DEVICE_ORDER and CUDA_VISIBLE_DEVICES. From 0.
struct CudaOrdinal {
  std::uint32_t value = 0;
  auto operator<=>(const CudaOrdinal&) const = default;
};

/// A process id.
struct Pid {
  std::int32_t value = 0;
  auto operator<=>(const Pid&) const = default;
};

/// "GPU-…" for a whole GPU, "MIG-…" for a MIG instance, as NVML spells it.
struct Uuid {
  std::string value;
  Uuid() = default;
  explicit Uuid(std::string v) : value(std::move(v)) {}
  auto operator<=>(const Uuid&) const = default;
};

}  // namespace gpuwarden
