// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/probe/child_process.hpp"

namespace gpuwarden::probe {
namespace {

using SteadyTime = Clock::SteadyTime;

constexpr std::uint32_t kMaxMessage = 16U << 20U;

enum class Got { all, too_late, closed };

/// Reads exactly `size` bytes before `end`.
Got receive_all(int fd, void* target, std::size_t size, std::optional<SteadyTime> end) {
  auto* at = static_cast<unsigned char*>(target);
  while (size > 0) {
    int wait_ms = -1;
    if (end) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*end - system_clock().now()).count();
      if (left <= 0) return Got::too_late;
      wait_ms = static_cast<int>(left);
    }
    // What is there already needs no waiting.
    const ssize_t got = ::recv(fd, at, size, MSG_DONTWAIT);
    if (got > 0) {
      at += got;
      size -= static_cast<std::size_t>(got);
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) return Got::closed;
    pollfd ready{fd, POLLIN, 0};
    if (::poll(&ready, 1, wait_ms) <= 0) {
      if (errno == EINTR || !end) continue;
      return Got::too_late;
    }
  }
  return Got::all;
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

std::optional<nlohmann::json> receive_message(int fd, std::chrono::milliseconds timeout, bool* closed) {
  std::optional<SteadyTime> end;
  if (timeout.count() >= 0) end = system_clock().now() + timeout;
  std::uint32_t size = 0;
  Got got = receive_all(fd, &size, sizeof size, end);
  if (got == Got::all && size > kMaxMessage) got = Got::closed;
  std::vector<std::uint8_t> bytes(got == Got::all ? size : 0);
  if (got == Got::all) got = receive_all(fd, bytes.data(), bytes.size(), end);
  if (closed != nullptr) *closed = got == Got::closed;
  if (got != Got::all) return std::nullopt;
  auto message = nlohmann::json::from_cbor(bytes, true, false);
  if (!message.is_discarded()) return message;
  if (closed != nullptr) *closed = true;
  return std::nullopt;
}

}  // namespace gpuwarden::probe
