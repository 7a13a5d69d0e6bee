// SPDX-License-Identifier: Apache-2.0
// What the server asks of this machine's watcher: telemetry::PerformanceMonitor, or a stand-in.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/telemetry/monitor.hpp"

namespace gpuwarden::serve {

/// Thread-safe; nothing of it waits for a GPU. Each function is the monitor's of the same name.
class Watch {
 public:
  Watch() = default;
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  virtual ~Watch() = default;
  virtual std::shared_ptr<const telemetry::Reading> latest() const = 0;
  virtual Result<telemetry::Series> history(const Uuid& gpu, std::string_view metric, telemetry::Window window,
                                            std::chrono::milliseconds step) const = 0;
  virtual std::vector<facts::Health> health() const = 0;
  virtual std::vector<telemetry::Alert> alerts() const = 0;
  virtual std::vector<telemetry::AlertChange> alert_log(std::size_t most) const = 0;
  virtual Result<void> acknowledge(std::uint64_t alert, std::string by) = 0;
  virtual Result<void> silence(telemetry::Silence silence) = 0;
  virtual std::vector<telemetry::Silence> silences() const = 0;
  virtual bool end_silence(std::string_view rule, const Uuid& gpu) = 0;
  virtual std::vector<telemetry::Use> uses(telemetry::Window window) const = 0;
  virtual std::vector<telemetry::Happening> happenings(telemetry::Window window, std::size_t most) const = 0;
};

/// `monitor` must outlive it.
std::unique_ptr<Watch> watch_of(telemetry::PerformanceMonitor& monitor);

}  // namespace gpuwarden::serve
