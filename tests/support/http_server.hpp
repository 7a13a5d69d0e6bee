// SPDX-License-Identifier: Apache-2.0
// An HTTP server on a free port of this machine, for what asks others: each connection has a thread, one request and an
// answer that the test writes down byte by byte.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/unique_fd.hpp"

namespace gpuwarden::testing {

inline std::string http_answer(int status, std::string_view body, std::string_view headers = {}) {
  return fmt::format("HTTP/1.1 {} X\r\nContent-Length: {}\r\nContent-Type: text/plain\r\nConnection: close\r\n{}\r\n{}",
                     status, body.size(), headers, body);
}

class HttpServer {
 public:
  struct Request {
    std::string head;  ///< request line and headers
    std::string body;
    std::string path() const {
      return head.substr(head.find(' ') + 1, head.find(' ', head.find(' ') + 1) - head.find(' ') - 1);
    }
  };
  /// What is sent back; nothing: the connection stays open, silent, until the server ends.
  using Handler = std::function<std::string(const Request&)>;

  explicit HttpServer(Handler handler)
      : handler_(std::move(handler)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(listener_.get(), 128) != 0)
      return;
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    accepting_ = std::thread([this] { accept_all(); });
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    if (accepting_.joinable()) accepting_.join();
    {
      const std::scoped_lock lock(mutex_);
      for (const auto& connection : connections_) ::shutdown(connection.get(), SHUT_RDWR);
    }
    for (auto& thread : threads_) thread.join();
  }

  std::string url(std::string_view path = "/") const { return fmt::format("http://127.0.0.1:{}{}", port_, path); }
  std::uint16_t port() const { return port_; }
  std::vector<Request> requests() const {
    const std::scoped_lock lock(mutex_);
    return requests_;
  }

 private:
  void accept_all() {
    for (;;) {
      UniqueFd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!connection) return;
      const std::scoped_lock lock(mutex_);
      const int fd = connection.get();
      connections_.push_back(std::move(connection));
      threads_.emplace_back([this, fd] { serve(fd); });
    }
  }

  void serve(int fd) {
    std::string text;
    std::array<char, 16384> block;
    std::size_t wanted = std::string::npos;
    while (text.size() < wanted) {
      const ssize_t got = ::read(fd, block.data(), block.size());
      if (got <= 0) return;
      text.append(block.data(), static_cast<std::size_t>(got));
      const std::size_t end = text.find("\r\n\r\n");
      if (end != std::string::npos) wanted = end + 4 + length_of_body(text.substr(0, end));
    }
    Request request;
    request.head = text.substr(0, text.find("\r\n\r\n"));
    request.body = text.substr(request.head.size() + 4);
    {
      const std::scoped_lock lock(mutex_);
      requests_.push_back(request);
    }
    const std::string answer = handler_(request);
    for (std::size_t sent = 0; sent < answer.size();) {
      const ssize_t now = ::send(fd, answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
      if (now <= 0) return;
      sent += static_cast<std::size_t>(now);
    }
    if (!answer.empty()) ::shutdown(fd, SHUT_WR);
  }

  static std::size_t length_of_body(const std::string& head) {
    const std::string lower = to_lower(head);
    const std::size_t at = lower.find("content-length: ");
    if (at == std::string::npos) return 0;
    return static_cast<std::size_t>(
        parse_integer(std::string_view(lower).substr(at + 16, lower.find('\r', at) - at - 16)).value_or(0));
  }

  Handler handler_;
  UniqueFd listener_;
  std::uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::vector<Request> requests_;
  std::vector<UniqueFd> connections_;
  std::vector<std::thread> threads_;
  std::thread accepting_;
};

}  // namespace gpuwarden::testing
