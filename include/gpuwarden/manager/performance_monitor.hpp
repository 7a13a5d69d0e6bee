// SPDX-License-Identifier: Apache-2.0
// Metrics, alerts and operations of a program's GPUs in one object: telemetry's monitor and a profiler beside it.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/profile/profiler.hpp"
#include "gpuwarden/telemetry/monitor.hpp"

namespace gpuwarden::manager {

using telemetry::AlertLevel;

/// An alert where a metric (or derived metric) of a GPU is above a value.
struct AlertThreshold {
  double above = 0;
  AlertLevel level = AlertLevel::warning;
  bool operator==(const AlertThreshold&) const = default;
};

/// Keys as monitor_config_from_json() reads them; times are seconds there.
struct MonitorConfig {
  bool enable_alerting = true;    ///< without it readings are not judged
  bool enable_profiling = false;  ///< without it profiled operations cost nothing and leave nothing
  std::chrono::milliseconds interval{1000};
  std::chrono::milliseconds history{3600000};  ///< so far back readings are kept
  /// Beside the built-in rules, by metric ("temperature", "memory_used_percent", "power"); in JSON a number, or an
  /// object with `above` and `level`.
  std::map<std::string, AlertThreshold> thresholds;

  bool operator==(const MonitorConfig&) const = default;
};
nlohmann::json to_json(const MonitorConfig& config);
/// Fails as gpu_config_from_json() does, and for a metric that is not known (with the nearest).
Result<MonitorConfig> monitor_config_from_json(const nlohmann::json& json);
/// The alert rules of a configuration: the built-in ones, and one for each threshold ("threshold_temperature").
Result<telemetry::AlertConfig> alert_rules(const MonitorConfig& config);

/// Thread-safe, as telemetry::PerformanceMonitor.
class PerformanceMonitor {
 public:
  /// `options` say what is read and how; interval, history and rules come from the configuration. Fails as
  /// alert_rules().
  static Result<std::unique_ptr<PerformanceMonitor>> make(const MonitorConfig& config,
                                                          telemetry::MonitorOptions options);
  PerformanceMonitor(const PerformanceMonitor&) = delete;
  PerformanceMonitor& operator=(const PerformanceMonitor&) = delete;
  ~PerformanceMonitor();

  /// Metrics, history, statistics, alerts, callbacks, start and stop.
  telemetry::PerformanceMonitor& telemetry() { return *monitor_; }
  const telemetry::PerformanceMonitor& telemetry() const { return *monitor_; }
  /// For profile::Scope; told of each reading's power and utilization.
  profile::Profiler& profiler() { return profiler_; }
  const MonitorConfig& config() const { return config_; }

  /// An operation that lasts until the end of the scope; off without enable_profiling.
  [[nodiscard]] profile::Scope profile_operation(std::string_view name) { return profile::Scope(name, profiler_); }

  /// The last reading's metrics by GPU: {"time_unix_ms", "gpus": [{"index", "uuid", "name", "metrics": {...}}]}. Null
  /// before the first.
  nlohmann::json current() const;
  /// min, mean, max, p95 of each metric that changes, by GPU, over the last `span`.
  nlohmann::json summary(std::chrono::milliseconds span) const;
  /// {"running", "alerts": [...], "readings", "operations"}
  nlohmann::json status();

 private:
  PerformanceMonitor(MonitorConfig config, telemetry::MonitorOptions options);

  const MonitorConfig config_;
  profile::Profiler profiler_;
  telemetry::CallbackId profiled_{};
  std::unique_ptr<telemetry::PerformanceMonitor> monitor_;  ///< last: it ends before what it tells
};

}  // namespace gpuwarden::manager
