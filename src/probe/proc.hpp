// SPDX-License-Identifier: Apache-2.0
// Who a process is - user, command line, container, pod, job - from /proc or its stand-ins.
#pragma once

#include <filesystem>
#include <vector>

#include "gpuwarden/facts/gpu.hpp"

namespace gpuwarden::probe {

/// Fills user, command, container, pod and job from the first root that knows the pid; what nobody permits or knows
/// stays empty.
void name_process(const std::vector<std::filesystem::path>& proc_roots, facts::GpuProcess& process);

}  // namespace gpuwarden::probe
