// SPDX-License-Identifier: Apache-2.0
// Runs NVIDIA's own program.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"

namespace gpuwarden::probe {

/// Runs nvidia-smi (a name for PATH, also looked for where WSL has it, or a path) with these arguments. Fails with
/// not_found / permission_denied where it cannot be started.
Result<Completed> run_nvidia_smi(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                                 std::chrono::milliseconds deadline);

}  // namespace gpuwarden::probe
