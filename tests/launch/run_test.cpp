// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "gpuwarden/base/file.hpp"
#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::launch {
namespace {

using testing::FailsWith;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::TempDir;

class Runs : public ::testing::Test {
 protected:
  Runs() { ::setenv("GPUWARDEN_SIM_DIR", (dir_ / "sim").c_str(), 1); }

  machine::Machine open(machine::Source source) const {
    machine::Options options;
    options.timeout = std::chrono::seconds(60);
    options.simulator = {GPUWARDEN_SIM_LIB_DIR, dir_ / "sim"};
    auto machine = machine::Machine::open(std::move(source), options);
    EXPECT_THAT(machine, IsOk());
    return std::move(*machine);
  }
  RunPlan plan(const std::string& script) const {
    auto plan = plan_run(
        {.argv = {"/bin/sh", "-c", script, "sh", (dir_ / "out").string()}, .environment = {{"PATH", "/usr/bin:/bin"}}});
    EXPECT_THAT(plan, IsOk());
    return *plan;
  }
  static placement::Decision decide(const facts::Snapshot& snapshot, std::uint32_t count) {
    const auto decision = placement::select({.count = count}, {snapshot, {}, {}, {}});
    EXPECT_TRUE(decision && decision->satisfied);
    return decision.value_or(placement::Decision{});
  }

  TempDir dir_;
};

TEST_F(Runs, ARankForEachGpuOfTheDecision) {
  const auto machine = open(machine::Captured{testing::fleet(4), "capture"});
  RunPlan each = plan("true");
  each.rank_per_gpu = true;
  const facts::Snapshot snapshot = machine.read();
  const ReadyRun run = ready(each, machine, decide(snapshot, 3), snapshot, {7, 8});
  EXPECT_EQ(run.job.ranks, 3U);
  EXPECT_EQ(run.gpus.size(), 3U);
  EXPECT_EQ(run.job.visible_devices, run.gpus[0].value + "," + run.gpus[1].value + "," + run.gpus[2].value);
  EXPECT_FALSE(run.job.one_device_per_rank);
  EXPECT_EQ(run.job.held_descriptors, (std::vector<int>{7, 8}));
  each.rank_per_gpu = false;
  EXPECT_EQ(ready(each, machine, decide(snapshot, 3), snapshot, {}).job.ranks, 1U);
  placement::Decision cpu;
  cpu.satisfied = cpu.cpu = true;
  each.rank_per_gpu = true;
  EXPECT_EQ(ready(each, machine, cpu, snapshot, {}).job.ranks, 1U) << "without a GPU, one";
}

TEST_F(Runs, RanksOnMigInstancesGetOneEach) {
  const auto machine = open(machine::Captured{testing::mig_fleet(), "capture"});
  const facts::Snapshot snapshot = machine.read();
  const auto decision =
      placement::select({.count = 2, .mig = true, .one_process_per_device = true}, {snapshot, {}, {}, {}});
  ASSERT_TRUE(decision && decision->satisfied);
  RunPlan each = plan("true");
  each.rank_per_gpu = true;
  EXPECT_TRUE(ready(each, machine, *decision, snapshot, {}).job.one_device_per_rank);
}

TEST_F(Runs, AJobOnASimulatedFleetIsRunWatchedAndReported) {
  const auto machine = open(machine::Simulated{"h100x8"});
  const facts::Snapshot snapshot = machine.read();
  const ReadyRun job = ready(plan("echo $GPUWARDEN_SIMULATE $CUDA_VISIBLE_DEVICES >\"$1\"; sleep 3; exit 3"), machine,
                             decide(snapshot, 2), snapshot, {});
  const auto report = run(
      job, machine,
      {.sample_period = std::chrono::milliseconds(10), .load = {.memory = 20_GiB, .utilization = 80_pct}, .rules = {}},
      system_clock());
  ASSERT_THAT(report, IsOk());
  EXPECT_TRUE(report->simulated);
  EXPECT_EQ(report->end.exit_code, 3);
  EXPECT_EQ(report->command, job.job.argv);
  EXPECT_EQ(report->run_id, job.job.run_id);
  ASSERT_EQ(report->gpus.size(), 2U);
  EXPECT_EQ(report->gpus[0].uuid, job.gpus[0]);
  EXPECT_GE(report->gpus[1].peak_memory.value_or(Bytes(0)), 20_GiB);
  EXPECT_EQ(read_line(dir_ / "out"), machine.fleet_folder() + " " + job.job.visible_devices);
}

TEST_F(Runs, AJobThatIsOverAtOnceHasFiguresOnlyOfReadingsThatItWasThereFor) {
  const auto machine = open(machine::Simulated{"t4x1"});
  const facts::Snapshot snapshot = machine.read();
  const ReadyRun job = ready(plan("exit 0"), machine, decide(snapshot, 1), snapshot, {});
  const auto report =
      run(job, machine, {.load = {.memory = 1_GiB, .utilization = 60_pct}, .rules = {}}, system_clock());
  ASSERT_THAT(report, IsOk());
  ASSERT_EQ(report->gpus.size(), 1U);
  const GpuReport& gpu = report->gpus[0];
  EXPECT_EQ(gpu.samples == 0, !gpu.peak_memory.has_value());
  EXPECT_EQ(gpu.samples == 0, !gpu.energy_joules.has_value());
  EXPECT_FALSE(gpu.name.empty()) << "it was read before and after";
}

TEST_F(Runs, TheSitesRulesJudgeWhatTheJobDid) {
  const auto machine = open(machine::Simulated{"t4x1"});
  const auto knowledge = knowledge::Knowledge::built_in().with_overlay(
      "rules: [{id: waste, when: {gpus_unused: true}, fix: ask for fewer}]\n", "site.yaml");
  ASSERT_THAT(knowledge, IsOk());
  const facts::Snapshot snapshot = machine.read();
  const ReadyRun job = ready(plan("sleep 3"), machine, decide(snapshot, 1), snapshot, {});
  const auto report = run(job, machine,
                          {.sample_period = std::chrono::milliseconds(10),
                           .load = {.memory = 1_GiB, .utilization = 0_pct},
                           .rules = knowledge->rules()},
                          system_clock());
  ASSERT_THAT(report, IsOk());
  ASSERT_EQ(report->findings.size(), 1U);
  EXPECT_EQ(report->findings[0].id, "site:waste");
}

TEST_F(Runs, AProgramThatIsNotThereIsAnError) {
  const auto machine = open(machine::Captured{facts::Snapshot{}, "capture"});
  RunPlan missing = plan("true");
  missing.job.argv = {"/no/such/program"};
  placement::Decision cpu;
  cpu.satisfied = cpu.cpu = true;
  EXPECT_THAT(run(ready(missing, machine, cpu, machine.read(), {}), machine, {}, system_clock()),
              FailsWith(ErrorCode::not_found, HasSubstr("/no/such/program")));
}

}  // namespace
}  // namespace gpuwarden::launch
