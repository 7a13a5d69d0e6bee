// SPDX-License-Identifier: Apache-2.0
// CUDA as this process has started it, asked without starting it.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "gpuwarden/base/ids.hpp"

namespace gpuwarden::pools {

/// The devices that CUDA shows this process, by their ordinals, with empty UUIDs where the driver does not tell them;
/// nothing where CUDA has not been started in this process (cuInit), as in a child that it forked. From then on the
/// choice is made: CUDA has read CUDA_VISIBLE_DEVICES and does not read it again. Loads and starts nothing.
std::optional<std::vector<Uuid>> started_cuda_devices(const std::filesystem::path& library = "libcuda.so.1");

}  // namespace gpuwarden::pools
