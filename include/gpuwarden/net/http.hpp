// SPDX-License-Identifier: Apache-2.0
// An HTTP client for the few things that gpuwarden asks of others: webhooks, peers, Prometheus. libcurl does it, opened
// when it is first needed.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::net {

struct HttpRequest {
  std::string url;  ///< http or https
  std::vector<std::pair<std::string, std::string>> headers;
  std::optional<std::string> body;  ///< posted where there is one
  std::chrono::milliseconds timeout = std::chrono::seconds(5);
  std::size_t most_bytes = 64UZ << 20U;  ///< of the answer
};

struct HttpAnswer {
  int status = 0;
  std::string content_type;
  std::string body;
};

/// Asks once; any status is an answer. A request without headers and body follows redirections, though not from https
/// to http. Proxies are those of the environment, as libcurl takes them; none for this machine itself. Errors name the
/// host alone, since the rest of a URL may be a secret. Fails with unavailable (libcurl is not installed, nobody
/// answers, TLS fails), timed_out, interrupted on `stop`, invalid_argument for what is no http(s) URL.
Result<HttpAnswer> ask(const HttpRequest& request, const std::stop_token& stop = {});
/// Asks all at the same time, at most `at_once` of them; answers in the order of the requests.
std::vector<Result<HttpAnswer>> ask_all(std::span<const HttpRequest> requests, unsigned at_once = 64,
                                        const std::stop_token& stop = {});
/// Posts a JSON document. Fails as ask(); with unavailable where the answer may be another one later (5xx, 429, 408),
/// with failed for any other status that is not 2xx.
Result<void> post_json(const std::string& url, const std::string& body, const std::stop_token& stop = {});

}  // namespace gpuwarden::net
