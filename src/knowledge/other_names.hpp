// SPDX-License-Identifier: Apache-2.0
// GPUs that go by other names than NVML's of a whole card: virtual ones, and those in a Jetson.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gpuwarden::knowledge {

/// "A100" of the vGPU "GRID A100D-80C", "L40S" of "NVIDIA L40S-48Q", "RTX 6000" of "GRID RTX6000-24Q"; empty for the
/// name of anything else.
std::string board_of_vgpu(std::string_view name);

/// 87 of "Jetson AGX Orin", 110 of "Jetson Thor", 107 of "Vera Rubin NVL144"; nothing for other names.
std::optional<int> architecture_of_product(std::string_view name);

}  // namespace gpuwarden::knowledge
