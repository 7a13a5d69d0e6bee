// SPDX-License-Identifier: Apache-2.0
// What the operating system's own tools print: uname -a, os-release, lsb_release, lsmod, modinfo nvidia, dpkg -l,
// gcc --version, ldd --version, ulimit -a, systemctl status, docker info; and NAME=value lines of an environment.
#pragma once

#include <span>

#include "capture/lines.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::capture {

/// Adds what stands in the lines to the environment; the number of the first such line, 0 where there is none.
std::uint32_t read_system_output(std::span<const Line> lines, facts::Environment& environment);

}  // namespace gpuwarden::capture
