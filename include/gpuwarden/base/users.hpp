// SPDX-License-Identifier: Apache-2.0
// Users of the system, asked without the C library's shared buffers: from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "gpuwarden/base/subprocess.hpp"

namespace gpuwarden {

struct User {
  std::string name;
  std::string home;
};
/// The user with this number; nothing where there is none. May ask a directory service, which takes its time.
std::optional<User> find_user(std::uint32_t uid);
/// The user's name, fit for a terminal; the number where there is none.
std::string name_of_user(std::uint32_t uid);
/// Where a user keeps gpuwarden's settings: $XDG_CONFIG_HOME/gpuwarden, else $HOME/.config/gpuwarden; empty where
/// neither is set. Whether there is such a folder is not looked at.
std::filesystem::path settings_folder(const Environment& environment);

}  // namespace gpuwarden
