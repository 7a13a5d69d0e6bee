// SPDX-License-Identifier: Apache-2.0
// A stretch of history with all that is needed to sum it up: read from a file, or collected while a job runs.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/gpu_sample.hpp"
#include "gpuwarden/telemetry/history.hpp"
#include "gpuwarden/telemetry/store.hpp"
#include "gpuwarden/telemetry/usage.hpp"

namespace gpuwarden::recording {

/// A metric that is summed up for each GPU: a row each; JSON, tables and charts follow from it.
struct Figure {
  std::string_view metric;  ///< its id in the metric table
  std::string_view key;     ///< in JSON, with its unit
  std::string_view title;   ///< "GPU utilization"
  std::string_view unit;    ///< as facts::Metric::unit
  bool charted = false;
};
std::span<const Figure> figures();
/// Every metric that a recording is asked for: the figures' and those that they are seen against (memory_total ...).
std::span<const std::string_view> tracked_metrics();
/// A series of power with the readings around a job, which its energy is integrated from where there is no counter.
inline constexpr std::string_view kPowerForEnergy = "power_for_energy";

/// For how long a GPU was held back.
struct ThrottleTimes {
  std::chrono::milliseconds covered{};  ///< time for which it is known
  std::chrono::milliseconds any{};      ///< held back for at least one reason
  /// Each slowdown reason that was seen; 0 where a single reading told it.
  std::map<facts::ThrottleReason, std::chrono::milliseconds> by_reason;
};

/// What is known of one GPU.
struct GpuHistory {
  telemetry::KnownGpu gpu;
  std::map<std::string, telemetry::Series, std::less<>> series;  ///< by metric id; in time's order
  ThrottleTimes throttling;

  /// nullptr where the metric has no points.
  const telemetry::Series* find(std::string_view metric) const;
};

struct Recording {
  telemetry::StoreInfo info;
  telemetry::Window window;  ///< from the first reading to the last
  std::vector<GpuHistory> gpus;
  std::vector<telemetry::Use> uses;
  std::vector<telemetry::Happening> happenings;  ///< oldest first
  bool held = false;                             ///< the GPUs were reserved for the command
};

/// The time that readings stand for, as telemetry::Statistics weighs them: each until the next one, or one step where
/// that is more than three steps away, and at the end.
void for_each_stretch(const telemetry::Series& series,
                      const std::function<void(const telemetry::Point&, std::chrono::milliseconds)>& visit);
/// The usual time between points: their median distance; zero below two points.
std::chrono::milliseconds usual_step(const std::vector<telemetry::Point>& points);

/// A GPU that told its UUID only later is one GPU: what happened to it while it was known by its place is its own.
void join_nameless(Recording& recording);

/// Reads what a summary needs; with `within` only that stretch. Fails as telemetry::Store does, and with not_found
/// where there is no reading in it.
Result<Recording> read_recording(const telemetry::Store& store,
                                 const std::optional<telemetry::Window>& within = std::nullopt);

}  // namespace gpuwarden::recording
