// SPDX-License-Identifier: Apache-2.0
#include "launch/hang.hpp"

#include <gmock/gmock.h>

#include "gpuwarden/launch/run.hpp"
#include "launch/jobs.hpp"
#include "support/fake_clock.hpp"
#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::launch {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

facts::GpuRecord gpu_at(std::optional<std::int64_t> load, std::optional<std::int64_t> memory_load) {
  facts::GpuRecord record = fleet(1).gpus[0];
  record.sample.utilization_gpu.reset();
  record.sample.utilization_memory.reset();
  if (load) record.sample.utilization_gpu = Percent(*load);
  if (memory_load) record.sample.utilization_memory = Percent(*memory_load);
  return record;
}

TEST(Work, IsLoadThatMovesMemory) {
  EXPECT_TRUE(does_work(gpu_at(80, 30)));
  EXPECT_TRUE(does_work(gpu_at(80, std::nullopt)));
  EXPECT_FALSE(does_work(gpu_at(100, 0))) << "as NCCL's kernels wait";
  EXPECT_FALSE(does_work(gpu_at(0, 0)));
  EXPECT_FALSE(does_work(gpu_at(3, 1)));
  EXPECT_TRUE(does_work(gpu_at(std::nullopt, std::nullopt))) << "it is not known";
  facts::GpuRecord computing = gpu_at(100, 0);
  computing.sample.power_limit = 700_W;
  computing.sample.power = 180_W;
  EXPECT_FALSE(does_work(computing)) << "it spins";
  computing.sample.power = 500_W;
  EXPECT_TRUE(does_work(computing)) << "nobody draws that much to wait";
  facts::GpuRecord sending = gpu_at(100, 0);
  sending.sample.pcie_sent = BytesPerSecond(900'000'000);
  EXPECT_TRUE(does_work(sending)) << "a collective over a network moves it";
  sending.sample.pcie_sent = BytesPerSecond(2'000'000);
  EXPECT_FALSE(does_work(sending)) << "kernels that wait look at the host's memory";
  sending.sample.nvlink_received = BytesPerSecond(80'000'000'000);
  EXPECT_TRUE(does_work(sending));
  facts::GpuRecord still = gpu_at(100, std::nullopt);
  still.sample.pcie_received = BytesPerSecond(1'000'000);
  EXPECT_FALSE(does_work(still)) << "its links tell what its memory does not";
  facts::GpuRecord lost = gpu_at(std::nullopt, std::nullopt);
  lost.state = facts::GpuState::lost;
  EXPECT_FALSE(does_work(lost));
}

TEST(Stacks, ThatAreTheSameTwiceAreOfOneWhoWaits) {
  const std::string waits = "Thread 7 (idle): \"MainThread\"\n    wait (threading.py:320)\n    main (train.py:88)\n";
  std::string later = waits;
  later.replace(later.find("idle"), 4, "active");
  EXPECT_FALSE(has_moved(waits, later));
  later.replace(later.find(":88"), 3, ":91");
  EXPECT_TRUE(has_moved(waits, later));
  const std::string native = "Thread 1 (LWP 7)\n#0  clock_gettime ()\n#5  ncclWait ()\n#6  main ()\n";
  std::string spun = native;
  spun.replace(spun.find("clock_gettime"), 13, "sched_yield");
  EXPECT_FALSE(has_moved(native, spun)) << "it spins in one place";
  EXPECT_FALSE(has_moved("thread 7 (sh): state S, in do_wait\n", "thread 7 (sh): state R\n")) << "tells nothing";
}

class Hangs : public ::testing::Test {
 protected:
  facts::Snapshot busy(std::uint32_t index, std::int64_t load) const {
    facts::Snapshot snapshot = fleet(2);
    for (facts::GpuRecord& record : snapshot.gpus) {
      record.sample.utilization_gpu = Percent(record.gpu.index.value == index ? load : 0);
      record.sample.utilization_memory = Percent(20);
    }
    return snapshot;
  }
  FakeClock clock_;
  HangWatch watch_{60s, {fleet(2).gpus[0].gpu.uuid}, clock_};
};

TEST_F(Hangs, OutputAndWorkOfTheOwnGpuAreProgress) {
  clock_.advance(59s);
  EXPECT_EQ(watch_.stuck({}), "");
  watch_.output();
  clock_.advance(59s);
  watch_.reading(busy(0, 50));
  clock_.advance(59s);
  EXPECT_EQ(watch_.stuck({}), "");
  watch_.reading(busy(1, 50));  // another's
  watch_.reading(busy(0, 1));
  clock_.advance(1s);
  EXPECT_EQ(watch_.stuck({}), "it hangs: nothing was printed and its GPUs did no work for 1 min 0 s");
}

TEST_F(Hangs, ADriverThatDoesNotAnswerTellsNothing) {
  clock_.advance(59s);
  facts::Snapshot silent;
  silent.problem = facts::DriverProblem{};
  watch_.reading(silent);
  clock_.advance(59s);
  EXPECT_EQ(watch_.stuck({}), "");
}

TEST_F(Jobs, AJobThatIsGivenUpEndsWith124AndItsRanksWithIt) {
  JobSpec spec = shell("trap '' TERM; echo started; sleep 100", 2);
  spec.grace = 300ms;
  int asked = 0;
  const auto end = run_job(spec, system_clock(), {.give_up = [&](const std::vector<RankEnd>& running) -> std::string {
                             EXPECT_EQ(running.size(), 2U);
                             return ++asked < 2 ? "" : "it hangs";
                           }});
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->exit_code, 124);
  EXPECT_EQ(end->given_up, "it hangs");
  EXPECT_EQ(end->first_failure, std::nullopt);
  EXPECT_EQ(asked, 2);
}

TEST_F(Jobs, AHangIsSeenWithItsStacksAndABusyProcessIsNone) {
  machine::Options options;
  auto machine = machine::Machine::open(machine::Captured{fleet(1), "capture"}, options);
  ASSERT_THAT(machine, IsOk());
  ReadyRun run;
  run.job = shell("sleep 100");
  RunOptions watched;
  watched.hang_timeout = 1500ms;
  const auto hung = launch::run(run, *machine, watched, system_clock());
  ASSERT_THAT(hung, IsOk());
  EXPECT_EQ(hung->end.exit_code, 124);
  EXPECT_THAT(hung->end.given_up, HasSubstr("its processes did no work"));
  EXPECT_THAT(hung->end.ranks[0].stacks, Not(::testing::IsEmpty()));
  run.job = shell("i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; sleep 0.2");
  EXPECT_EQ(launch::run(run, *machine, watched, system_clock())->end.exit_code, 0);
  run.job = shell("for i in 1 2 3 4 5; do echo $i; sleep 0.6; done");
  EXPECT_EQ(launch::run(run, *machine, watched, system_clock())->end.exit_code, 0) << "it prints";
}

}  // namespace
}  // namespace gpuwarden::launch
