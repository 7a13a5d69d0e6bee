// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/port.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <random>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/launch/rank_environment.hpp"

namespace gpuwarden::launch {
namespace {

constexpr std::uint16_t kFirstPort = 15000;

/// Where the kernel's own choice of ports begins.
std::uint16_t ephemeral_start() {
  const auto range = read_line("/proc/sys/net/ipv4/ip_local_port_range");
  const auto words = range ? split_words(*range) : std::vector<std::string_view>{};
  const auto first = words.empty() ? std::nullopt : parse_integer(words[0]);
  return static_cast<std::uint16_t>(first && *first > 20000 && *first < 65000 ? *first : 32768);
}

/// A socket that has the port; errno says why not. `reusing`: as a server is bound, which minds no closing connections.
UniqueFd bind_port(std::uint16_t port, bool reusing) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return {};
  const int yes = 1;
  if (reusing) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return {};
  return fd;
}

/// The port's name among launchers: an abstract socket, which lives in a network namespace as the port does, belongs
/// to no user, and is gone with its process.
UniqueFd claim_name(std::uint16_t port) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return {};
  const std::string name = fmt::format("gpuwarden-port-{}", port);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::ranges::copy(name, address.sun_path + 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) return {};
  return fd;
}

}  // namespace

Result<HeldPort> HeldPort::any() {
  std::random_device random;
  const std::uint32_t span = ephemeral_start() - kFirstPort;
  std::uint32_t at = random() % span;
  for (std::uint32_t i = 0; i < span; ++i, at = (at + 1) % span) {
    const auto port = static_cast<std::uint16_t>(kFirstPort + at);
    UniqueFd name = claim_name(port);
    if (!name) continue;
    UniqueFd bound = bind_port(port, false);
    if (bound) return HeldPort(port, std::move(name), std::move(bound));
  }
  return fail(ErrorCode::unavailable, "no free port for MASTER_PORT was found", "name one with --master-port");
}

Result<HeldPort> HeldPort::at(std::uint16_t port) {
  UniqueFd name = claim_name(port);
  UniqueFd bound = name ? bind_port(port, true) : UniqueFd();
  if (bound) return HeldPort(port, std::move(name), std::move(bound));
  return fail(ErrorCode::unavailable, fmt::format("port {} is in use on this machine", port),
              "name another one with --master-port, or none: then a free one is found");
}

Result<int> HeldPort::listen() {
  constexpr int kWaiting = 128;
  if (bound_ && ::listen(bound_.get(), kWaiting) == 0) return bound_.get();
  return std::unexpected(error_from_errno(bound_ ? errno : EBADF, fmt::format("cannot listen on port {}", number_)));
}

Result<void> check_port(std::uint16_t port) {
  const UniqueFd bound = bind_port(port, true);
  if (bound && ::listen(bound.get(), 1) == 0) return {};
  if (errno == EADDRINUSE)
    return fail(ErrorCode::unavailable,
                fmt::format("port {} is in use on this machine, and rank 0 is to listen there", port),
                "name another one with --master-port on every node; one node alone finds a free one without it");
  return std::unexpected(error_from_errno(errno, fmt::format("cannot listen on port {}", port)));
}

Result<std::uint16_t> find_free_port() {
  GPUWARDEN_TRY(const HeldPort held, HeldPort::any());
  return held.number();
}

std::uint16_t port_of_job(std::string_view id, std::uint32_t attempt) {
  // FNV-1a: the same on every node, whatever its library's std::hash does. 32768 and not this machine's own range.
  std::uint32_t hash = 2166136261U;
  for (const char letter : fmt::format("{}#{}", id, attempt))
    hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619U;
  constexpr std::uint32_t kSpan = 32768 - kFirstPort;
  return static_cast<std::uint16_t>(kFirstPort + hash % kSpan);
}

}  // namespace gpuwarden::launch
