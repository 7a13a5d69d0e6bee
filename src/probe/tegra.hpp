// SPDX-License-Identifier: Apache-2.0
// The GPU within NVIDIA's systems on a chip (Jetson, Drive), which is on no bus and mostly behind no NVML.
#pragma once

#include <optional>

#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/probe/nvml_reader.hpp"

namespace gpuwarden::probe {

/// The GPU of a Tegra, as GPU 0, by its board's name from the device tree; nothing on other machines.
std::optional<facts::GpuRecord> read_tegra(const ReaderOptions& options);

}  // namespace gpuwarden::probe
