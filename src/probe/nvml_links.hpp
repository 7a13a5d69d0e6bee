// SPDX-License-Identifier: Apache-2.0
// How the GPUs are joined, through NVML; and CUDA's order of them, through the CUDA driver.
#pragma once

#include <optional>
#include <vector>

#include "gpuwarden/facts/snapshot.hpp"
#include "probe/nvml_library.hpp"

namespace gpuwarden::probe {

/// The connection of every pair. `devices` and `indices` belong together. `peer_access` adds what P2P status tells.
std::vector<facts::Link> read_links(const nvml::Functions& nvml, const std::vector<nvml::Device>& devices,
                                    const std::vector<GpuIndex>& indices, bool peer_access);

/// UUIDs in CUDA's default order, from libcuda.so.1; nothing where that is absent or fails.
std::optional<std::vector<Uuid>> read_cuda_order();

}  // namespace gpuwarden::probe
