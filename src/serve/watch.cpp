// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/serve/watch.hpp"

namespace gpuwarden::serve {
namespace {

class MonitorWatch final : public Watch {
 public:
  explicit MonitorWatch(telemetry::PerformanceMonitor& monitor) : monitor_(monitor) {}
  std::shared_ptr<const telemetry::Reading> latest() const override { return monitor_.latest(); }
  Result<telemetry::Series> history(const Uuid& gpu, std::string_view metric, telemetry::Window window,
                                    std::chrono::milliseconds step) const override {
    return monitor_.history(gpu, metric, window, step);
  }
  std::vector<facts::Health> health() const override { return monitor_.health(); }
  std::vector<telemetry::Alert> alerts() const override { return monitor_.alerts(); }
  std::vector<telemetry::AlertChange> alert_log(std::size_t most) const override { return monitor_.alert_log(most); }
  Result<void> acknowledge(std::uint64_t alert, std::string by) override {
    return monitor_.acknowledge(alert, std::move(by));
  }
  Result<void> silence(telemetry::Silence silence) override { return monitor_.silence(std::move(silence)); }
  std::vector<telemetry::Silence> silences() const override { return monitor_.silences(); }
  bool end_silence(std::string_view rule, const Uuid& gpu) override { return monitor_.end_silence(rule, gpu); }
  std::vector<telemetry::Use> uses(telemetry::Window window) const override { return monitor_.uses(window); }
  std::vector<telemetry::Happening> happenings(telemetry::Window window, std::size_t most) const override {
    return monitor_.happenings(window, most);
  }

 private:
  telemetry::PerformanceMonitor& monitor_;
};

}  // namespace

std::unique_ptr<Watch> watch_of(telemetry::PerformanceMonitor& monitor) {
  return std::make_unique<MonitorWatch>(monitor);
}

}  // namespace gpuwarden::serve
