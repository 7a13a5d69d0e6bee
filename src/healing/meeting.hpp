// SPDX-License-Identifier: Apache-2.0
// Where the nodes of a job agree on when its ranks start, and start again: lines of text over TCP to the first node.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/healing/run.hpp"

namespace gpuwarden::healing {

/// A start of the job on all nodes.
struct Round {
  std::uint32_t number = 0;      ///< starts before this one
  std::uint32_t restarts = 0;    ///< of these, those that count against the restarts
  std::uint32_t group_rank = 0;  ///< this node's place among those that take part
  std::uint32_t nodes = 1;
  std::uint32_t first_rank = 0;
  std::uint32_t world_size = 1;
};

/// What ends the waiting for other nodes.
struct Waiting {
  std::stop_token stop;
  std::optional<Clock::SteadyTime> end;  ///< of the job's time
};

/// What the first node said meanwhile.
struct Summons {
  bool ends = false;  ///< the job is over; else it is to be started again
  int exit_code = 0;
  std::string why;
};

/// For both ends of a connection: a side that vanished without a word is noticed within half a minute.
void keep_alive(int fd);

/// A line's words, the last of them the rest of the line.
std::vector<std::string> words_of_line(std::string_view line, std::size_t most);

/// A connection that speaks in lines; never waits to write more than a socket takes at once.
class Line {
 public:
  explicit Line(UniqueFd fd) : fd_(std::move(fd)) {}
  int fd() const { return fd_.get(); }
  bool say(const std::string& line);
  /// Takes what has come; false when the other side is gone, or sends what is no line.
  bool take();
  std::optional<std::string> next();

 private:
  UniqueFd fd_;
  std::string come_;
};

class MeetingHost;

/// One node's seat. The first node (MeetingPlace::node 0) is the host as well.
class Meeting {
 public:
  /// Fails with unavailable where the first node cannot listen.
  static Result<std::unique_ptr<Meeting>> open(const MeetingPlace& place, Clock& clock);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  /// Ready to start `ranks`; waits until enough nodes are. Fails with timed_out, interrupted, and with unsatisfied
  /// where the job is over.
  Result<Round> join(std::uint32_t ranks, const Waiting& waiting = {});
  /// While ranks run: whether they are to be ended; never waits.
  std::optional<Summons> summons();
  /// Its ranks have failed; `counts`: against the restarts.
  void failed(bool restarts, bool counts, int exit_code, const std::string& why);
  /// It wants to start again with more: all nodes do then.
  void regroup(const std::string& why);
  /// Its ranks ended well: waits for what becomes of the others'. Fails with timed_out and interrupted.
  Result<Summons> done(const Waiting& waiting = {});
  /// On the first node: another one waits to take part.
  bool has_newcomer();

 private:
  Meeting(MeetingPlace place, Clock& clock);
  Result<void> connect(const Waiting& waiting);
  Result<void> may_wait(const Waiting& waiting) const;
  std::optional<Summons> wait(std::chrono::milliseconds time);
  std::optional<Summons> heed(const std::string& line);
  Summons host_is_gone();

  const MeetingPlace place_;
  Clock& clock_;
  std::unique_ptr<MeetingHost> host_;
  std::optional<Line> line_;
  std::optional<Round> round_;
  bool newcomer_ = false;
  bool over_ = false;
};

}  // namespace gpuwarden::healing
