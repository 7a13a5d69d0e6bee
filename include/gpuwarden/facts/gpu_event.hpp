// SPDX-License-Identifier: Apache-2.0
// What happens to a GPU between two readings: GpuEvent. A plain value.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "gpuwarden/base/ids.hpp"

namespace gpuwarden::facts {

enum class GpuEventKind {
  xid,                ///< an error that the driver reported; data is its Xid number
  ecc_single_bit,     ///< a memory error that was corrected
  ecc_double_bit,     ///< a memory error that was not
  clock,              ///< the clocks changed
  performance_state,  ///< the P-state changed
  mig_config,         ///< MIG instances were made or removed
  lost,               ///< the GPU fell off the bus (NVML: GPU_IS_LOST); it is not watched any more
};
std::string_view to_string(GpuEventKind kind);
std::optional<GpuEventKind> gpu_event_kind_from(std::string_view name);

struct GpuEvent {
  GpuEventKind kind = GpuEventKind::xid;
  Uuid uuid;
  std::uint64_t data = 0;  ///< the Xid; else as NVML gives it, mostly 0
  std::chrono::system_clock::time_point time{};

  bool operator==(const GpuEvent&) const = default;
};

}  // namespace gpuwarden::facts
