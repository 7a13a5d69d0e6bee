// SPDX-License-Identifier: Apache-2.0
// What history costs: the ring in memory, the file on disk. Every metric of the table is set, and changes where
// hardware would change it.
//   bench_history [HOURS] [GPUS] [FOLDER]     24 hours at 1 Hz of 8 GPUs, in /tmp, unless said otherwise
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "gpuwarden/telemetry/history.hpp"
#include "gpuwarden/telemetry/statistics.hpp"
#include "gpuwarden/telemetry/store.hpp"
#include "tests/telemetry/readings.hpp"

namespace {

using namespace gpuwarden;
using namespace gpuwarden::telemetry;
using Milliseconds = std::chrono::duration<double, std::milli>;
using std::chrono::steady_clock;

constexpr Window kAll{WallTime{}, WallTime::max()};

/// Resident memory now, in MB.
double resident() {
  std::ifstream file("/proc/self/statm");
  std::size_t size = 0;
  std::size_t pages = 0;
  file >> size >> pages;
  return static_cast<double>(pages) * 4096 / 1e6;
}

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

double megabytes(const std::filesystem::path& file) {
  double size = 0;
  for (const char* const ending : {"", "-wal", "-shm"}) {
    std::error_code absent;
    const auto part = std::filesystem::file_size(file.string() + ending, absent);
    if (!absent) size += static_cast<double>(part) / 1e6;
  }
  return size;
}

void measure_ring(std::uint32_t gpus) {
  History history;
  gpuwarden::testing::BusyFleet fleet(gpus);
  constexpr int kReadings = 3600;
  Milliseconds spent{};
  for (int i = 0; i < kReadings; ++i) {
    const Reading reading = fleet.next(std::chrono::seconds(i));
    const auto begun = steady_clock::now();
    history.add(reading);
    spent += steady_clock::now() - begun;
  }
  const double samples = static_cast<double>(kReadings) * gpus * static_cast<double>(facts::metrics().size());
  const auto begun = steady_clock::now();
  const auto series = history.series(gpuwarden::testing::reading_uuid(0), "power", kAll, std::chrono::milliseconds(0));
  const Milliseconds read = steady_clock::now() - begun;
  fmt::print(
      "memory, an hour at 1 Hz, {:>2} GPUs: {:.2f} MB, {:.2f} bytes a sample; add {:.3f} ms; series of {}: {:.2f} ms\n",
      gpus, static_cast<double>(history.footprint()) / 1e6, static_cast<double>(history.footprint()) / samples,
      spent.count() / kReadings, series ? series->points.size() : 0, read.count());
}

struct Course {
  Milliseconds spent{};
  Milliseconds longest{};
  double processor = 0;
};

bool add_hour(Store& store, gpuwarden::testing::BusyFleet& fleet, int hour, Course& course) {
  for (int second = 0; second < 3600; ++second) {
    const Reading reading = fleet.next(std::chrono::hours(hour) + std::chrono::seconds(second));
    const auto begun = steady_clock::now();
    const double processor = processor_seconds();
    const auto added = store.add(reading);
    course.processor += processor_seconds() - processor;
    const Milliseconds took = steady_clock::now() - begun;
    course.spent += took;
    course.longest = std::max(course.longest, took);
    if (added) continue;
    fmt::print(stderr, "{}\n", added.error().message);
    return false;
  }
  return true;
}

void measure_series(const Store& store) {
  for (const auto& [metric, step] :
       {std::pair{"power", 0}, {"power", 60}, {"memory_used_percent", 60}, {"energy", 0}}) {
    const auto begun = steady_clock::now();
    const auto series = store.series(gpuwarden::testing::reading_uuid(0), metric, kAll, std::chrono::seconds(step));
    const Milliseconds took = steady_clock::now() - begun;
    fmt::print("  series of {} in steps of {} s: {} points in {:.1f} ms\n", metric, step,
               series ? series->points.size() : 0, took.count());
  }
}

int measure_store(const std::string& name, const StoreConfig& config, const std::filesystem::path& file, int hours,
                  std::uint32_t gpus) {
  auto store = Store::open(file, config, {}, system_clock());
  if (!store) {
    fmt::print(stderr, "{}\n", store.error().message);
    return 1;
  }
  fmt::print("{}, {} h at 1 Hz, {} GPUs\n", name, hours, gpus);
  gpuwarden::testing::BusyFleet fleet(gpus);
  Course course;
  for (int hour = 0; hour < hours; ++hour) {
    if (!add_hour(*store, fleet, hour, course)) return 1;
    if (hour < 3 || hour % 4 == 3)
      fmt::print("  after {:>2} h: {:>6.1f} MB on disk, {:>5.1f} MB resident\n", hour + 1, megabytes(file), resident());
  }
  const double adds = 3600.0 * hours;
  const double samples = adds * gpus * static_cast<double>(facts::metrics().size());
  fmt::print("  add: {:.3f} ms wall, {:.3f} ms of a processor, {:.1f} ms the longest\n", course.spent.count() / adds,
             1000 * course.processor / adds, course.longest.count());
  measure_series(*store);
  const auto finished = store->finish();
  fmt::print("  finished: {:.1f} MB, {:.2f} bytes for each sample that was read\n", megabytes(file),
             megabytes(file) * 1e6 / samples);
  return finished ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const int hours = argc > 1 ? std::max(1, std::atoi(argv[1])) : 24;
  const auto gpus = static_cast<std::uint32_t>(argc > 2 ? std::max(1, std::atoi(argv[2])) : 8);
  std::string folder = std::string(argc > 3 ? argv[3] : "/tmp") + "/gpuwarden-bench-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) {
    fmt::print(stderr, "no folder can be made at {}\n", folder);
    return 1;
  }
  measure_ring(8);
  measure_ring(16);
  const std::filesystem::path path(folder);
  int failed = measure_store("store, default tiers", {}, path / "store.db", hours, gpus);
  failed += measure_store("recording", StoreConfig::of_recording(), path / "recording.db", hours, gpus);
  std::filesystem::remove_all(path);
  return failed;
}
