// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "probe/reader_child.hpp"

namespace gpuwarden::probe {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::uint32_t kMaxMessage = 16U << 20U;

/// Reads exactly `size` bytes before `end`.
bool receive_all(int fd, void* target, std::size_t size, std::optional<SteadyClock::time_point> end) {
  auto* at = static_cast<unsigned char*>(target);
  while (size > 0) {
    int wait_ms = -1;
    if (end) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*end - SteadyClock::now()).count();
      if (left <= 0) return false;
      wait_ms = static_cast<int>(left);
    }
    pollfd ready{fd, POLLIN, 0};
    if (::poll(&ready, 1, wait_ms) <= 0) {
      if (errno == EINTR || !end) continue;
      return false;
    }
    const ssize_t got = ::recv(fd, at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace

bool send_message(int fd, const nlohmann::json& message) {
  std::vector<std::uint8_t> bytes(sizeof(std::uint32_t));
  nlohmann::json::to_cbor(message, bytes);
  const auto size = static_cast<std::uint32_t>(bytes.size() - sizeof(std::uint32_t));
  std::memcpy(bytes.data(), &size, sizeof size);
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t done = ::send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    sent += static_cast<std::size_t>(done);
  }
  return true;
}

std::optional<nlohmann::json> receive_message(int fd, std::chrono::milliseconds timeout) {
  std::optional<SteadyClock::time_point> end;
  if (timeout.count() >= 0) end = SteadyClock::now() + timeout;
  std::uint32_t size = 0;
  if (!receive_all(fd, &size, sizeof size, end) || size > kMaxMessage) return std::nullopt;
  std::vector<std::uint8_t> bytes(size);
  if (!receive_all(fd, bytes.data(), size, end)) return std::nullopt;
  auto message = nlohmann::json::from_cbor(bytes, true, false);
  if (message.is_discarded()) return std::nullopt;
  return message;
}

}  // namespace gpuwarden::probe
