// SPDX-License-Identifier: Apache-2.0
// User and command line of processes, from /proc or its stand-ins.
#pragma once

#include <filesystem>
#include <vector>

#include "gpuwarden/facts/gpu.hpp"

namespace gpuwarden::probe {

/// Fills user and command from the first root that knows the pid; both stay empty where nobody permits or knows.
void name_process(const std::vector<std::filesystem::path>& proc_roots, facts::GpuProcess& process);

}  // namespace gpuwarden::probe
