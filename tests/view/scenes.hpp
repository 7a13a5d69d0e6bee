// SPDX-License-Identifier: Apache-2.0
// Machines to draw, as values, with a history that is the same in every run.
#pragma once

#include <clocale>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <numbers>

#include "gpuwarden/view/draw.hpp"
#include "gpuwarden/view/keys.hpp"
#include "gpuwarden/view/trail.hpp"
#include "support/fleet_builder.hpp"

namespace gpuwarden::testing {

/// Characters beyond ASCII have a width only under a locale that knows them.
inline const bool kZoneIsSet = ::setenv("TZ", "UTC", 1) == 0;
inline const bool kLocaleIsSet = std::setlocale(LC_CTYPE, "C.UTF-8") != nullptr;

inline Clock::WallTime at_second(std::int64_t second) {
  return Clock::WallTime(std::chrono::seconds(1'700'000'000 + second));
}

/// Gives a GPU figures that follow from its index and the time.
inline void put_to_work(facts::GpuRecord& record, std::int64_t second) {
  const double phase = static_cast<double>(second) / 20 + record.gpu.index.value;
  const auto load = static_cast<std::int64_t>(50 + 45 * std::sin(phase * 2 * std::numbers::pi / 3));
  facts::GpuSample& sample = record.sample;
  sample.utilization_gpu = Percent(load);
  sample.memory_used = Bytes(static_cast<std::uint64_t>(load) * (80_GiB).value / 100);
  sample.temperature = Celsius(35 + load / 2);
  sample.power = Milliwatts(100'000 + load * 5'500);
  sample.power_limit = 700_W;
  sample.clock_sm = Megahertz(1980);
  sample.pcie_generation = Count(5);
  sample.pcie_width = Count(16);
  sample.pcie_received = BytesPerSecond(1'230'000'000);
  sample.pcie_sent = BytesPerSecond(340'000'000);
  sample.ecc_corrected_volatile = Count(0);
  sample.ecc_uncorrected_volatile = Count(0);
  sample.throttle_reasons.emplace();
  record.gpu.temperature_slowdown = Celsius(87);
  record.gpu.pcie_generation_max = Count(5);
  record.gpu.pcie_width_max = Count(16);
}

inline facts::GpuProcess process(std::int32_t pid, const std::string& user, const std::string& command, Bytes memory) {
  facts::GpuProcess made{.pid = Pid{pid}, .compute = true};
  made.user = user;
  made.command = command;
  made.memory = memory;
  made.sm = Percent(pid % 100);
  return made;
}

/// `count` GPUs at a moment; the even ones compute.
inline facts::Snapshot working_fleet(std::uint32_t count, std::int64_t second) {
  facts::Snapshot snapshot = fleet(count);
  snapshot.host = "n1";
  snapshot.driver_version = "550.54.15";
  snapshot.cuda_driver_version = "12.4";
  snapshot.taken_at = at_second(second);
  for (facts::GpuRecord& record : snapshot.gpus) {
    if (record.gpu.index.value % 2 != 0) continue;
    put_to_work(record, second);
    const auto pid = static_cast<std::int32_t>(1000 + record.gpu.index.value);
    record.processes->push_back(
        process(pid, record.gpu.index.value % 4 == 0 ? "ann" : "bob", "python train.py", *record.sample.memory_used));
  }
  return snapshot;
}

inline cluster::Node node_with(facts::Snapshot snapshot) {
  cluster::Node node;
  node.name = snapshot.host;
  node.seen = snapshot.taken_at;
  auto reading = std::make_shared<telemetry::Reading>();
  reading->snapshot = std::move(snapshot);
  node.reading = std::move(reading);
  return node;
}

/// A scene with a minute and a half of history. The trail lives beside it.
struct Stage {
  view::Trail trail{std::chrono::seconds(1)};
  view::Scene scene;

  explicit Stage(std::uint32_t gpus, std::int64_t seconds = 90) {
    for (std::int64_t second = 0; second < seconds; ++second)
      trail.add({node_with(working_fleet(gpus, second))}, Clock::SteadyTime(std::chrono::seconds(second)),
                at_second(second));
    scene.trail = &trail;
    if (seconds == 0) return;
    scene.nodes = trail.moments().back().nodes;
    scene.slot = trail.moments().back().slot;
    scene.now = at_second(seconds - 1);
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /// The same under a snapshot of one's own.
  void show(facts::Snapshot snapshot) { scene.nodes = {node_with(std::move(snapshot))}; }
};

inline void press(view::ViewState& state, const view::Scene& scene, view::Key key, view::Extent extent = {80, 24}) {
  view::settle(state, scene, extent);
  view::apply(key, state, scene, extent);
  view::settle(state, scene, extent);
}
inline void press(view::ViewState& state, const view::Scene& scene, char key, view::Extent extent = {80, 24}) {
  press(state, scene, view::Key{view::character(static_cast<char32_t>(key))}, extent);
}
inline void type(view::ViewState& state, const view::Scene& scene, std::string_view text) {
  for (const char key : text) press(state, scene, key);
}

}  // namespace gpuwarden::testing
