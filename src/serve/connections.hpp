// SPDX-License-Identifier: Apache-2.0
// The connections of a listening socket, found among the process's descriptors: libevent's evhttp shows a connection
// only with its first whole request, and a limit must count those that never make one.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "gpuwarden/base/clock.hpp"

namespace gpuwarden::serve {

class Connections {
 public:
  struct Limits {
    std::chrono::nanoseconds first_request{};  ///< from the connection to its first request
    std::chrono::nanoseconds exchange{};       ///< from a request to the next
  };
  Connections(int listener, Limits limits);

  /// Looks which there are now, and shuts those that are too slow; how many are left.
  std::size_t sweep(Clock::SteadyTime now);
  /// A request came on the connection.
  void note_request(int fd, Clock::SteadyTime now);
  /// It is to stay open, however long.
  void note_stream(int fd);
  /// The user at the other end of a loopback connection, looked up once.
  std::optional<std::uint32_t> user_of(int fd);

 private:
  struct Entry {
    ino_t inode = 0;
    Clock::SteadyTime since{};  ///< connected, or the last request
    bool asked = false;
    bool streams = false;
    bool user_looked_up = false;
    std::optional<std::uint32_t> user;
  };
  Entry& entry_of(int fd, ino_t inode, Clock::SteadyTime now);
  int listener_;
  Limits limits_;
  std::map<int, Entry> entries_;
};

/// The user of the open socket `local` -> `remote` in the text of /proc/net/tcp or tcp6. Pure.
std::optional<std::uint32_t> user_in(std::string_view table, const sockaddr_storage& local,
                                     const sockaddr_storage& remote);
/// The user at the other end of a connection of loopback, as the kernel tells; nothing where it does not.
std::optional<std::uint32_t> user_behind(int fd);
/// Whether both ends of a connection are this machine.
bool is_loopback(const sockaddr_storage& address);

}  // namespace gpuwarden::serve
