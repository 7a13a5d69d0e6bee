// SPDX-License-Identifier: Apache-2.0
// What log collectors, launchers and container engines write before every line of a program.
#pragma once

#include <cstddef>
#include <string_view>

namespace gpuwarden::capture {

/// The beginning of a line that is not the program's: its length, and the part that names the speaker (a rank, a
/// container, a host) without the time.
struct Prefix {
  std::size_t length = 0;
  std::string_view speaker;
};

/// Shapes that no tool known here begins a line with: ISO times, "stdout F ", "[0] ", "[rank0]: ", "gpu-1 | ",
/// "(worker pid=77) ", "[pod/name/container] ".
Prefix prefix_of(std::string_view line);

/// "node1: " and "3: " (srun -l, pdsh): shapes that tools use too, so that only a run of them is a prefix.
Prefix weak_prefix_of(std::string_view line);

}  // namespace gpuwarden::capture
