// SPDX-License-Identifier: Apache-2.0
// Answers requests from sockets. One thread for all of them: who reads or writes slowly costs none.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/serve/routes.hpp"

namespace gpuwarden::serve {

struct ServerOptions {
  Address address;
  std::filesystem::path certificate;  ///< PEM; with `key`: TLS
  std::filesystem::path key;
  std::size_t most_connections = 256;         ///< more wait until one is closed
  std::chrono::seconds patience{10};          ///< for the next byte, and for a connection's first request
  std::chrono::seconds longest_exchange{60};  ///< from a request to the next one
  std::size_t most_header_bytes = 16384;      ///< of a request
  std::size_t most_body_bytes = 65536;
  /// Called every second from the thread that answers; may be empty.
  std::function<void()> tick;
};

/// A bound socket, and what answers behind it.
class Server {
 public:
  /// Binds, and reads certificate and key. Fails with failed where the port is in use, permission_denied,
  /// invalid_argument for a certificate that is none.
  static Result<std::unique_ptr<Server>> listen(ServerOptions options);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  /// As bound: the port is known where 0 was asked for.
  const Address& address() const;
  /// "http://127.0.0.1:10478"
  std::string url() const;
  /// Answers until `stop`, then what was asked already, for half a second. The process ignores SIGPIPE.
  void run(const Sources& sources, const std::stop_token& stop);

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpuwarden::serve
