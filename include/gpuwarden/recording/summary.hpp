// SPDX-License-Identifier: Apache-2.0
// What a recording comes to: the figures of each GPU, who used them, what happened, what was wasted. Pure.
#pragma once

#include <chrono>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/recording/recording.hpp"
#include "gpuwarden/recording/waste.hpp"
#include "gpuwarden/telemetry/statistics.hpp"

namespace gpuwarden::recording {

/// For how long a GPU was held back for one reason.
struct ThrottleShare {
  facts::ThrottleReason reason{};
  std::chrono::milliseconds time{};
  double share = 0;  ///< of the time for which it is known, 0 to 1
};

struct Stretch {
  telemetry::WallTime from{};
  std::chrono::milliseconds lasted{};
};

/// What one GPU did. Unknown stays empty.
struct GpuSummary {
  GpuIndex index;
  Uuid uuid;
  std::string name;
  std::optional<Bytes> memory_total;
  std::optional<double> power_limit;  ///< watts
  /// By metric id. What another program's report leaves out of a figure is NaN.
  std::map<std::string, telemetry::Statistics, std::less<>> figures;
  std::optional<telemetry::Energy> energy;
  std::optional<double> throttled_share;          ///< held back for whatever reason, 0 to 1
  std::vector<ThrottleShare> throttling;          ///< each slowdown reason that was seen, longest first
  std::optional<std::chrono::milliseconds> idle;  ///< time in which at most kIdlePercent of it was used
  std::optional<Stretch> longest_idle;
  unsigned readings = 0;
  unsigned gaps = 0;                         ///< times when more than two readings in a row are missing
  std::chrono::milliseconds gap_time{};      ///< in all
  std::optional<telemetry::Happening> lost;  ///< it was lost, and did not come back

  /// Of a metric; nullptr where it is not known.
  const telemetry::Statistics* figure(std::string_view metric) const;
  /// Time for which its utilization is known.
  std::chrono::milliseconds watched() const;
  /// Whether it worked at all, by kUsedPercent; nothing where its utilization is not known.
  std::optional<bool> used() const;
  std::optional<double> idle_share() const;
  std::optional<double> peak_memory_share() const;
};

inline constexpr double kIdlePercent = 1;    ///< utilization up to which a reading counts as idle
inline constexpr double kUsedPercent = 0.5;  ///< mean utilization from which a GPU counts as used

struct Summary {
  telemetry::StoreInfo info;
  std::string run_id;  ///< of a run's report; else empty
  telemetry::Window window;
  bool held = false;  ///< the GPUs were reserved for the command
  std::vector<GpuSummary> gpus;
  std::vector<telemetry::Use> users;
  std::vector<telemetry::Use> jobs;
  std::vector<telemetry::Happening> happenings;  ///< oldest first, without those of kind "throttle" and "held"
  std::vector<Waste> waste;

  std::chrono::milliseconds duration() const;
  /// Without one the window says nothing.
  bool has_readings() const { return window.from != telemetry::WallTime{}; }
};

/// All GPUs together. Empty where it is not known of one of them, but for energy, which is that of those that tell it.
struct Totals {
  std::chrono::milliseconds gpu_time{};    ///< the GPUs' watched time
  std::optional<double> mean_utilization;  ///< percent, by watched time
  std::optional<double> joules;
  bool joules_are_estimate = false;
  std::size_t without_energy = 0;  ///< GPUs whose energy is not known
  std::optional<double> mean_watts;
  std::optional<Bytes> peak_memory;        ///< of the GPU with most
  std::optional<double> peak_temperature;  ///< Celsius, of the hottest GPU
  std::optional<double> idle_share;        ///< 0 to 1, of the GPUs' watched time
  std::optional<double> throttled_share;   ///< likewise
  std::optional<int> used;                 ///< how many worked
};
Totals totals_of(const Summary& summary);

/// One GPU's figures.
GpuSummary summarize(const GpuHistory& history);
/// Everything, with what the waste checks say.
Summary summarize(const Recording& recording);

nlohmann::json to_json(const telemetry::Happening& happening);
nlohmann::json to_json(const GpuSummary& gpu);
nlohmann::json to_json(const Summary& summary);
/// Reads back what to_json wrote, or a run's report (of which some figures are unknown). Fails with corrupt, naming the
/// key.
Result<Summary> summary_from_json(const nlohmann::json& json);

}  // namespace gpuwarden::recording
