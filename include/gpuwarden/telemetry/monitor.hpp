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
#include <cstdint>
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
#include "gpuwarden/lease/health_notices.hpp"
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
  /// Where GPUs that are judged unfit are told to other processes (`list`, `select`, `run`) while this one runs, and
  /// after it where that lasts until a reset; what was accepted there is not judged again. Empty: nowhere.
  /// machine::Machine::health_places() names them.
  std::optional<lease::HealthPlaces> publish_health;
  std::string publish_as = "gpuwarden";  ///< the program that judges: "gpuwarden serve"
  /// Lines for the program's log (a store that cannot be written, a webhook that fails); may be empty. Must not stop
  /// the monitor.
  std::function<void(const std::string&)> log;
  Clock* clock = &system_clock();
};

/// By which a callback is taken away again.
enum class CallbackId : std::uint64_t {};

/// Thread-safe. Callbacks are called from one thread of its own, one at a time, with no lock held; they may call
/// everything but start(). stop() and the destructor do not wait for the callback that they are called from: what it is
/// told of is told to its end, and nothing after it.
class PerformanceMonitor {
 public:
  explicit PerformanceMonitor(MonitorOptions options);
  PerformanceMonitor(const PerformanceMonitor&) = delete;
  PerformanceMonitor& operator=(const PerformanceMonitor&) = delete;
  ~PerformanceMonitor();

  /// Fails where the store or the state file cannot be opened, or where it is running.
  Result<void> start();
  /// Ends at once, once callbacks that run have returned; what was read stays to be asked for. Stopping what is stopped
  /// is no error.
  void stop();
  bool running() const;

  /// Heard with each reading, after it was judged.
  CallbackId add_reading_callback(std::function<void(const Reading&)> callback);
  CallbackId add_alert_callback(std::function<void(const AlertChange&)> callback);
  CallbackId add_health_callback(std::function<void(const HealthChange&)> callback);
  /// Whether there was such a callback. When this has returned it is not called any more, unless it was itself that
  /// asked.
  bool remove_callback(CallbackId callback);

  /// The last reading; nullptr before the first.
  std::shared_ptr<const Reading> latest() const;
  /// Waits for a reading begun after `after` (or any, where that is empty), at most `timeout`; nullptr at its end, or
  /// where the monitor is stopped meanwhile.
  std::shared_ptr<const Reading> wait_for_reading(std::optional<Clock::SteadyTime> after,
                                                  std::chrono::milliseconds timeout) const;
  /// From memory, and where that does not reach back far enough from the store. Steps of `step` (0: one for each
  /// reading). Fails with not_found for a GPU that is not known, with invalid_argument for a metric that there is not.
  Result<Series> history(const Uuid& gpu, std::string_view metric, Window window,
                         std::chrono::milliseconds step = {}) const;
  /// Over the last `span`, in the metric's shown unit. Nothing where there is no reading in it. Fails as history().
  Result<std::optional<Statistics>> statistics(const Uuid& gpu, std::string_view metric,
                                               std::chrono::milliseconds span) const;
  /// By the GPU's counter, or from its power; nothing where it tells neither. Fails as history().
  Result<std::optional<Energy>> energy(const Uuid& gpu, Window window) const;
  std::vector<facts::Health> health() const;
  std::vector<Alert> alerts() const;
  /// The last changes of alerts, newest first, at most `most`.
  std::vector<AlertChange> alert_log(std::size_t most = 100) const;
  /// Fails with not_found where no such alert is active.
  Result<void> acknowledge(std::uint64_t alert, std::string by);
  /// Fails with not_found for a rule that there is not, or a GPU that is neither there nor was, with the nearest.
  Result<void> silence(Silence silence);
  /// Those that last.
  std::vector<Silence> silences() const;
  /// Ends the silences of this rule and GPU (empty: of all rules, or all GPUs, as they were made); whether there was
  /// one.
  bool end_silence(std::string_view rule, const Uuid& gpu);
  /// Other rules from now on (a reload).
  void set_alerts(AlertConfig config);
  std::vector<Use> uses(Window window) const;
  std::vector<Happening> happenings(Window window, std::size_t most = 1000) const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace gpuwarden::telemetry
