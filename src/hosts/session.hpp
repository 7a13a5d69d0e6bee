// SPDX-License-Identifier: Apache-2.0
// The launcher's side of one host: what was heard of it so far. Knows no time but what it is told.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/hosts/links.hpp"
#include "gpuwarden/hosts/ssh.hpp"
#include "hosts/message.hpp"

namespace gpuwarden::hosts {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// Microseconds of a steady clock, as messages carry them.
inline std::int64_t micros(Clock::SteadyTime time) {
  return std::chrono::duration_cast<microseconds>(time.time_since_epoch()).count();
}

/// How far another machine's steady clock is ahead, from questions that it answered with its time: the one that took
/// least is the truest, to half of what it took.
class ClockOffset {
 public:
  void add(std::int64_t sent, std::int64_t theirs, std::int64_t received);
  /// Their time by our clock; empty where nothing is known.
  std::optional<Clock::SteadyTime> to_ours(std::int64_t theirs) const;

 private:
  std::optional<std::int64_t> took_;
  std::int64_t ahead_ = 0;
};

/// The first failure on a host.
struct Failure {
  std::optional<std::uint32_t> rank;  ///< RANK; empty: it is not known which
  int exit_code = 1;
  Clock::SteadyTime when{};  ///< by the launcher's clock
};

class Session {
 public:
  /// What is heard of ranks and people, at once.
  struct Ears {
    std::function<void(const Session&, std::optional<std::uint32_t> rank, bool error, std::string_view text)> output;
    std::function<void(const Session&, std::string text)> said;  ///< a line for whoever runs the job
  };

  Session(Host named, std::size_t number, Clock::SteadyTime now) : host(std::move(named)), link(number), heard(now) {}
  /// Takes what its program wrote, or how that ended. `version` is ours.
  void take(const News& news, Clock::SteadyTime now, std::string_view version, const SshOptions& ssh, const Ears& ears);
  /// It is not worked with any more.
  void fail_with(Error error);
  /// Forgets what belongs to one try of the job.
  void begin_try();
  bool is_well() const { return greeted && !problem; }

  Host host;
  std::size_t link = 0;
  bool greeted = false;
  bool timed = false;    ///< it was asked for its time
  bool gone = false;     ///< its program has ended
  bool leaving = false;  ///< it was told to go: its end is no loss
  std::string machine;   ///< its own name
  std::optional<Error> problem;
  std::optional<Held> held;
  std::optional<Meeting> meeting;
  std::optional<std::vector<Reach>> reached;
  std::optional<Failure> failure;
  std::optional<Done> done;
  std::optional<Json> node;  ///< what it shows of itself
  Clock::SteadyTime heard{};

 private:
  void greet(std::string_view version);
  void hear(const Message& message, Clock::SteadyTime now, const Ears& ears);
  Result<void> keep(const Message& message);
  void hear_errors(const std::string& text, const Ears& ears);

  MessageReader reader_;
  ClockOffset offset_;
  std::string their_version_;
  std::size_t before_greeting_ = 0;  ///< bytes that came
  std::string noise_;                ///< what stood before the agent's first message
  std::string errors_;               ///< the end of what came on standard error
  std::string line_;                 ///< an unfinished one of it
};

}  // namespace gpuwarden::hosts
