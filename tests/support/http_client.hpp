// SPDX-License-Identifier: Apache-2.0
// HTTP over a socket of loopback, byte by byte as a test wants it.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "gpuwarden/base/unique_fd.hpp"
#include "support/patience.hpp"

namespace gpuwarden::testing {

/// A connection to a port of loopback.
class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  bool send(std::string_view text) const {
    return connected_ &&
           ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  /// What comes until `end` is in it, the other side closes, or much time has passed.
  std::string read_until(std::string_view end) {
    while (got_.find(end) == std::string::npos) {
      pollfd file{socket_.get(), POLLIN, 0};
      const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(kSoon).count();
      if (::poll(&file, 1, static_cast<int>(wait)) <= 0) break;
      std::array<char, 4096> buffer{};
      const ssize_t count = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
      if (count <= 0) break;
      got_.append(buffer.data(), static_cast<std::size_t>(count));
    }
    return got_;
  }
  std::string ask(const std::string& target, const std::string& more = {}) {
    send(fmt::format("GET {} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{}\r\n", target, more));
    return read_until("\x01 never");
  }

 private:
  UniqueFd socket_;
  bool connected_ = false;
  std::string got_;
};

}  // namespace gpuwarden::testing
