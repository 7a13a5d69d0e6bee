// SPDX-License-Identifier: Apache-2.0
// Metrics of processes and users, whose number nobody knows beforehand: bounded.
#pragma once

#include <cstddef>
#include <span>

#include "serve/exposition.hpp"
#include "serve/gpu_lines.hpp"

namespace gpuwarden::serve {

/// Writes at most `most` processes and at most `most` pairs of user and GPU, those with the most memory first, and how
/// many were left out.
void write_user_series(Exposition& out, std::span<const GpuLine> lines, std::size_t most);

}  // namespace gpuwarden::serve
