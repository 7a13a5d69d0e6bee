// SPDX-License-Identifier: Apache-2.0
#include "sim/nvml/mig_handles.hpp"

namespace gpuwarden::nvml::server {
namespace {

constexpr std::uintptr_t kGpuInstanceBase = 0x6E770000;
constexpr std::uintptr_t kComputeInstanceBase = 0x6E780000;

std::uintptr_t number_of(std::uintptr_t base, Slot slot) { return base + (std::uintptr_t{slot.gpu} << 8U) + slot.slot; }

/// What a handle names on a GPU that is there.
template <class Found, class Rows>
Return find_slot(std::uintptr_t number, std::uintptr_t base, Found& found, Rows rows) {
  if (const Return code = require_init(); code != kSuccess) return code;
  if (number < base || number >= base + (sim::kMaxGpus << 8U)) return kInvalidArgument;
  found.gpu = static_cast<std::uint32_t>(number - base) >> 8U;
  found.slot = static_cast<std::uint32_t>(number - base) & 0xFFU;
  if (found.slot >= sim::kMaxInstances) return kInvalidArgument;
  if (const Return code = resolve(to_device({found.gpu, std::nullopt}), found.target); code != kSuccess) return code;
  found.row = &rows(found.target.gpu->mig_state)[found.slot];
  return found.row->used != 0 ? kSuccess : kInvalidArgument;
}

}  // namespace

GpuInstance to_gpu_instance(Slot slot) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a number, not an address
  return reinterpret_cast<GpuInstance>(number_of(kGpuInstanceBase, slot));
}

ComputeInstance to_compute_instance(Slot slot) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a number, not an address
  return reinterpret_cast<ComputeInstance>(number_of(kComputeInstanceBase, slot));
}

Return resolve(GpuInstance instance, GpuInstanceTarget& found) {
  return find_slot(reinterpret_cast<std::uintptr_t>(instance), kGpuInstanceBase, found,
                   [](const sim::MigState& state) -> auto& { return state.gpu; });
}

Return resolve(ComputeInstance instance, ComputeInstanceTarget& found) {
  return find_slot(reinterpret_cast<std::uintptr_t>(instance), kComputeInstanceBase, found,
                   [](const sim::MigState& state) -> auto& { return state.compute; });
}

Return to_return(sim::MigChange change) {
  switch (change) {
    case sim::MigChange::done:
      return kSuccess;
    case sim::MigChange::no_room:
      return kInsufficientResources;
    case sim::MigChange::in_use:
      return kInUse;
    case sim::MigChange::not_found:
      break;
  }
  return kNotFound;
}

}  // namespace gpuwarden::nvml::server
