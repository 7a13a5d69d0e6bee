// SPDX-License-Identifier: Apache-2.0
// What the toolkit's own tools print, and what shows the libraries around it: nvcc --version and --list-gpu-arch,
// /proc/driver/nvidia/version, ldconfig -p, lists of Python's packages.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capture/lines.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::capture {

struct ToolkitOutput {
  std::uint32_t line = 0;                          ///< of the first part
  std::string nvcc_release;                        ///< "12.4"
  std::string nvcc_version;                        ///< "12.4.131"
  std::vector<std::string> architectures;          ///< "compute_90", "sm_90"
  std::string driver;                              ///< of /proc/driver/nvidia/version: "550.54.15"
  std::optional<facts::ModuleFlavour> flavour;     ///< of the same line
  std::vector<facts::Library> libraries;           ///< of ldconfig -p, in its order
  std::size_t cached_libraries = 0;                ///< lines of ldconfig -p
  std::optional<facts::PythonEnvironment> python;  ///< of pip freeze, conda list and the like
};

/// What of it stands in the lines; empty where nothing does.
std::optional<ToolkitOutput> read_toolkit_output(std::span<const Line> lines);

facts::Snapshot snapshot_of_toolkit_output(const ToolkitOutput& output);

}  // namespace gpuwarden::capture
