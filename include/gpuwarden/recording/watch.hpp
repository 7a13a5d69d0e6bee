// SPDX-License-Identifier: Apache-2.0
// What happened between one reading and the next: GPUs that were lost, Xids, throttling, alerts. Pure.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/facts/gpu_sample.hpp"
#include "gpuwarden/recording/recording.hpp"
#include "gpuwarden/telemetry/alerts.hpp"
#include "gpuwarden/telemetry/reading.hpp"
#include "gpuwarden/telemetry/store.hpp"

namespace gpuwarden::recording {

inline constexpr std::string_view kThrottleKind = "throttle";  ///< text: the slowdown reasons from now on
inline constexpr std::string_view kLostKind = "lost";          ///< it fell off the bus, or is not listed any more
inline constexpr std::string_view kFailedKind = "failed";      ///< it does not answer, needs a reset ...
inline constexpr std::string_view kBackKind = "back";          ///< it answers again
inline constexpr std::string_view kXidKind = "xid";
inline constexpr std::string_view kEccKind = "ecc";
inline constexpr std::string_view kAlertKind = "alert";
inline constexpr std::string_view kHeldKind = "held";  ///< it was reserved for the recorded command; text: the run

/// The reasons that hold the clocks back, as a happening's text tells them; none: "".
std::string text_of(const std::vector<facts::ThrottleReason>& reasons);
std::vector<facts::ThrottleReason> throttle_reasons_from_text(std::string_view text);

/// Adds up for how long a GPU was held back.
class ThrottleMeter {
 public:
  /// What holds from now on; nothing: not known. Reasons that are no slowdown are left out. A reading counts for at
  /// most `longest`.
  void add(telemetry::WallTime time, std::optional<std::vector<facts::ThrottleReason>> reasons,
           std::chrono::milliseconds longest = std::chrono::milliseconds::max());
  const ThrottleTimes& times() const { return times_; }

 private:
  ThrottleTimes times_;
  telemetry::WallTime since_{};
  std::optional<std::vector<facts::ThrottleReason>> reasons_;
};

/// How a GPU is called that never told its UUID: "index-3".
Uuid place_name(GpuIndex index);

/// Compares each reading with the one before.
class Watch {
 public:
  /// Gives the GPUs that no longer tell their UUID the one that was seen in their place before, and those that never
  /// did their place's name (place_name()).
  void identify(facts::Snapshot& snapshot);
  /// What happened since the last reading, which `identify` has seen.
  std::vector<telemetry::Happening> judge(const telemetry::Reading& reading);

 private:
  struct Seen {
    bool usable = true;
    bool listed = true;
    bool just_lost = false;  ///< an event has told so since the last reading
    GpuIndex index;
    std::optional<std::string> throttling;
  };
  /// What an event tells that no reading has told before.
  void judge_event(const facts::GpuEvent& event, const facts::Snapshot& snapshot,
                   std::vector<telemetry::Happening>& out);
  void take_over(const facts::GpuRecord& record, Seen& seen);
  void judge_gpu(const facts::GpuRecord& record, telemetry::WallTime time, std::vector<telemetry::Happening>& out);
  void judge_missing(const facts::Snapshot& snapshot, std::vector<telemetry::Happening>& out);

  std::map<Uuid, Seen> seen_;
  telemetry::AlertBook alerts_{telemetry::built_in_rules()};
};

}  // namespace gpuwarden::recording
