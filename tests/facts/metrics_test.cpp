// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/facts/metrics.hpp"

#include <set>

namespace gpuwarden::facts {
namespace {

TEST(MetricTable, EveryRowIsWholeAndUnique) {
  std::set<std::string_view> seen;
  for (const Metric& metric : metrics()) {
    EXPECT_TRUE(seen.insert(metric.id).second) << metric.id;
    EXPECT_TRUE(seen.insert(metric.json_path).second || metric.json_path == metric.id) << metric.json_path;
    EXPECT_TRUE(seen.insert(metric.prometheus).second) << metric.prometheus;
    EXPECT_TRUE(metric.prometheus.starts_with("gpuwarden_gpu_")) << metric.id;
    EXPECT_EQ(metric.prometheus.ends_with("_total"), metric.kind == MetricKind::counter) << metric.id;
    EXPECT_TRUE(metric.help.ends_with(".")) << metric.id;
    EXPECT_TRUE(metric.source.starts_with("nvml")) << metric.id;
    EXPECT_LT(metric.range.low, metric.range.high) << metric.id;
    EXPECT_FALSE(metric.products.empty()) << metric.id;
  }
}

TEST(MetricTable, PowerIsShownInWattsThoughNvmlSpeaksMilliwatts) {
  GpuSample sample;
  sample.power = Milliwatts(67'030);
  EXPECT_DOUBLE_EQ(*value_of(*find_metric("power"), sample), 67.03);
  set_value(*find_metric("power"), sample, 12.345);
  EXPECT_EQ(sample.power, Milliwatts(12'345));
}

TEST(MetricTable, UnknownStaysUnknown) {
  GpuSample sample;
  for (const Metric& metric : metrics()) {
    EXPECT_FALSE(value_of(metric, sample)) << metric.id;
    set_value(metric, sample, 3.0);
    EXPECT_EQ(value_of(metric, sample), 3.0) << metric.id;
    set_value(metric, sample, std::nullopt);
    EXPECT_FALSE(value_of(metric, sample)) << metric.id;
  }
  EXPECT_EQ(find_metric("no such metric"), nullptr);
}

TEST(ThrottleReasons, MaskBitsBecomeWordsAndUnknownBitsAreDropped) {
  EXPECT_THAT(throttle_reasons_from_mask(0x4 | 0x40 | (1ULL << 40)),
              ::testing::ElementsAre(ThrottleReason::sw_power_cap, ThrottleReason::hw_thermal_slowdown));
  EXPECT_FALSE(is_slowdown(ThrottleReason::gpu_idle));
  EXPECT_TRUE(is_slowdown(ThrottleReason::sw_thermal_slowdown));
}

}  // namespace
}  // namespace gpuwarden::facts
