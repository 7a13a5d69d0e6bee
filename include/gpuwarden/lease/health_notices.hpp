// SPDX-License-Identifier: Apache-2.0
// Which GPUs running monitors judge unfit: a file for each monitor, which counts while that monitor lives and goes on
// judging. A GPU of which no file speaks is neither fit nor unfit by that.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/facts/health.hpp"
#include "gpuwarden/lease/disablings.hpp"
#include "gpuwarden/lease/verdicts.hpp"

namespace gpuwarden::lease {

/// Beside what is disabled: DISABLINGS/health.
HealthPlaces health_places(const DisablingPlaces& disablings);

struct HealthView {
  /// As if somebody had disabled them: `reason` is "judged unfit: ...", `by` names whose program judged. Root's before
  /// the caller's own; each GPU once.
  std::vector<facts::Disabling> unfit;
  /// The same, with their causes.
  std::vector<Verdict> verdicts;
  std::vector<std::string> warnings;  ///< files that are not believed: another user's, open to others, or damaged
};
/// What holds for the caller at `now`: the word of root's monitors and of his own. What a monitor wrote that has ended,
/// or has not judged for longer than it said it would, is nobody's word.
/// A verdict that lasts goes on without its monitor (`known`, of read_verdicts()); what was accepted counts no more.
HealthView read_health(const HealthPlaces& places, std::chrono::system_clock::time_point now,
                       const VerdictView& known = {});
/// As a disabling is told.
facts::Disabling disabling_of(const Verdict& verdict);

/// One monitor's file. Not thread-safe.
class HealthPublisher {
 public:
  /// `program` is what judges ("gpuwarden serve"); it looks at the GPUs every `interval`.
  HealthPublisher(HealthPlaces places, std::string program, std::chrono::milliseconds interval);
  HealthPublisher(const HealthPublisher&) = delete;
  HealthPublisher& operator=(const HealthPublisher&) = delete;
  ~HealthPublisher();  ///< takes its word back, but for verdicts that last

  /// Tells which of these GPUs are in error. Writes where that has changed, and every 30 s while there is one; where
  /// there is none there is no file. What lasts is kept as a verdict, with its mark, until the GPU is seen to be fit.
  /// Fails where a file cannot be written; the next call tries again.
  Result<void> publish(std::span<const facts::Health> health, std::chrono::system_clock::time_point now,
                       Clock::SteadyTime when, std::span<const ResetMark> marks = {});

 private:
  Result<void> write(const std::vector<facts::Health>& unfit, std::chrono::system_clock::time_point now);
  Result<void> keep_lasting(std::span<const facts::Health> health, std::span<const ResetMark> marks);
  void take_back();

  HealthPlaces places_;
  std::string program_;
  std::chrono::milliseconds interval_;
  std::filesystem::path file_;  ///< empty: none is written
  UniqueFd lock_;               ///< of the file: who reads it sees by it that this process lives
  std::string told_;
  Clock::SteadyTime written_{};
  std::optional<std::map<std::string, std::string>> kept_;  ///< by UUID: what stands in the file of verdicts
  std::string kept_epoch_;                                  ///< the loading of the driver that `kept_` is of
};

}  // namespace gpuwarden::lease
