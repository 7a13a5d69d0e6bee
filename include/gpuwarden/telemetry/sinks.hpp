// SPDX-License-Identifier: Apache-2.0
// Tells alerts to the world: logs, commands, webhooks. A thread of its own, so that no slow listener delays a reading.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/telemetry/alerts.hpp"

namespace gpuwarden::telemetry {

/// Posts a body (application/json) to a URL; fails with unavailable or timed_out where it may be taken later, and with
/// another code where it never will.
using Post = std::function<Result<void>(const std::string& url, const std::string& body, const std::stop_token& stop)>;

/// "CRITICAL began: node7 GPU 3: it fell off the bus [xid_off_the_bus]".
std::string line_of(const AlertChange& change);
/// What a webhook or a command is given: {"schema":1,"kind":"began","text":"...","alert":{...}}, or what a chat takes.
std::string body_of(const AlertChange& change, SinkSpec::Body body = SinkSpec::Body::json);

/// Whether the programs that sinks start are there (in `search_path`, as PATH) and may be started by this user, and the
/// folders of their logs are there. Fails with not_found or permission_denied for the first that is not.
Result<void> check_sinks(const std::vector<SinkSpec>& sinks, std::string_view search_path);

/// Hands changes to the sinks of a configuration, each with a thread and a queue of its own of at most kMost changes;
/// where it is full the oldest is dropped and counted. Webhooks are tried again with exponential backoff and jitter, at
/// most kTries times; a command has kCommandTime.
class SinkRunner {
 public:
  static constexpr std::size_t kMost = 256;
  static constexpr unsigned kTries = 6;
  static constexpr std::chrono::seconds kFirstPause{1};
  static constexpr std::chrono::seconds kLongestPause{60};
  static constexpr std::chrono::seconds kCommandTime{30};

  /// `log` writes a line of the program's own log; it is called from the runner's threads, one at a time; may be empty.
  /// `post` empty: net::post_json.
  SinkRunner(std::vector<SinkSpec> sinks, std::function<void(const std::string&)> log, Clock& clock, Post post = {});
  SinkRunner(const SinkRunner&) = delete;
  SinkRunner& operator=(const SinkRunner&) = delete;
  ~SinkRunner();  ///< gives what is queued up to a second, then drops it

  /// Returns at once. A silenced change is told to nobody.
  void tell(const AlertRule& rule, const AlertChange& change);
  /// Changes that were dropped or never taken, for each sink.
  struct Loss {
    std::string sink;
    std::uint64_t told = 0;     ///< taken
    std::uint64_t dropped = 0;  ///< the queue was full
    std::uint64_t failed = 0;   ///< given up
    std::string last_error;
  };
  std::vector<Loss> losses() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpuwarden::telemetry
