// SPDX-License-Identifier: Apache-2.0
// The whole reading of a real GPU beside what nvidia-smi -q -x says at the same moment.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/capture/capture.hpp"
#include "gpuwarden/facts/metrics.hpp"
#include "gpuwarden/probe/nvml_reader.hpp"
#include "support/patience.hpp"

namespace gpuwarden {
namespace {

/// How far two readings of a moving value may lie apart, moments after each other: a share of the value, plus a bit.
struct Slack {
  std::string_view metric;
  double share;
  double plus;
};
constexpr Slack kMoving[] = {{"utilization", 0, 100},         {"memory_utilization", 0, 100},
                             {"encoder_utilization", 0, 100}, {"decoder_utilization", 0, 100},
                             {"jpeg_utilization", 0, 100},    {"ofa_utilization", 0, 100},
                             {"memory_used", 0, 64 << 20},    {"memory_free", 0, 64 << 20},
                             {"bar1_used", 0, 64 << 20},      {"bar1_free", 0, 64 << 20},
                             {"temperature", 0, 4},           {"memory_temperature", 0, 4},
                             {"temperature_margin", 0, 4},    {"power", 0.2, 30},
                             {"power_average", 0.2, 30},      {"power_instant", 0.3, 40},
                             {"clock_graphics", 1, 0},        {"clock_sm", 1, 0},
                             {"clock_memory", 1, 0},          {"clock_video", 1, 0},
                             {"performance_state", 0, 15},    {"pcie_generation", 0, 4},
                             {"pcie_sent", 0, 1e12},          {"pcie_received", 0, 1e12},
                             {"slowdown_power", 0, 10},       {"slowdown_thermal", 0, 10},
                             {"slowdown_sync_boost", 0, 10},  {"slowdown_hw_thermal", 0, 10},
                             {"memory_total", 0, 1 << 20},    {"memory_reserved", 0, 2 << 20},
                             {"bar1_total", 0, 1 << 20}};

double allowance(std::string_view metric, double value) {
  const auto* const found = std::ranges::find(kMoving, metric, &Slack::metric);
  return found == std::end(kMoving) ? 1e-6 : std::abs(value) * found->share + found->plus;
}

TEST(RealGpuFully, EveryMetricAgreesWithNvidiaSmisXml) {
  const auto ours = probe::read_snapshot({}, {.detail = probe::Detail::slow, .links = true});
  if (ours.problem || ours.gpus.empty()) GTEST_SKIP() << "no GPU answers on this machine";
  const auto done = testing::run_patiently({.argv = {"nvidia-smi", "-q", "-x"}});
  if (!done || done->exit_code != 0) GTEST_SKIP() << "no nvidia-smi";
  const auto theirs = capture::snapshot_from_smi_xml(done->standard_output);
  ASSERT_TRUE(theirs);
  ASSERT_EQ(ours.gpus.size(), theirs->gpus.size());
  EXPECT_EQ(ours.driver_version, theirs->driver_version);
  for (std::size_t i = 0; i < ours.gpus.size(); ++i) {
    fmt::print("GPU {}  {:<28} {:>16} {:>16}\n", i, "metric", "gpuwarden", "nvidia-smi");
    int compared = 0;
    for (const facts::Metric& metric : facts::metrics()) {
      const auto a = value_of(metric, ours.gpus[i].sample);
      const auto b = value_of(metric, theirs->gpus[i].sample);
      const auto shown = [](const std::optional<double>& value) { return value ? fmt::format("{:g}", *value) : "-"; };
      if (a || b) fmt::print("       {:<28} {:>16} {:>16}\n", metric.id, shown(a), shown(b));
      if (!a || !b) continue;
      ++compared;
      EXPECT_NEAR(*a, *b, allowance(metric.id, *b)) << metric.id;
    }
    EXPECT_GT(compared, 15);
    const auto& one = ours.gpus[i].gpu;
    const auto& two = theirs->gpus[i].gpu;
    EXPECT_EQ(one.uuid, two.uuid);
    EXPECT_EQ(one.pci_bus_id, two.pci_bus_id);
    EXPECT_EQ(one.vbios_version, two.vbios_version);
    EXPECT_EQ(one.inforom_image_version, two.inforom_image_version);
    EXPECT_EQ(one.gsp_firmware_version, two.gsp_firmware_version);
    EXPECT_EQ(one.power_limit_max, two.power_limit_max);
    EXPECT_EQ(one.clock_video_max, two.clock_video_max);
    EXPECT_EQ(one.compute_mode, two.compute_mode);
    EXPECT_EQ(one.mig_enabled.value_or(false), two.mig_enabled.value_or(false));
  }
}

}  // namespace
}  // namespace gpuwarden
