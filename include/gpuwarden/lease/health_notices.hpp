// SPDX-License-Identifier: Apache-2.0
// Which GPUs running monitors judge unfit: a file for each monitor, which counts while that monitor lives and goes on
// judging. A GPU of which no file speaks is neither fit nor unfit by that.
#pragma once

#include <chrono>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/facts/health.hpp"
#include "gpuwarden/lease/disablings.hpp"

namespace gpuwarden::lease {

/// The folders of the files. A monitor of root's writes to the first one, another user's to his own.
struct HealthPlaces {
  std::filesystem::path everybody;
  std::filesystem::path own;  ///< empty: the first one
};
/// Beside what is disabled: DISABLINGS/health.
HealthPlaces health_places(const DisablingPlaces& disablings);

struct HealthView {
  /// As if somebody had disabled them: `reason` is "judged unfit: ...", `by` names whose program judged. Root's before
  /// the caller's own; each GPU once.
  std::vector<facts::Disabling> unfit;
  std::vector<std::string> warnings;  ///< files that are not believed: another user's, open to others, or damaged
};
/// What holds for the caller at `now`: the word of root's monitors and of his own. What a monitor wrote that has ended,
/// or has not judged for longer than it said it would, is nobody's word.
HealthView read_health(const HealthPlaces& places, std::chrono::system_clock::time_point now);

/// One monitor's file. Not thread-safe.
class HealthPublisher {
 public:
  /// `program` is what judges ("gpuwarden serve"); it looks at the GPUs every `interval`.
  HealthPublisher(HealthPlaces places, std::string program, std::chrono::milliseconds interval);
  HealthPublisher(const HealthPublisher&) = delete;
  HealthPublisher& operator=(const HealthPublisher&) = delete;
  ~HealthPublisher();  ///< takes its word back

  /// Tells which of these GPUs are in error. Writes where that has changed, and every 30 s while there is one; where
  /// there is none there is no file. Fails where the file cannot be written; the next call tries again.
  Result<void> publish(std::span<const facts::Health> health, std::chrono::system_clock::time_point now,
                       Clock::SteadyTime when);

 private:
  Result<void> write(const std::vector<facts::Health>& unfit, std::chrono::system_clock::time_point now);
  void take_back();

  HealthPlaces places_;
  std::string program_;
  std::chrono::milliseconds interval_;
  std::filesystem::path file_;  ///< empty: none is written
  UniqueFd lock_;               ///< of the file: who reads it sees by it that this process lives
  std::string told_;
  Clock::SteadyTime written_{};
};

}  // namespace gpuwarden::lease
