// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/promql.hpp"

#include <fmt/format.h>

#include "gpuwarden/facts/metrics.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::telemetry {
namespace {

using testing::FailsWith;
using ::testing::HasSubstr;

std::string promql(std::string_view condition) {
  const auto parsed = Expression::parse(condition);
  if (!parsed) return parsed.error().message;
  const auto said = promql_of(*parsed);
  return said ? *said : said.error().message;
}

constexpr std::string_view kOn = "on (job, instance, node, gpu, uuid)";

TEST(PromQl, ComparesAMetricWithANumberInItsUnit) {
  EXPECT_EQ(promql("temp > 85"), "gpuwarden_gpu_temperature_celsius > 85");
  EXPECT_EQ(promql("memory_used >= 20GiB"), "gpuwarden_gpu_memory_used_bytes >= 21474836480");
  EXPECT_EQ(promql("memory_used_percent > 95"), "gpuwarden_gpu_memory_used_percent > 95");
}

TEST(PromQl, JoinsByTheGpu) {
  EXPECT_EQ(
      promql("temp > slowdown - 5"),
      fmt::format("gpuwarden_gpu_temperature_celsius > {} (gpuwarden_gpu_temperature_slowdown_celsius - 5)", kOn));
  EXPECT_EQ(promql("temp > 80 & power > 300"),
            fmt::format("(gpuwarden_gpu_temperature_celsius > 80) and {} (gpuwarden_gpu_power_watts > 300)", kOn));
}

TEST(PromQl, TurnsAnOppositeAround) {
  EXPECT_EQ(promql("not temp > 80"), "gpuwarden_gpu_temperature_celsius <= 80");
  EXPECT_EQ(promql("not (temp > 80 | power < 5)"),
            fmt::format("(gpuwarden_gpu_temperature_celsius <= 80) and {} (gpuwarden_gpu_power_watts >= 5)", kOn));
  EXPECT_EQ(promql("power != 0"), "gpuwarden_gpu_power_watts != 0");
}

TEST(PromQl, TellsStatesByTheirLabels) {
  EXPECT_EQ(promql("throttle hw_slowdown"),
            R"(max without (reason) (gpuwarden_gpu_throttle_reason{reason=~"hw_slowdown"}) == 1)");
  EXPECT_EQ(promql("not throttle hw_slowdown"),
            R"(max without (reason) (gpuwarden_gpu_throttle_reason{reason=~"hw_slowdown"}) == 0)");
  EXPECT_EQ(promql("state != lost"),
            R"(max without (name, pci_bus_id, state) (gpuwarden_gpu_info{state!~"lost"}) == 1)");
  EXPECT_THAT(promql("name ~ 'H100 (80GB)'"), HasSubstr(R"(name=~".*(?i:H100 \\(80GB\\)).*")"));
}

TEST(PromQl, TellsAnXidByItsTime) {
  EXPECT_EQ(promql("xid == 79"),
            R"(time() - max without (xid) (gpuwarden_gpu_xid_last_timestamp_seconds{xid="79"}) < 120)");
  EXPECT_EQ(promql("increase(pcie_replays) > 3"), "increase(gpuwarden_gpu_pcie_replays_total[2m]) > 3");
}

TEST(PromQl, WhatIsNotExportedIsRefusedByName) {
  for (const char* name : {"command ~ python", "user == ann", "host == node-1", "vendor == AMD"}) {
    const auto parsed = Expression::parse(name);
    ASSERT_TRUE(parsed.has_value()) << name << parsed.error().message;
    EXPECT_THAT(promql_of(*parsed), FailsWith(ErrorCode::unsatisfied, HasSubstr("is not exported to Prometheus")));
  }
  EXPECT_THAT(promql("1 > 0"), HasSubstr("two constants"));
}

TEST(PromQl, HasANameForEveryMetricAndDerivedMetric) {
  for (const facts::Metric& metric : facts::metrics())
    EXPECT_EQ(prometheus_name(*find_variable(metric.id)), metric.prometheus);
  for (const DerivedMetric& metric : derived_metrics())
    EXPECT_THAT(prometheus_name(metric), HasSubstr(std::string(metric.id)));
}

}  // namespace
}  // namespace gpuwarden::telemetry
