// SPDX-License-Identifier: Apache-2.0
// The lines of programs that tell of GPUs, drivers and versions.
#pragma once

#include <span>
#include <string_view>

namespace gpuwarden::capture {

/// One line of a program. Named groups of the pattern say what stands there:
///   index, number (of a list, not CUDA's), gpu, count (of equal GPUs), memory ("24 GiB"), memory_gib, memory_mib,
///   memory_bytes, capability ("8.6"), sm ("86"), gfx, uuid: of a GPU; without gpu, of the one that this program told
///   last; device ("NVIDIA_H100_80GB_HBM3"): a name in a file's; rank: of a local process, which has that GPU; tp: of
///   a process, counted over all nodes; other: a
///   GPU that is none of those told of, with what follows it;
///   driver, cuda_driver ("12.4"), cuda_number ("12040"), torch, cuda_build, cuda_available, python, platform,
///   os, module (of the kernel): of the machine;
///   name and version: of a Python package; p_NAME: the version of the package NAME, u_NAME: the same with underscores
///   ("3_5_1").
struct ProgramLine {
  std::string_view program;
  std::string_view literal;  ///< stands in every such line
  const char* pattern;       ///< RE2
  bool sure = true;          ///< no other program prints it; the others count beside one that is
};

std::span<const ProgramLine> program_lines();

}  // namespace gpuwarden::capture
