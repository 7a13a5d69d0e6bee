// SPDX-License-Identifier: Apache-2.0
#include "serve/bind.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

namespace gpuwarden::serve {
namespace {

constexpr int kBacklog = 128;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

SocketAddress socket_address(const Address& address) {
  SocketAddress result;
  auto& four = reinterpret_cast<sockaddr_in&>(result.storage);
  auto& six = reinterpret_cast<sockaddr_in6&>(result.storage);
  if (::inet_pton(AF_INET, address.host.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = htons(address.port);
    result.length = sizeof(four);
  } else if (::inet_pton(AF_INET6, address.host.c_str(), &six.sin6_addr) == 1) {
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(address.port);
    result.length = sizeof(six);
  }
  return result;
}

std::unexpected<Error> bind_failure(const Address& address, int why) {
  if (why == EADDRINUSE)
    return fail(ErrorCode::failed, fmt::format("port {} on {} is in use", address.port, address.host),
                fmt::format("`ss -ltnp 'sport = :{}'` names who has it; choose another with --listen {}:PORT",
                            address.port, address.host));
  if (why == EADDRNOTAVAIL)
    return fail(ErrorCode::invalid_argument, fmt::format("this machine has no address {}", address.host),
                "`ip address` lists those that it has");
  return std::unexpected(error_from_errno(why, fmt::format("cannot listen on {}", to_string(address))));
}

}  // namespace

Result<UniqueFd> bind_and_listen(Address& address) {
  SocketAddress wanted = socket_address(address);
  UniqueFd socket(::socket(wanted.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return bind_failure(address, errno);
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  auto* name = reinterpret_cast<sockaddr*>(&wanted.storage);
  if (::bind(socket.get(), name, wanted.length) != 0 || ::listen(socket.get(), kBacklog) != 0)
    return bind_failure(address, errno);
  if (::getsockname(socket.get(), name, &wanted.length) != 0) return bind_failure(address, errno);
  address.port =
      ntohs(wanted.storage.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(wanted.storage).sin6_port
                                                 : reinterpret_cast<const sockaddr_in&>(wanted.storage).sin_port);
  return socket;
}

}  // namespace gpuwarden::serve
