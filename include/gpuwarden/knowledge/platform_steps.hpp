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

/// A step with what it is about, where not every platform has that: "[@driver] Install the open flavour." A sentence is
/// asked for nothing but its kind; one without a kind is for every platform. A command (is_command) without a kind has
/// that of the programs, packages and files that it names.
struct MarkedStep {
  std::string_view kind;  ///< a row of the table of kinds; empty: none is said
  std::string_view text;
};
MarkedStep marked_step(std::string_view written);
/// The same step written: what marked_step() takes apart.
std::string with_kind(std::string_view kind, std::string_view text);
bool is_step_kind(std::string_view name);
/// What a sentence is about that installs these packages.
std::string_view kind_of_packages(std::string_view names);

/// Whether a step is to be typed into a shell; what else stands there is advice ("ask the vendor ...").
bool is_command(std::string_view step);

/// What replaces or updates the driver; `branch` 0: whichever is newest.
std::string driver_step(Platform platform, int branch = 0);
/// What is done on a Mac where a program wants CUDA.
std::vector<std::string> steps_without_cuda();
/// Steps for Linux in their order, each that cannot be taken there said as the platform has it, or left out where it
/// has nothing of the kind: none may be left. Each comes without its mark. On a Mac, what it has in place of CUDA
/// stands before them.
std::vector<std::string> steps_on(Platform platform, const std::vector<std::string>& steps);
/// The same of what makes sure that a cause is the one: nothing takes its place.
std::vector<std::string> tests_on(Platform platform, const std::vector<std::string>& steps);

}  // namespace gpuwarden::knowledge
