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

/// What is wrong with a GPU in one reading: a row of the table of symptoms.
struct Symptom {
  std::string_view id;    ///< "fell_off_the_bus"
  bool at_once = true;    ///< false: only after HealthPolicy::patience
  bool passes = true;     ///< false: only a reset of the GPU or the machine ends it (an Xid 79, a failed remapping)
  std::string_view help;  ///< what it is and where that is documented
};
std::span<const Symptom> symptoms();

/// A symptom that was seen, in words.
struct Ailment {
  const Symptom* symptom = nullptr;
  std::string reason;
  std::string next_step;
};
/// Everything that is wrong with one GPU in a reading, worst first.
std::vector<Ailment> ailments_of(const facts::GpuRecord& record, std::span<const facts::GpuEvent> events);

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
  std::vector<HealthChange> judge(const Reading& reading, std::span<const facts::Disabling> disabled = {});
  /// In the order of their indices.
  std::vector<facts::Health> all() const;

 private:
  struct Track;
  static Ailment absence_in(const facts::Snapshot& snapshot);
  std::string key_of(const facts::GpuRecord& record) const;
  void look_at(Track& track, const facts::GpuRecord& record, const Reading& reading);

  HealthPolicy policy_;
  std::minstd_rand random_;
  std::map<std::string, Track> tracks_;

 public:
  HealthBook(HealthBook&&) noexcept;
  HealthBook& operator=(HealthBook&&) noexcept;
  ~HealthBook();
};

}  // namespace gpuwarden::telemetry
