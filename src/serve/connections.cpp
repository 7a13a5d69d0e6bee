// SPDX-License-Identifier: Apache-2.0
#include "serve/connections.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::serve {
namespace {

using Name = int (*)(int, sockaddr*, socklen_t*);

std::optional<sockaddr_storage> address_of(int fd, Name name) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (name(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return std::nullopt;
  return address;
}

in_port_t port_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) return reinterpret_cast<const sockaddr_in&>(address).sin_port;
  if (address.ss_family == AF_INET6) return reinterpret_cast<const sockaddr_in6&>(address).sin6_port;
  return 0;
}

/// As /proc/net/tcp writes it: words of the address as the machine keeps them, and the port, in hexadecimal.
std::string hex_of(const sockaddr_storage& address) {
  std::array<std::uint32_t, 4> words{};
  std::size_t count = 1;
  if (address.ss_family == AF_INET6) {
    count = 4;
    std::memcpy(words.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, 16);
  } else {
    words[0] = reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr;
  }
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += fmt::format("{:08X}", words[i]);
  return fmt::format("{}:{:04X}", text, ntohs(port_of(address)));
}

std::vector<int> open_descriptors() {
  std::vector<int> descriptors;
  for (const auto& entry : list_directory("/proc/self/fd")) {
    if (const auto fd = parse_integer(entry.filename().string())) descriptors.push_back(static_cast<int>(*fd));
  }
  return descriptors;
}

/// By its name, "socket:[4711]": other threads open and close theirs meanwhile, and are not to be touched.
std::optional<ino_t> socket_inode(int fd) {
  constexpr std::string_view kSocket = "socket:[";
  std::error_code failed;
  const std::string name = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", fd), failed).string();
  if (failed || !name.starts_with(kSocket) || !name.ends_with(']')) return std::nullopt;
  const auto number = parse_integer(std::string_view(name).substr(kSocket.size(), name.size() - kSocket.size() - 1));
  return number ? std::optional(static_cast<ino_t>(*number)) : std::nullopt;
}

}  // namespace

bool is_loopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24U == 127;
  if (address.ss_family != AF_INET6) return false;
  const in6_addr& six = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == 127);
}

std::optional<std::uint32_t> user_in(std::string_view table, const sockaddr_storage& local,
                                     const sockaddr_storage& remote) {
  constexpr std::size_t kUserColumn = 7;
  const std::string here = hex_of(local);
  const std::string there = hex_of(remote);
  for (const std::string_view line : split(table, '\n')) {
    if (line.find(here) == std::string_view::npos) continue;
    const auto columns = split_words(line);
    // A connection that its user has closed is nobody's: the kernel lists it as root's.
    if (columns.size() <= kUserColumn || columns[1] != here || columns[2] != there || columns[3] != "01") continue;
    const auto user = parse_integer(columns[kUserColumn]);
    if (user && *user >= 0 && *user <= UINT32_MAX) return static_cast<std::uint32_t>(*user);
  }
  return std::nullopt;
}

std::optional<std::uint32_t> user_behind(int fd) {
  const auto here = address_of(fd, ::getsockname);
  const auto there = address_of(fd, ::getpeername);
  if (!here || !there || !is_loopback(*there)) return std::nullopt;
  const auto table = read_file(there->ss_family == AF_INET6 ? "/proc/net/tcp6" : "/proc/net/tcp");
  return table ? user_in(*table, *there, *here) : std::nullopt;
}

Connections::Connections(int listener, Limits limits) : listener_(listener), limits_(limits) {}

Connections::Entry& Connections::entry_of(int fd, ino_t inode, Clock::SteadyTime now) {
  Entry& entry = entries_[fd];
  // The number may be another connection's by now.
  if (entry.inode != inode) entry = Entry{.inode = inode, .since = now, .user = std::nullopt};
  return entry;
}

void Connections::note_request(int fd, Clock::SteadyTime now) {
  const auto inode = socket_inode(fd);
  if (!inode) return;
  Entry& entry = entry_of(fd, *inode, now);
  entry.since = now;
  entry.asked = true;
}

void Connections::note_stream(int fd) {
  if (const auto found = entries_.find(fd); found != entries_.end()) found->second.streams = true;
}

std::size_t Connections::sweep(Clock::SteadyTime now) {
  const auto own = address_of(listener_, ::getsockname);
  std::map<int, Entry> alive;
  for (const int fd : open_descriptors()) {
    const auto inode = fd == listener_ ? std::nullopt : socket_inode(fd);
    const auto local = inode ? address_of(fd, ::getsockname) : std::nullopt;
    const auto remote = local ? address_of(fd, ::getpeername) : std::nullopt;
    if (!own || !remote || port_of(*local) != port_of(*own)) continue;
    const Entry& entry = entry_of(fd, *inode, now);
    const auto limit = entry.asked ? limits_.exchange : limits_.first_request;
    // libevent sees the end of it and frees what belongs to it.
    if (!entry.streams && now - entry.since > limit) ::shutdown(fd, SHUT_RDWR);
    alive[fd] = entry;
  }
  entries_ = std::move(alive);
  return entries_.size();
}

std::optional<std::uint32_t> Connections::user_of(int fd) {
  const auto found = entries_.find(fd);
  if (found == entries_.end()) return std::nullopt;
  Entry& entry = found->second;
  if (entry.user_looked_up) return entry.user;
  entry.user_looked_up = true;
  entry.user = user_behind(fd);
  return entry.user;
}

}  // namespace gpuwarden::serve
