// SPDX-License-Identifier: Apache-2.0
// What NVIDIA's driver wrote to this machine's kernel log.
#pragma once

#include <chrono>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::probe {

/// Faults since the machine was booted, by dmesg, else by journalctl. Fails with permission_denied where neither may be
/// read, with unavailable where neither is there.
Result<std::vector<facts::KernelFault>> read_kernel_faults(std::chrono::milliseconds deadline);

}  // namespace gpuwarden::probe
