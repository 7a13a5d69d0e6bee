// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/interface.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>

#include "gpuwarden/base/unique_fd.hpp"

namespace gpuwarden::launch {
namespace {

/// Connecting a socket of UDP chooses the route, and sends nothing.
std::optional<sockaddr_storage> own_end_of(const addrinfo& way) {
  constexpr std::uint16_t kDiscard = 9;
  const UniqueFd fd(::socket(way.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return std::nullopt;
  sockaddr_storage there{};
  std::memcpy(&there, way.ai_addr, way.ai_addrlen);
  if (way.ai_family == AF_INET)
    reinterpret_cast<sockaddr_in*>(&there)->sin_port = htons(kDiscard);
  else
    reinterpret_cast<sockaddr_in6*>(&there)->sin6_port = htons(kDiscard);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&there), way.ai_addrlen) != 0) return std::nullopt;
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) return std::nullopt;
  return own;
}

bool is_same(const sockaddr& one, const sockaddr_storage& other) {
  if (one.sa_family != other.ss_family) return false;
  if (one.sa_family == AF_INET)
    return reinterpret_cast<const sockaddr_in&>(one).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(other).sin_addr.s_addr;
  return one.sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6&>(one).sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(other).sin6_addr, sizeof(in6_addr)) == 0;
}

}  // namespace

std::optional<std::string> interface_towards(const std::string& host, bool for_others) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &wanted, &found) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> ways(found, ::freeaddrinfo);
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> interfaces(list, ::freeifaddrs);
  for (const addrinfo* way = found; way != nullptr; way = way->ai_next) {
    const auto own = own_end_of(*way);
    for (const ifaddrs* one = list; own && one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr == nullptr || !is_same(*one->ifa_addr, *own)) continue;
      // Debian has a machine's own name at 127.0.1.1, where no other one finds it.
      if (!for_others || (one->ifa_flags & IFF_LOOPBACK) == 0) return one->ifa_name;
    }
  }
  return std::nullopt;
}

}  // namespace gpuwarden::launch
