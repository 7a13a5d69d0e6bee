// SPDX-License-Identifier: Apache-2.0
// Whether a job that failed is started again, and after which pause: the one decider for jobs on this machine and on
// several hosts. Pure but for the jitter, which is handed in.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/knowledge/diagnosis.hpp"
#include "gpuwarden/launch/job.hpp"

namespace gpuwarden::launch {

struct RestartPolicy {
  std::uint32_t max_restarts = 0;
  bool heal = false;  ///< with the remedies that the diagnosis knows
  /// Before the first restart; doubled with each one, up to the longest, with a fifth of jitter.
  std::chrono::milliseconds first_pause = std::chrono::seconds(1);
  std::chrono::milliseconds longest_pause = std::chrono::minutes(5);
  /// A try that lasted so long was well: the pauses begin anew after it.
  std::chrono::milliseconds healthy = std::chrono::minutes(10);
  std::vector<std::string> restart_arguments;  ///< added to the command of every try but the first
};

/// The pause before restart `number` (1: the first since the job was well). `chance` in [0, 1) is the jitter's.
std::chrono::milliseconds pause_before(const RestartPolicy& policy, std::uint32_t number, double chance);

/// Whether there is some time before the ranks would have to save what they have done.
bool has_time(const TimeLimit& limit, Clock::SteadyTime now, std::chrono::milliseconds pause);

/// "NAME=value OTHER=value".
std::string settings_text(const Environment& settings);

/// A try that failed, as far as it matters for another one.
struct Failure {
  knowledge::Restart restart = knowledge::Restart::again;
  std::string why;            ///< a sentence
  Environment remedy;         ///< settings that would have kept it from happening
  std::string other_remedy;   ///< another thing that may help: "with 2 GPUs instead of 4"; empty: none
  std::string final_because;  ///< why no try follows whatever is left of them; empty: one may
  std::chrono::milliseconds lasted{0};
};

struct RestartDecision {
  bool restarts = false;
  bool remedied = false;  ///< with Failure::remedy, or the other one
  std::string text;       ///< why, or why not: a sentence; empty where no restart was asked for
  std::chrono::milliseconds pause{0};
};

/// The restarts of one job: how many are left, and how long the next pause is.
class Restarts {
 public:
  explicit Restarts(RestartPolicy policy) : policy_(std::move(policy)) {}
  /// Counts the restart, where one follows.
  RestartDecision decide(const Failure& failure, const TimeLimit& limit, Clock::SteadyTime now, double chance);
  /// What a restart needs cannot be had just now: how long to wait before it is asked for again, which counts as one.
  /// Nothing where none is left, or no time.
  std::optional<std::chrono::milliseconds> again_later(const TimeLimit& limit, Clock::SteadyTime now);
  /// Whether a try that lasted so long and fails now may be followed by another one, whatever the jitter: for a job
  /// that is to be ended for it.
  bool may_follow(const TimeLimit& limit, Clock::SteadyTime now, std::chrono::milliseconds lasted) const;
  std::uint32_t counted() const { return counted_; }
  /// As many as all nodes of the job have counted together.
  void count_as(std::uint32_t counted) { counted_ = counted; }
  bool any_left() const { return counted_ < policy_.max_restarts; }

 private:
  RestartPolicy policy_;
  std::uint32_t counted_ = 0;
  std::uint32_t in_a_row_ = 0;  ///< since the job was well
};

}  // namespace gpuwarden::launch
