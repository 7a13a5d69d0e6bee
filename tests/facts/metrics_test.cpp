// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/facts/metrics.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <set>

#include "gpuwarden/base/file.hpp"
#include "support/source_folder.hpp"

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

/// The table that docs/metrics.md holds.
std::string metrics_page() {
  std::string page =
      "# Metrics\n\nEvery number that gpuwarden reads from a GPU: its key in JSON, its unit and the range outside "
      "which a "
      "reading is dropped, the NVML call (or field of `nvmlDeviceGetFieldValues`) that tells it, the first driver "
      "branch "
      "that has the call, and which products answer. Made from `include/gpuwarden/facts/metric_table.inc`; "
      "`build/release/bin/facts_tests "
      "--gtest_filter=MetricTable.TheDocumentedTableIsThisOne` holds it against the table and, with "
      "`GPUWARDEN_UPDATE_DOCS=1`, writes it anew. `list` reads what choosing needs; `snapshot` reads all.\n\n"
      "| metric | JSON key | unit | range | what it is | NVML | driver | products "
      "|\n|---|---|---|---|---|---|---|---|\n";
  for (const Metric& metric : metrics()) {
    page +=
        fmt::format("| {} | `{}` | {} | {:g} to {:g} | {} | {} | {} | {} |\n", metric.id, metric.json_path, metric.unit,
                    metric.range.low, metric.range.high, metric.help, metric.source, metric.since, metric.products);
  }
  return page;
}

TEST(MetricTable, TheDocumentedTableIsThisOne) {
  const auto file = testing::source_folder() / "docs/metrics.md";
  if (std::getenv("GPUWARDEN_UPDATE_DOCS") != nullptr) {
    ASSERT_TRUE(write_file_atomically(file, metrics_page()));
  }
  EXPECT_EQ(read_file(file).value_or(""), metrics_page()) << "run this test with GPUWARDEN_UPDATE_DOCS=1";
}

TEST(MetricTable, WhatNoHardwareCanBeIsDropped) {
  GpuSample sample;
  sample.utilization_gpu = Percent(101);
  sample.temperature = Celsius(-60);
  sample.power = 300_W;
  drop_impossible(sample);
  EXPECT_FALSE(sample.utilization_gpu);
  EXPECT_FALSE(sample.temperature);
  EXPECT_EQ(sample.power, 300_W);
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
