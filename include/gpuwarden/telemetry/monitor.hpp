// SPDX-License-Identifier: Apache-2.0
// Watches the GPUs in the background: sampler, history, alerts and health in one object that a program holds.
//
//     telemetry::PerformanceMonitor monitor({.reader = machine->reader(), .sampler = {.interval = 1s}});
//     monitor.add_alert_callback([](const telemetry::AlertChange& change) { ... });
//     if (auto started = monitor.start(); !started) return started.error();
//     ...
//     const auto busy = monitor.statistics(gpu, "utilization", 10min);
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/health.hpp"
#include "gpuwarden/telemetry/alerts.hpp"
#include "gpuwarden/telemetry/health.hpp"
#include "gpuwarden/telemetry/history.hpp"
#include "gpuwarden/telemetry/sampler.hpp"
#include "gpuwarden/telemetry/sinks.hpp"
#include "gpuwarden/telemetry/statistics.hpp"
#include "gpuwarden/telemetry/store.hpp"
#include "gpuwarden/telemetry/usage.hpp"

namespace gpuwarden::telemetry {

struct MonitorOptions {
  probe::ReaderOptions reader;
  SamplerOptions sampler;
  /// Who has reserved what; may be empty.
  std::function<std::vector<facts::Lease>(const facts::Snapshot&)> leases;
  /// Who has disabled what; may be empty.
  std::function<std::vector<facts::Disabling>()> disabled;
  AlertConfig alerts{.rules = built_in_rules(), .sinks = {}};  ///< or those of parse_alert_rules()
  HealthPolicy health;
  std::chrono::milliseconds remember = std::chrono::hours(1);
  /// A file for history on disk; empty: none.
  std::filesystem::path store;
  StoreConfig store_config;
  StoreInfo store_info;
  /// A file for what alerts and silences there are, which survives a restart; empty: none.
  std::filesystem::path state;
  /// Lines for the program's log (a store that cannot be written, a webhook that fails); may be empty.
  std::function<void(const std::string&)> log;
  Clock* clock = &system_clock();
};

/// Thread-safe. Callbacks are called from its threads, one at a time; they may call everything but stop() and the
/// destructor.
class PerformanceMonitor {
 public:
  explicit PerformanceMonitor(MonitorOptions options);
  PerformanceMonitor(const PerformanceMonitor&) = delete;
  PerformanceMonitor& operator=(const PerformanceMonitor&) = delete;
  ~PerformanceMonitor();

  /// Fails where the store or the state file cannot be opened, or where it is running.
  Result<void> start();
  /// Ends at once; what was read stays to be asked for. Stopping what is stopped is no error.
  void stop();
  bool running() const;

  /// Heard with each reading, after it was judged.
  void add_reading_callback(std::function<void(const Reading&)> callback);
  void add_alert_callback(std::function<void(const AlertChange&)> callback);
  void add_health_callback(std::function<void(const HealthChange&)> callback);

  /// The last reading; nullptr before the first.
  std::shared_ptr<const Reading> latest() const;
  /// Waits for a reading begun after `after` (or any, where that is empty), at most `timeout`; nullptr at its end.
  std::shared_ptr<const Reading> wait_for_reading(std::optional<Clock::SteadyTime> after,
                                                  std::chrono::milliseconds timeout) const;
  /// From memory, and where that does not reach back far enough from the store.
  Result<Series> history(const Uuid& gpu, std::string_view metric, Window window,
                         std::chrono::milliseconds step = {}) const;
  /// Over the last `span`. Nothing where there is no reading in it.
  Result<std::optional<Statistics>> statistics(const Uuid& gpu, std::string_view metric,
                                               std::chrono::milliseconds span) const;
  Result<std::optional<Energy>> energy(const Uuid& gpu, Window window) const;
  std::vector<facts::Health> health() const;
  std::vector<Alert> alerts() const;
  /// The last changes of alerts, newest first, at most `most`.
  std::vector<AlertChange> alert_log(std::size_t most = 100) const;
  Result<void> acknowledge(std::uint64_t alert, std::string by);
  void silence(Silence silence);
  /// Other rules from now on (a reload).
  void set_alerts(AlertConfig config);
  std::vector<Use> uses(Window window) const;
  std::vector<Happening> happenings(Window window, std::size_t most = 1000) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpuwarden::telemetry
