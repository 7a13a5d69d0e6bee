// SPDX-License-Identifier: Apache-2.0
// Steps as a machine's platform lets one take them: in WSL and on Windows the driver is Windows', with none of Linux's
// modules, services and logs (source: CUDA on WSL user guide); macOS has neither driver nor CUDA (source: release notes
// of CUDA 11.0: no more applications on macOS).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpuwarden::knowledge {

/// Whose driver the machine's is, and whose commands it takes.
enum class Platform {
  linux_own,  ///< Linux with its own driver
  wsl,        ///< Linux's commands, Windows' driver
  windows,
  macos,
};

/// Windows and macOS, as names of a host's distribution.
inline constexpr std::string_view kWindows = "windows";
inline constexpr std::string_view kMacos = "macos";

/// What replaces or updates the driver; `branch` 0: whichever is newest.
std::string driver_step(Platform platform, int branch = 0);
/// What is done on a Mac where a program wants CUDA.
std::vector<std::string> steps_without_cuda();
/// Steps for Linux in their order, each that cannot be taken there said as the platform has it, or left out where it
/// has nothing of the kind: none may be left. On a Mac, what it has in place of CUDA stands before them.
std::vector<std::string> steps_on(Platform platform, const std::vector<std::string>& steps);
/// The same of what makes sure that a cause is the one: nothing takes its place.
std::vector<std::string> tests_on(Platform platform, const std::vector<std::string>& steps);

}  // namespace gpuwarden::knowledge
