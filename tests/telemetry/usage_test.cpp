// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/usage.hpp"

#include <gmock/gmock.h>

#include "telemetry/readings.hpp"

namespace {

using namespace gpuwarden;
using namespace gpuwarden::testing;
using namespace gpuwarden::telemetry;
using namespace std::chrono_literals;
using ::testing::SizeIs;

facts::GpuProcess process(std::int32_t pid, const std::string& user, const std::string& command = "python train.py") {
  facts::GpuProcess result;
  result.pid = Pid{pid};
  result.compute = true;
  result.user = user;
  result.command = command;
  return result;
}

void put_on(Reading& reading, std::size_t gpu, const facts::GpuProcess& process) {
  reading.snapshot.gpus[gpu].processes->push_back(process);
}

/// Readings each second for which `fill` says who is there; the uses of all.
std::vector<Use> metered(int seconds, std::uint32_t gpus, const std::function<void(Reading&, int)>& fill,
                         std::chrono::milliseconds step = 1min) {
  UsageMeter meter(step);
  for (int i = 0; i <= seconds; ++i) {
    Reading reading = bare_reading(i * 1s, gpus);
    fill(reading, i);
    meter.add(reading);
  }
  return meter.take_all();
}

TEST(Usage, AProcessHoldsItsGpuFromReadingToReading) {
  const auto uses = metered(20, 1, [](Reading& reading, int second) {
    if (second >= 5 && second < 15) put_on(reading, 0, process(10, "ann"));
  });
  ASSERT_THAT(uses, SizeIs(1));
  EXPECT_DOUBLE_EQ(uses[0].gpu_seconds, 10);
  EXPECT_EQ(uses[0].from, kReadingsBegin + 5s);
  EXPECT_EQ(uses[0].to, kReadingsBegin + 15s);
  EXPECT_EQ(uses[0].user, "ann");
  EXPECT_EQ(uses[0].pid, Pid{10});
}

TEST(Usage, UsesAreCutAtStepsAndHandedOutOnce) {
  UsageMeter meter(1min);
  for (int i = 0; i <= 130; ++i) {
    Reading reading = bare_reading(i * 1s, 1);
    put_on(reading, 0, process(10, "ann"));
    meter.add(reading);
  }
  // The readings begin 20 s after a full minute.
  const auto finished = meter.take_finished();
  ASSERT_THAT(finished, SizeIs(2));
  EXPECT_DOUBLE_EQ(finished[0].gpu_seconds, 40);
  EXPECT_DOUBLE_EQ(finished[1].gpu_seconds, 60);
  EXPECT_THAT(meter.take_finished(), SizeIs(0));
  const auto rest = meter.take_all();
  ASSERT_THAT(rest, SizeIs(1));
  EXPECT_DOUBLE_EQ(rest[0].gpu_seconds, 30);
}

TEST(Usage, SeveralProcessesOfAUserOnAGpuHoldItOnce) {
  const auto uses = metered(60, 2, [](Reading& reading, int) {
    for (const std::int32_t pid : {1, 2, 3}) put_on(reading, 0, process(pid, "ann"));
    put_on(reading, 1, process(1, "ann"));
    put_on(reading, 1, process(4, "bob"));
  });
  const auto users = sum_up(uses, UseBy::user);
  ASSERT_THAT(users, SizeIs(2));
  EXPECT_EQ(users[0].user, "ann");
  EXPECT_DOUBLE_EQ(users[0].gpu_seconds, 120) << "two GPUs for a minute";
  EXPECT_EQ(users[0].gpu, Uuid()) << "more than one";
  EXPECT_DOUBLE_EQ(users[1].gpu_seconds, 60);
  EXPECT_EQ(users[1].gpu, reading_uuid(1));
  EXPECT_THAT(sum_up(uses, UseBy::process), SizeIs(4));
}

TEST(Usage, OneAfterTheOtherHoldsTheGpuForBothTimes) {
  const auto uses =
      metered(40, 1, [](Reading& reading, int second) { put_on(reading, 0, process(second < 20 ? 1 : 2, "ann")); });
  EXPECT_DOUBLE_EQ(sum_up(uses, UseBy::user)[0].gpu_seconds, 40);
}

TEST(Usage, APidThatIsUsedAgainIsAnotherProcess) {
  const auto uses = metered(30, 1, [](Reading& reading, int second) {
    put_on(reading, 0, second < 10 ? process(7, "ann", "python a.py") : process(7, "bob", "python b.py"));
  });
  const auto processes = sum_up(uses, UseBy::process);
  ASSERT_THAT(processes, SizeIs(2));
  EXPECT_EQ(processes[0].user, "bob");
  EXPECT_DOUBLE_EQ(processes[0].gpu_seconds, 20);
  EXPECT_DOUBLE_EQ(processes[1].gpu_seconds, 10);
}

TEST(Usage, AGapInTheReadingsIsNobodysTime) {
  UsageMeter meter;
  for (const int second : {0, 1, 2, 3, 600, 601, 602}) {
    Reading reading = bare_reading(second * 1s, 1);
    put_on(reading, 0, process(1, "ann"));
    meter.add(reading);
  }
  EXPECT_DOUBLE_EQ(sum_up(meter.take_all(), UseBy::user)[0].gpu_seconds, 5);
}

TEST(Usage, PartsOfMillisecondsDoNotCutAUse) {
  const auto uses = metered(30, 1, [](Reading& reading, int second) {
    const std::chrono::microseconds late(second % 2 == 0 ? 700 : 1100);
    reading.snapshot.taken_at += late;
    reading.when += late;
    put_on(reading, 0, process(1, "ann"));
  });
  ASSERT_THAT(uses, SizeIs(1));
  EXPECT_DOUBLE_EQ(uses[0].gpu_seconds, 30);
}

TEST(Usage, AReadingBesideTheRegularOnesMakesNoGap) {
  UsageMeter meter;
  for (const auto at : {0ms, 1000ms, 1100ms, 2000ms, 2100ms, 3000ms, 4000ms}) {
    Reading reading = bare_reading(at, 1);
    put_on(reading, 0, process(1, "ann"));
    meter.add(reading);
  }
  EXPECT_DOUBLE_EQ(sum_up(meter.take_all(), UseBy::user)[0].gpu_seconds, 4);
}

TEST(Usage, AClockThatIsSetChangesNoDuration) {
  UsageMeter meter;
  for (int i = 0; i <= 20; ++i) {
    Reading reading = bare_reading(i * 1s, 1);
    if (i > 10) reading.snapshot.taken_at -= 1h;
    put_on(reading, 0, process(1, "ann"));
    meter.add(reading);
  }
  EXPECT_DOUBLE_EQ(sum_up(meter.take_all(), UseBy::user)[0].gpu_seconds, 20);
}

TEST(Usage, TheJobIsTheLeaseOfItsOwnUserElseSlurms) {
  const auto uses = metered(10, 3, [](Reading& reading, int) {
    put_on(reading, 0, process(1, "ann"));
    put_on(reading, 1, process(2, "bob"));  // on ann's GPU, without being asked
    facts::GpuProcess batch = process(3, "cat");
    batch.slurm_job = "4711";
    put_on(reading, 2, batch);
    for (std::uint32_t gpu = 0; gpu < 2; ++gpu)
      reading.leases.push_back(
          {.uuid = reading_uuid(gpu),
           .shared = false,
           .holders = {{.pid = Pid{99}, .user = "ann", .run_id = "run-1", .command = "train", .since = {}}}});
  });
  const auto jobs = sum_up(uses, UseBy::job);
  std::map<std::string, double> by_job;
  for (const Use& job : jobs) by_job[job.job + "/" + job.user] = job.gpu_seconds;
  EXPECT_DOUBLE_EQ(by_job["run-1/ann"], 20) << "what is held without a process is held, too";
  EXPECT_DOUBLE_EQ(by_job["slurm:4711/cat"], 10);
  EXPECT_DOUBLE_EQ(by_job["/bob"], 10);
}

TEST(Usage, OwnUtilizationIsUsedAndTheGpusOnlyWhereTheProcessIsAlone) {
  const auto uses = metered(10, 3, [](Reading& reading, int) {
    for (auto& record : reading.snapshot.gpus) record.sample.utilization_gpu = Percent(80);
    facts::GpuProcess own = process(1, "own");
    own.sm = Percent(30);
    own.memory = 5_GiB;
    put_on(reading, 0, own);
    put_on(reading, 1, process(2, "alone"));
    put_on(reading, 2, process(3, "shared"));
    put_on(reading, 2, process(4, "shared too"));
  });
  std::map<std::string, Use> by_user;
  for (const Use& use : sum_up(uses, UseBy::user)) by_user[use.user] = use;
  EXPECT_DOUBLE_EQ(by_user["own"].mean_utilization.value_or(-1), 30);
  EXPECT_DOUBLE_EQ(by_user["own"].busy_seconds, 3);
  EXPECT_EQ(by_user["own"].peak_memory, 5_GiB);
  EXPECT_DOUBLE_EQ(by_user["alone"].mean_utilization.value_or(-1), 80);
  EXPECT_EQ(by_user["shared"].mean_utilization, std::nullopt);
}

TEST(Usage, TwoSharesOfOneGpuAddUpToHowBusyTheUserKeptIt) {
  const auto uses = metered(10, 1, [](Reading& reading, int) {
    for (const std::int32_t pid : {1, 2}) {
      facts::GpuProcess half = process(pid, "ann");
      half.sm = Percent(40);
      put_on(reading, 0, half);
    }
  });
  const Use ann = sum_up(uses, UseBy::user)[0];
  EXPECT_DOUBLE_EQ(ann.gpu_seconds, 10);
  EXPECT_DOUBLE_EQ(ann.busy_seconds, 8);
  EXPECT_DOUBLE_EQ(ann.mean_utilization.value_or(-1), 80);
}

TEST(Usage, MigInstancesCountByTheirGpu) {
  const auto uses = metered(10, 1, [](Reading& reading, int) {
    for (const std::uint32_t instance : {7U, 8U}) {
      facts::GpuProcess slice = process(static_cast<std::int32_t>(instance), "ann");
      slice.gpu_instance = instance;
      put_on(reading, 0, slice);
    }
  });
  EXPECT_DOUBLE_EQ(sum_up(uses, UseBy::user)[0].gpu_seconds, 10);
}

TEST(Usage, DisplayServersAndMonitorsHoldNothing) {
  const auto uses = metered(10, 1, [](Reading& reading, int) {
    facts::GpuProcess display = process(1, "root", "Xorg");
    display.compute = false;
    display.graphics = true;
    put_on(reading, 0, display);
    facts::GpuProcess monitor = process(2, "root", "nvtop");
    monitor.compute = false;
    monitor.listed = false;
    put_on(reading, 0, monitor);
  });
  EXPECT_THAT(uses, SizeIs(0));
}

}  // namespace
