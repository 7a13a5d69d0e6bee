// SPDX-License-Identifier: Apache-2.0
// The CPUs of this machine and where they are, from the kernel's tree.
#pragma once

#include <filesystem>
#include <vector>

#include "gpuwarden/facts/cpu.hpp"

namespace gpuwarden::probe {

/// The CPUs that are online (SYS_ROOT/devices/system/cpu), ascending; what the kernel does not tell of one is empty.
/// None where the tree cannot be read.
std::vector<facts::Cpu> read_cpus(const std::filesystem::path& sys_root);

}  // namespace gpuwarden::probe
