// SPDX-License-Identifier: Apache-2.0
// Judges over time whether GPUs are fit for work. Pure: time comes with the readings.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/facts/health.hpp"
#include "gpuwarden/fitness/symptoms.hpp"
#include "gpuwarden/lease/verdicts.hpp"
#include "gpuwarden/telemetry/reading.hpp"

namespace gpuwarden::telemetry {

/// When a GPU is judged unfit and when fit again. The sources of the defaults stand in docs/health.md.
struct HealthPolicy {
  /// Trouble that may pass (throttling by heat, a link that is narrower) must last this long before it counts.
  std::chrono::milliseconds patience = std::chrono::seconds(30);
  /// An unfit GPU must have been well for this long before it counts as fit again.
  std::chrono::milliseconds probation = std::chrono::seconds(60);
  /// Recovery is tried after this, then ever more seldom (doubled each time, with a fifth of jitter).
  std::chrono::milliseconds first_retry = std::chrono::seconds(10);
  std::chrono::milliseconds last_retry = std::chrono::minutes(10);
};

using fitness::Ailment;
using fitness::ailments_of;
using fitness::Symptom;
using fitness::symptoms;

struct HealthChange {
  facts::Health before;
  facts::Health now;
};

/// Keeps the state of each GPU. Not thread-safe.
class HealthBook {
 public:
  /// `seed` feeds the jitter.
  explicit HealthBook(HealthPolicy policy = {}, unsigned seed = 0);
  /// Judges a reading. GPUs that were there before and are missing now are in error.
  /// What was accepted is not held against a GPU that answers, while it is the same.
  std::vector<HealthChange> judge(const Reading& reading, std::span<const facts::Disabling> disabled = {},
                                  std::span<const lease::Acceptance> accepted = {});
  /// Goes on with what an earlier monitor judged, of GPUs that were not seen yet.
  void recall(std::span<const lease::Verdict> verdicts);
  /// In the order of their indices.
  std::vector<facts::Health> all() const;

 private:
  struct Track;
  static Ailment absence_in(const facts::Snapshot& snapshot);
  std::string key_of(const facts::GpuRecord& record) const;
  void look_at(Track& track, const facts::GpuRecord& record, const Reading& reading,
               std::span<const lease::Acceptance> accepted);

  HealthPolicy policy_;
  std::minstd_rand random_;
  std::map<std::string, Track> tracks_;

 public:
  HealthBook(HealthBook&&) noexcept;
  HealthBook& operator=(HealthBook&&) noexcept;
  ~HealthBook();
};

}  // namespace gpuwarden::telemetry
