// SPDX-License-Identifier: Apache-2.0
// This machine's kernel log, and what NVIDIA's driver wrote to it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::probe {

/// All messages since the machine was booted, by dmesg, else by journalctl. Fails with permission_denied where neither
/// may be read, with unavailable where neither is there.
Result<std::string> read_kernel_messages(std::chrono::milliseconds deadline);

/// The driver's faults among them; fails alike.
Result<std::vector<facts::KernelFault>> read_kernel_faults(std::chrono::milliseconds deadline);

}  // namespace gpuwarden::probe
