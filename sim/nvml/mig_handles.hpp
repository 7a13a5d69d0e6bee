// SPDX-License-Identifier: Apache-2.0
// Handles of MIG's GPU instances and compute instances: opaque numbers that name a GPU and a slot on it.
#pragma once

#include "sim/core/mig.hpp"
#include "sim/nvml/context.hpp"

namespace gpuwarden::nvml::server {

GpuInstance to_gpu_instance(Slot slot);
ComputeInstance to_compute_instance(Slot slot);

/// A live GPU instance.
struct GpuInstanceTarget {
  Target target;  ///< the whole GPU
  std::uint32_t gpu = 0;
  std::uint32_t slot = 0;
  const sim::SharedGpuInstance* row = nullptr;
};
struct ComputeInstanceTarget {
  Target target;
  std::uint32_t gpu = 0;
  std::uint32_t slot = 0;
  const sim::SharedComputeInstance* row = nullptr;
};
/// kInvalidArgument for what is no handle or no longer one; the GPU's trouble where it has one.
Return resolve(GpuInstance instance, GpuInstanceTarget& found);
Return resolve(ComputeInstance instance, ComputeInstanceTarget& found);

Return to_return(sim::MigChange change);

}  // namespace gpuwarden::nvml::server
