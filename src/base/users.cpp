// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/base/users.hpp"

#include <pwd.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <vector>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden {

std::optional<User> find_user(std::uint32_t uid) {
  constexpr std::size_t kFirstBuffer = 4096;
  constexpr std::size_t kLargestBuffer = std::size_t{1} << 20U;
  passwd entry{};
  passwd* found = nullptr;
  // An entry with a long comment needs more than is usual.
  for (std::vector<char> buffer(kFirstBuffer); buffer.size() <= kLargestBuffer; buffer.resize(buffer.size() * 4)) {
    const int error = ::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found);
    if (error == ERANGE) continue;
    if (error != 0 || found == nullptr) return std::nullopt;
    return User{found->pw_name, found->pw_dir == nullptr ? "" : found->pw_dir};
  }
  return std::nullopt;
}

std::string name_of_user(std::uint32_t uid) {
  const auto user = find_user(uid);
  return user ? printable(user->name) : std::to_string(uid);
}

std::filesystem::path settings_folder(const Environment& environment) {
  const auto value = [&](const char* name) {
    const auto found = environment.find(name);
    return std::filesystem::path(found == environment.end() ? "" : found->second);
  };
  if (const auto folder = value("XDG_CONFIG_HOME"); !folder.empty()) return folder / "gpuwarden";
  const auto home = value("HOME");
  return home.empty() ? home : home / ".config/gpuwarden";
}

}  // namespace gpuwarden
