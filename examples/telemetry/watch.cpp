// SPDX-License-Identifier: Apache-2.0
// Watches the GPUs for a few seconds: watch [FLEET] [SECONDS]. Without a fleet this machine's own; `watch h100x8 5`
// watches a simulated one.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "gpuwarden/machine/machine.hpp"
#include "gpuwarden/telemetry/monitor.hpp"

using namespace gpuwarden;

namespace {

int complain(const Error& error) {
  std::fprintf(stderr, "watch: %s\n%s\n", error.message.c_str(), error.hint.c_str());
  return 1;
}

void show(const telemetry::PerformanceMonitor& monitor, const facts::GpuRecord& record) {
  const auto now = std::chrono::system_clock::now();
  const auto& uuid = record.gpu.uuid;
  const auto busy = monitor.statistics(uuid, "utilization", std::chrono::minutes(1));
  const auto power = monitor.history(uuid, "power", {now - std::chrono::minutes(1), now + std::chrono::seconds(1)});
  std::printf("GPU %u %s: %zu readings of its power", record.gpu.index.value, record.gpu.name.c_str(),
              power ? power->points.size() : 0);
  if (busy && *busy) std::printf(", %.0f %% busy on average, %.0f %% at most", (*busy)->mean, (*busy)->max);
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string fleet = argc > 1 ? argv[1] : "";
  const std::chrono::seconds time(argc > 2 ? std::atoi(argv[2]) : 5);
  const machine::Source source =
      fleet.empty() ? machine::Source(machine::Real{}) : machine::Source(machine::Simulated{fleet});
  const auto machine = machine::Machine::open(source, machine::options_from(current_environment()));
  if (!machine) return complain(machine.error());

  telemetry::MonitorOptions options;
  options.reader = machine->reader();
  options.sampler.interval = std::chrono::milliseconds(500);
  telemetry::PerformanceMonitor monitor(std::move(options));
  monitor.add_alert_callback([](const telemetry::AlertChange& change) {
    std::printf("%s: %s\n", std::string(to_string(change.alert.level)).c_str(), change.alert.message.c_str());
  });
  monitor.add_health_callback([](const telemetry::HealthChange& change) {
    std::printf("GPU %u is %s %s\n", change.now.index.value, std::string(to_string(change.now.state)).c_str(),
                change.now.reason.c_str());
  });
  if (const auto started = monitor.start(); !started) return complain(started.error());
  system_clock().sleep_for(time);
  const auto latest = monitor.latest();
  monitor.stop();  // what was read stays to be asked for

  if (!latest || latest->snapshot.gpus.empty()) return complain({ErrorCode::unavailable, "no GPU was read", ""});
  for (const auto& record : latest->snapshot.gpus) show(monitor, record);
  return 0;
}
