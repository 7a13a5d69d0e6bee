// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/serve/metrics.hpp"

#include <gmock/gmock.h>

#include <cstdlib>
#include <set>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/metrics.hpp"
#include "support/fleet_builder.hpp"
#include "support/patience.hpp"
#include "support/source_folder.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Two GPUs; the first has a process, an Xid, a job and most metrics, the second tells almost nothing.
struct Box {
  Box() {
    auto told = std::make_shared<telemetry::Reading>();
    told->snapshot = testing::fleet(2);
    told->snapshot.host = "node1";
    told->snapshot.driver_version = "550.54.15";
    told->snapshot.cuda_driver_version = "12.4";
    told->snapshot.taken_at = std::chrono::system_clock::time_point(std::chrono::seconds(1'700'000'000));
    told->took = std::chrono::milliseconds(12);
    facts::GpuRecord& first = told->snapshot.gpus[0];
    first.gpu.minor_number = Count(3);
    first.gpu.temperature_slowdown = Celsius(87);
    first.sample.power = Milliwatts(312'500);
    first.sample.energy = Millijoules(1'234'567);
    first.sample.utilization_gpu = Percent(97);
    first.sample.memory_used = 61_GiB;
    first.sample.memory_free = 19_GiB;
    first.sample.clock_sm = 1980_MHz;
    first.sample.sm_active = Share(8750);
    first.sample.slowdown_power = Microseconds(1'500'000);
    first.sample.throttle_reasons = {facts::ThrottleReason::sw_power_cap};
    facts::GpuProcess process;
    process.pid = Pid{4242};
    process.user = "ann";
    process.memory = 60_GiB;
    first.processes = {process};
    told->events = {
        {facts::GpuEventKind::xid, first.gpu.uuid, 31, told->snapshot.taken_at},
        {facts::GpuEventKind::xid, first.gpu.uuid, 31, told->snapshot.taken_at},
        {facts::GpuEventKind::xid, first.gpu.uuid, 79, told->snapshot.taken_at + std::chrono::milliseconds(500)}};
    testing::put(dir / "0", "4711\n\n4712\n");
    testing::put(dir / "README", "no GPU\n");
    Tally tally(3, dir.path());
    tally.add(*told);
    node.reading = told;
    node.counts = tally.latest();
    facts::Health health;
    health.uuid = first.gpu.uuid;
    health.state = facts::HealthState::busy;
    node.health = {health};
  }
  std::string render(const MetricsOptions& options, Format format = Format::text) const {
    return render_metrics(std::span(&node, 1), options, format);
  }
  testing::TempDir dir;
  NodeMetrics node;
};

MetricsOptions options(Dialect dialect) { return {.dialect = dialect, .version = "0.1.0"}; }

/// Every name of a sample in the text.
std::set<std::string> names_in(std::string_view text) {
  std::set<std::string> names;
  for (const auto line : split(text, '\n')) {
    if (!line.empty() && !line.starts_with('#')) names.emplace(line.substr(0, line.find_first_of("{ ")));
  }
  return names;
}

void expect_golden(const std::string& name, const std::string& text) {
  const auto file = testing::source_folder() / "tests/serve/golden" / name;
  if (std::getenv("GPUWARDEN_UPDATE_GOLDEN") != nullptr) testing::put(file, text);
  const auto golden = read_file(file);
  ASSERT_TRUE(golden.has_value()) << golden.error().message;
  EXPECT_EQ(text, *golden);
}

TEST(Metrics, OwnDialectIsAsItWas) { expect_golden("gpuwarden.txt", Box().render(options(Dialect::gpuwarden))); }
TEST(Metrics, OpenMetricsIsAsItWas) {
  expect_golden("openmetrics.txt", Box().render(options(Dialect::gpuwarden), Format::openmetrics));
}
TEST(Metrics, LegacyDcgmIsAsItWas) {
  MetricsOptions legacy = options(Dialect::dcgm_legacy);
  legacy.hostname_label = true;
  expect_golden("dcgm-legacy.txt", Box().render(legacy));
}
TEST(Metrics, Dcgm49IsAsItWas) {
  MetricsOptions now = options(Dialect::dcgm_4_9);
  now.hostname_label = true;
  expect_golden("dcgm-4.9.txt", Box().render(now));
}

TEST(Metrics, LabelsOfDcgmStandInItsOrderWithTheHostsNameAsItHasIt) {
  EXPECT_THAT(Box().render(options(Dialect::dcgm_legacy)),
              HasSubstr("DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-0000-test\",pci_bus_id=\"00000000:10:00.0\","
                        "device=\"nvidia3\",modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"node1\","
                        "DCGM_FI_DRIVER_VERSION=\"550.54.15\",hpc_job=\"4711\"} 97\n"));
}

TEST(Metrics, TheDialectsOfDcgmDifferInUnits) {
  const std::string legacy = Box().render(options(Dialect::dcgm_legacy));
  const std::string now = Box().render(options(Dialect::dcgm_4_9));
  EXPECT_THAT(legacy, HasSubstr("hpc_job=\"4712\"} 1980\n"));
  EXPECT_THAT(now, HasSubstr("hpc_job=\"4712\"} 1980000000\n"));
  EXPECT_THAT(legacy, HasSubstr("DCGM_FI_DEV_FB_USED{"));
  EXPECT_THAT(now, HasSubstr("DCGM_FI_DEV_FB_USED_BYTES{"));
  EXPECT_THAT(now, Not(HasSubstr("DCGM_FI_DEV_FB_USED{")));
}

TEST(Metrics, WhatIsUnknownIsAbsent) {
  const std::string text = Box().render(options(Dialect::gpuwarden));
  EXPECT_THAT(text, HasSubstr("gpuwarden_gpu_power_watts{gpu=\"0\""));
  EXPECT_THAT(text, Not(HasSubstr("gpuwarden_gpu_power_watts{gpu=\"1\"")));
  EXPECT_THAT(text, Not(HasSubstr("gpuwarden_gpu_fan_speed_percent")));
}

TEST(Metrics, GpusThatAreMissingCountAsLost) {
  const std::string text = Box().render(options(Dialect::gpuwarden));
  EXPECT_THAT(text, HasSubstr("\ngpuwarden_gpus_expected 3\n"));
  EXPECT_THAT(text, HasSubstr("\ngpuwarden_gpus_present 2\n"));
  EXPECT_THAT(text, HasSubstr("\ngpuwarden_gpus_lost 1\n"));
}

TEST(Metrics, SimulatedGpusSaySo) {
  Box box;
  auto simulated = std::make_shared<telemetry::Reading>(*box.node.reading);
  simulated->snapshot.simulated = true;
  box.node.reading = simulated;
  EXPECT_THAT(box.render(options(Dialect::gpuwarden)), HasSubstr("uuid=\"GPU-0000-test\",simulated=\"true\"} 312.5\n"));
}

TEST(Metrics, ProcessesAndUsersAreBounded) {
  Box box;
  auto crowded = std::make_shared<telemetry::Reading>(*box.node.reading);
  facts::GpuProcess process;
  for (int i = 0; i < 1000; ++i) {
    process.pid = Pid{100 + i};
    process.user = fmt::format("user{}", i);
    process.memory = Bytes(static_cast<std::uint64_t>(i));
    crowded->snapshot.gpus[1].processes->push_back(process);
  }
  box.node.reading = crowded;
  const std::string text = box.render(options(Dialect::gpuwarden));
  EXPECT_THAT(text, HasSubstr("gpuwarden_series_dropped{kind=\"process\"} 501\n"));
  EXPECT_THAT(text, HasSubstr("gpuwarden_series_dropped{kind=\"user\"} 501\n"));
  // The largest stay.
  EXPECT_THAT(text, HasSubstr("pid=\"1099\",user=\"user999\"} 999\n"));
  EXPECT_THAT(text, Not(HasSubstr("pid=\"100\",")));
}

TEST(Metrics, AProcessOnTwoInstancesOfAGpuHasTwoSeries) {
  Box box;
  auto cut = std::make_shared<telemetry::Reading>(*box.node.reading);
  facts::GpuProcess process = cut->snapshot.gpus[0].processes->front();
  process.gpu_instance = 7;
  cut->snapshot.gpus[0].processes->front().gpu_instance = 9;
  cut->snapshot.gpus[0].processes->push_back(process);
  box.node.reading = cut;
  const std::string text = box.render(options(Dialect::gpuwarden));
  EXPECT_THAT(text, HasSubstr("pid=\"4242\",gpu_instance=\"7\",user=\"ann\"}"));
  EXPECT_THAT(text, HasSubstr("pid=\"4242\",gpu_instance=\"9\",user=\"ann\"}"));
}

TEST(Metrics, AGpuThatNeverToldItsUuidHasAHealthToo) {
  Box box;
  auto lost = std::make_shared<telemetry::Reading>(*box.node.reading);
  lost->snapshot.gpus[1].gpu.uuid = Uuid("");
  box.node.reading = lost;
  box.node.health.emplace_back();
  box.node.health.back().uuid = Uuid("index-1");
  box.node.health.back().state = facts::HealthState::error;
  EXPECT_THAT(box.render(options(Dialect::gpuwarden)),
              HasSubstr("gpuwarden_gpu_health{gpu=\"1\",uuid=\"index-1\",state=\"error\"} 1\n"));
}

TEST(Metrics, ListsWhatIsGivenAndWhatIsOmittedAndWhy) {
  for (const Dialect dialect : {Dialect::dcgm_legacy, Dialect::dcgm_4_9}) {
    for (const MetricName& name : metric_names(dialect)) {
      EXPECT_TRUE(name.name.starts_with("DCGM_")) << name.name;
      const bool given = name.omitted.empty();
      if (given && !name.from.empty()) {
        EXPECT_NE(facts::find_metric(name.from), nullptr) << name.name;
      }
    }
  }
  EXPECT_EQ(metric_names(Dialect::gpuwarden).front().omitted, "");
  const std::string list = list_metrics(Dialect::dcgm_4_9);
  EXPECT_THAT(list, HasSubstr("\nomitted:\n"));
  EXPECT_THAT(list, HasSubstr("DCGM_FI_PROF_PCIE_TX_BYTES"));
  EXPECT_EQ(list_metrics(Dialect::gpuwarden).find("omitted"), std::string::npos);
}

TEST(Metrics, EveryRenderedNameIsListed) {
  for (const Dialect dialect : {Dialect::dcgm_legacy, Dialect::dcgm_4_9}) {
    std::set<std::string> given;
    for (const MetricName& name : metric_names(dialect)) {
      if (name.omitted.empty()) given.insert(name.name);
    }
    for (const std::string& name : names_in(Box().render(options(dialect)))) EXPECT_TRUE(given.contains(name)) << name;
  }
}

TEST(Metrics, AcceptChoosesTheFormat) {
  EXPECT_EQ(format_for("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", Dialect::gpuwarden),
            Format::openmetrics);
  EXPECT_EQ(format_for("text/plain", Dialect::gpuwarden), Format::text);
  EXPECT_EQ(format_for("application/openmetrics-text", Dialect::dcgm_legacy), Format::text);
}

TEST(Metrics, PromtoolFindsNothingToSay) {
  for (const Dialect dialect : {Dialect::gpuwarden, Dialect::dcgm_legacy}) {
    const auto done = testing::run_patiently(
        {.argv = {"promtool", "check", "metrics"}, .standard_input = Box().render(options(dialect))});
    if (!done) GTEST_SKIP() << "prometheus is not installed";
    // 3: names that it would choose otherwise, which for DCGM's it does.
    EXPECT_TRUE(done->exit_code == 0 || (dialect != Dialect::gpuwarden && done->exit_code == 3))
        << done->exit_code.value_or(-1) << done->standard_output << done->standard_error;
  }
}

TEST(Tally, KeepsCountingWhileGpusComeAndGo) {
  Tally tally;
  telemetry::Reading reading;
  reading.snapshot = testing::fleet(4);
  tally.add(reading);
  reading.snapshot.gpus.pop_back();
  reading.snapshot.gpus[0].state = facts::GpuState::lost;
  tally.add(reading);
  EXPECT_EQ(tally.latest()->expected, 4U);
  EXPECT_EQ(tally.latest()->present, 2U);
  EXPECT_EQ(tally.latest()->lost, 2U);
}

TEST(Tally, AnXidHasTheIndexThatItsGpuWasListedUnderLast) {
  // A driver that hangs is listed by its PCI devices, without UUIDs; its events come all the same.
  Tally tally;
  telemetry::Reading reading;
  reading.snapshot = testing::fleet(4);
  const telemetry::Reading healthy = reading;
  for (auto& record : reading.snapshot.gpus) record.gpu.uuid = Uuid();
  reading.events = {{facts::GpuEventKind::xid, healthy.snapshot.gpus[2].gpu.uuid, 79, reading.snapshot.taken_at}};
  tally.add(reading);
  ASSERT_EQ(tally.latest()->xids.size(), 1U);
  EXPECT_FALSE(tally.latest()->xids[0].index);
  tally.add(healthy);
  EXPECT_EQ(tally.latest()->xids[0].index, GpuIndex{2});
  tally.add(reading);
  EXPECT_EQ(tally.latest()->xids[0].index, GpuIndex{2});
  EXPECT_EQ(tally.latest()->xids[0].count, 2U);
}

TEST(Tally, ReadsTheFilesOfGpusAlone) {
  const testing::TempDir dir;
  testing::put(dir / "0", "1\n2\n1\n");
  testing::put(dir / "1.3", "3\n");
  testing::put(dir / "GPU-abc", " 4 \n\n");
  testing::put(dir / "2", "\n");
  testing::put(dir / "notes.txt", "5\n");
  testing::put(dir / "3" / "nested", "6\n");
  const auto jobs = read_job_mapping(dir.path());
  EXPECT_EQ(jobs.size(), 3U);
  EXPECT_EQ(jobs.at("0"), (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(jobs.at("GPU-abc"), std::vector<std::string>{"4"});
  EXPECT_TRUE(read_job_mapping(dir / "none").empty());
}

}  // namespace
}  // namespace gpuwarden::serve
