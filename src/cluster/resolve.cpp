// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <memory>

#include "gpuwarden/base/scope_guard.hpp"
#include "gpuwarden/cluster/peers.hpp"

namespace gpuwarden::cluster {
namespace {

using std::chrono::milliseconds;

/// A question to the system's resolver, which glibc's own threads put: no call of ours can hang.
struct Question {
  explicit Question(std::string host) : name(std::move(host)) {
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_ADDRCONFIG;
    request.ar_name = name.c_str();
    request.ar_request = &hints;
  }
  std::string name;
  addrinfo hints{};
  gaicb request{};
};

std::optional<std::string> text_of(const addrinfo& info) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (info.ai_family == AF_INET) {
    const auto* const at = reinterpret_cast<const sockaddr_in*>(info.ai_addr);
    ::inet_ntop(AF_INET, &at->sin_addr, text.data(), text.size());
  } else if (info.ai_family == AF_INET6) {
    const auto* const at = reinterpret_cast<const sockaddr_in6*>(info.ai_addr);
    ::inet_ntop(AF_INET6, &at->sin6_addr, text.data(), text.size());
  } else {
    return std::nullopt;
  }
  return std::string(text.data());
}

Result<std::vector<std::string>> answer_of(const Question& question, int code) {
  if (code != 0)
    return fail(ErrorCode::not_found,
                fmt::format("no address of '{}' is known: {}", question.name, ::gai_strerror(code)));
  std::vector<std::string> addresses;
  for (const addrinfo* info = question.request.ar_result; info != nullptr; info = info->ai_next) {
    if (auto text = text_of(*info)) addresses.push_back(std::move(*text));
  }
  ::freeaddrinfo(question.request.ar_result);
  std::ranges::sort(addresses);
  const auto [first, last] = std::ranges::unique(addresses);
  addresses.erase(first, last);
  return addresses;
}

}  // namespace

Result<std::vector<std::string>> resolve_addresses(const std::string& name, milliseconds timeout,
                                                   const std::stop_token& stop) {
  constexpr milliseconds kBetweenLooks(50);
  auto question = std::make_unique<Question>(name);
  gaicb* list[] = {&question->request};
  sigevent no_signal{};
  no_signal.sigev_notify = SIGEV_NONE;
  if (const int error = ::getaddrinfo_a(GAI_NOWAIT, list, 1, &no_signal); error != 0)
    return fail(ErrorCode::failed, fmt::format("cannot look up '{}': {}", name, ::gai_strerror(error)));
  const gaicb* const waiting[] = {&question->request};
  for (milliseconds waited{0};; waited += kBetweenLooks) {
    const int code = ::gai_error(&question->request);
    if (code != EAI_INPROGRESS) return answer_of(*question, code);
    if (stop.stop_requested() || waited >= timeout) break;
    const timespec while_long{0, std::chrono::nanoseconds(kBetweenLooks).count()};
    ::gai_suspend(waiting, 1, &while_long);
  }
  // Where it cannot be taken back it belongs to the resolver, which writes into it when it is done at last.
  const int given_up = ::gai_cancel(&question->request);
  if (given_up != EAI_CANCELED && given_up != EAI_ALLDONE) [[maybe_unused]]
    Question* const left = question.release();
  if (stop.stop_requested()) return fail(ErrorCode::interrupted, fmt::format("looking up '{}' was interrupted", name));
  return fail(ErrorCode::timed_out, fmt::format("looking up '{}' timed out after {} ms", name, timeout.count()),
              "is the name server of /etc/resolv.conf there?");
}

}  // namespace gpuwarden::cluster
