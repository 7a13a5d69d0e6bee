// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/serve/daemon.hpp"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <vector>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/unique_fd.hpp"

namespace gpuwarden::serve {
namespace {

std::string variable(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

struct User {
  uid_t id = 0;
  gid_t group = 0;
  std::string home;
};
std::optional<User> find_user(const std::string& name) {
  std::vector<char> buffer(16384);
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr)
    return std::nullopt;
  return User{entry.pw_uid, entry.pw_gid, entry.pw_dir};
}

}  // namespace

Result<void> notify(const Environment& environment, std::string_view message) {
  const std::string path = variable(environment, "NOTIFY_SOCKET");
  if (path.empty()) return {};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if ((path[0] != '/' && path[0] != '@') || path.size() >= sizeof(address.sun_path))
    return fail(ErrorCode::invalid_argument, fmt::format("NOTIFY_SOCKET '{}' is not a socket's name", printable(path)));
  std::memcpy(address.sun_path, path.data(), path.size());
  // A name that begins with '@' is no file: its first byte is 0.
  if (path[0] == '@') address.sun_path[0] = '\0';
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  const ssize_t sent = ::sendto(socket.get(), message.data(), message.size(), MSG_NOSIGNAL,
                                reinterpret_cast<const sockaddr*>(&address), length);
  if (sent != static_cast<ssize_t>(message.size()))
    return std::unexpected(error_from_errno(errno, "cannot notify systemd"));
  return {};
}

std::optional<std::chrono::microseconds> watchdog_interval(const Environment& environment) {
  const auto microseconds = parse_integer(variable(environment, "WATCHDOG_USEC"));
  const auto process = parse_integer(variable(environment, "WATCHDOG_PID"));
  if (!microseconds || *microseconds <= 0 || (process && *process != ::getpid())) return std::nullopt;
  return std::chrono::microseconds(*microseconds / 2);
}

std::string reloading_message() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return fmt::format("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1'000'000 + now.tv_nsec / 1000);
}

std::string home_of(const std::string& user) {
  const auto found = find_user(user);
  return found ? found->home : "";
}

Result<std::string> drop_root(const std::string& user) {
  if (::geteuid() != 0) return std::string();
  std::string name = !user.empty() ? user : find_user("gpuwarden") ? "gpuwarden" : "nobody";
  const auto found = find_user(name);
  if (!found) return fail(ErrorCode::not_found, fmt::format("there is no user '{}'", printable(name)));
  if (found->id == 0) return std::string();
  if (::initgroups(name.c_str(), found->group) != 0 || ::setresgid(found->group, found->group, found->group) != 0 ||
      ::setresuid(found->id, found->id, found->id) != 0)
    return std::unexpected(error_from_errno(errno, fmt::format("cannot become user '{}'", printable(name))));
  // Nothing that is started gets the rights back.
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return name;
}

}  // namespace gpuwarden::serve
