// SPDX-License-Identifier: Apache-2.0
// Hours of watching 8 GPUs at 1 Hz on a clock that runs as fast as it can: what a reading costs with everything that
// follows from it, whether memory stays flat and the store within its bound.
//   monitor_soak [HOURS [STORE]]
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/telemetry/monitor.hpp"

namespace {

using namespace gpuwarden;

/// Moves when somebody sleeps on it.
class FastClock final : public Clock {
 public:
  SteadyTime now() const override { return SteadyTime(elapsed_.load()); }
  WallTime wall_now() const override {
    return WallTime(std::chrono::seconds(1'700'000'000)) +
           std::chrono::duration_cast<WallTime::duration>(elapsed_.load());
  }
  bool sleep_for(std::chrono::nanoseconds duration, const std::stop_token& stop) override {
    if (stop.stop_requested()) return false;
    elapsed_.store(elapsed_.load() + duration);
    return true;
  }

 private:
  std::atomic<std::chrono::nanoseconds> elapsed_{std::chrono::nanoseconds(0)};
};

double resident_mebibytes() {
  const auto statm = read_line("/proc/self/statm");
  const auto words = split_words(statm ? std::string_view(*statm) : std::string_view());
  const auto pages = words.size() > 1 ? parse_integer(words[1]) : std::nullopt;
  return static_cast<double>(pages.value_or(0)) * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1048576;
}

double mebibytes_of(const std::filesystem::path& store) {
  double sum = 0;
  for (const char* end : {"", "-wal"}) {
    std::error_code missing;
    const auto size = std::filesystem::file_size(store.string() + end, missing);
    if (!missing) sum += static_cast<double>(size) / 1048576;
  }
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const int hours = argc > 1 ? std::max(1, std::atoi(argv[1])) : 24;
  const std::string fleet = fmt::format("/tmp/gpuwarden-soak-{}.yaml", ::getpid());
  const std::filesystem::path store = argc > 2 ? argv[2] : fmt::format("/tmp/gpuwarden-soak-{}.db", ::getpid());
  std::ofstream(fleet)
      << "gpus: [{model: NVIDIA H100 80GB HBM3, count: 8, workload: {kind: training, memory: 40GiB}}]\n";
  FastClock clock;
  telemetry::MonitorOptions options;
  options.reader.nvml_library = GPUWARDEN_SIM_LIB_DIR "/550/libnvidia-ml.so.1";
  options.reader.variables = {{"GPUWARDEN_SIM_FLEET", fleet}};
  options.reader.simulated = true;
  options.sampler.events = false;
  options.store = store;
  options.clock = &clock;
  telemetry::PerformanceMonitor monitor(std::move(options));
  std::atomic<int> readings = 0;
  monitor.add_reading_callback([&](const telemetry::Reading&) { ++readings; });
  const auto start = std::chrono::steady_clock::now();
  if (const auto started = monitor.start(); !started) {
    fmt::print(stderr, "{}\n", started.error().message);
    return 1;
  }
  fmt::print("{:>6} {:>10} {:>14} {:>12}\n", "hours", "readings", "resident MiB", "store MiB");
  for (int hour = 1; hour <= hours; ++hour) {
    while (clock.now().time_since_epoch() < std::chrono::hours(hour))
      monitor.wait_for_reading(clock.now(), std::chrono::milliseconds(100));
    if (hour % std::max(1, hours / 12) == 0)
      fmt::print("{:>6} {:>10} {:>14.1f} {:>12.1f}\n", hour, readings.load(), resident_mebibytes(),
                 mebibytes_of(store));
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  monitor.stop();
  fmt::print("{:.2f} ms a reading with all that follows; store at the end {:.1f} MiB\n", took.count() / readings,
             mebibytes_of(store));
  std::filesystem::remove(fleet);
  if (argc <= 2) std::filesystem::remove(store);
  return 0;
}
