// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/healing/run.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/machine/reserve.hpp"
#include "healing/holding.hpp"
#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::healing {
namespace {

using namespace std::chrono_literals;
using knowledge::Restart;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::SizeIs;

TEST(Pauses, AreDoubledUpToTheLongestWithAFifthOfJitter) {
  const RestartPolicy policy{.first_pause = 1s, .longest_pause = 60s};
  EXPECT_EQ(pause_before(policy, 1, 0.5), 1s);
  EXPECT_EQ(pause_before(policy, 3, 0.5), 4s);
  EXPECT_EQ(pause_before(policy, 1, 0), 800ms);
  EXPECT_EQ(pause_before(policy, 2, 1), 2400ms);
  EXPECT_EQ(pause_before(policy, 4000000000U, 0.5), 60s);
}

/// Jobs of shell scripts on a simulated fleet of eight, whose pauses are noted down and not waited for.
class Healing : public ::testing::Test {
 protected:
  Healing() {
    ::setenv("GPUWARDEN_SIM_DIR", (dir_ / "sim").c_str(), 1);
    machine::Options options;
    options.timeout = 60s;
    options.simulator = {GPUWARDEN_SIM_LIB_DIR, dir_ / "sim"};
    options.lease_directory = (dir_ / "leases").string();
    std::filesystem::create_directory(dir_ / "leases");
    auto machine = machine::Machine::open(machine::Simulated{"h100x8"}, options);
    EXPECT_THAT(machine, IsOk());
    machine_.emplace(std::move(*machine));
    options_.pause = [this](std::chrono::milliseconds pause) {
      pauses_.push_back(pause);
      return true;
    };
    options_.run.sample_period = 20ms;
  }

  Result<machine::Reservation> reserve(const std::vector<Uuid>& without = {}) {
    machine::ReservationRequest request{.gpus = {.count = 1}};
    for (const Uuid& uuid : without) request.gpus.exclude.push_back({uuid.value});
    return machine::reserve(*machine_, request, {"run-1", "sh"}, system_clock());
  }

  /// Runs `script`, which finds the number of the try in $GPUWARDEN_RESTART_COUNT, and a folder in $1.
  Healed run(const std::string& script, std::uint32_t max_restarts, std::uint32_t ranks = 1) {
    options_.policy.max_restarts = max_restarts;
    auto plan = launch::plan_run({.argv = {"/bin/sh", "-c", script, "sh", dir_.path().string()},
                                  .environment = {{"PATH", "/usr/bin:/bin"}},
                                  .ranks = ranks,
                                  .log_directory = log_directory_});
    EXPECT_THAT(plan, IsOk());
    auto gpus = reserve();
    EXPECT_THAT(gpus, IsOk());
    auto healed = healing::run(*plan, *machine_, std::move(*gpus), options_, system_clock());
    EXPECT_THAT(healed, IsOk());
    return healed ? std::move(*healed) : Healed();
  }
  /// As soon as a reading has seen it beside the job.
  void lose_the_first_gpu_soon() {
    options_.run.hear = [this](const telemetry::Reading& reading) {
      if (std::exchange(lost_, true)) return;
      const auto index = reading.snapshot.gpus.at(0).gpu.index.value;
      EXPECT_THAT(machine_->simulator()->call({{"op", "fault"}, {"gpu", index}, {"fault", "lost"}}), IsOk());
    };
  }
  std::string tried() const { return read_file(dir_ / "tried").value_or(""); }

  testing::TempDir dir_;
  std::optional<machine::Machine> machine_;
  Options options_;
  std::optional<std::filesystem::path> log_directory_;
  std::vector<std::chrono::milliseconds> pauses_;
  bool lost_ = false;
};

constexpr const char* kThirdTryWorks = "echo $GPUWARDEN_RESTART_COUNT $2 >>$1/tried; [ $GPUWARDEN_RESTART_COUNT = 2 ]";

TEST_F(Healing, AFailureThatMayPassIsTriedAgainWithItsNumber) {
  options_.policy.restart_arguments = {"--resume"};
  std::vector<std::string> told;
  options_.failed = [&](const Attempt& attempt) { told.push_back(attempt.decision); };
  const Healed healed = run(kThirdTryWorks, 5);
  EXPECT_EQ(healed.report.end.exit_code, 0);
  EXPECT_EQ(tried(), "0\n1 --resume\n2 --resume\n");
  EXPECT_THAT(healed.failed, SizeIs(2));
  EXPECT_THAT(told, ElementsAre("it ended with exit code 1", "it ended with exit code 1"));
  ASSERT_THAT(pauses_, SizeIs(2));
  EXPECT_LT(pauses_[0], pauses_[1]);
  EXPECT_TRUE(to_json(healed)["post_mortem"].is_null()) << "it ended well";
  EXPECT_EQ(to_json(healed)["attempts"].size(), 2U);
  EXPECT_EQ(to_json(healed)["total"]["tries"], 3U);
  EXPECT_EQ(healed.total.tries, 3U);
  EXPECT_GE(healed.total.run_time, healed.report.end.wall_time);
  EXPECT_GE(healed.total.wall_time, healed.total.run_time);
}

TEST_F(Healing, TheLastFailureIsTheJobsEnd) {
  const Healed healed = run("exit 7", 1);
  EXPECT_EQ(healed.report.end.exit_code, 7);
  ASSERT_THAT(healed.failed, SizeIs(2));
  EXPECT_TRUE(healed.failed[0].restarts);
  EXPECT_FALSE(healed.failed[1].restarts);
  EXPECT_EQ(healed.failed[1].decision, "no restart is left of 1");
}

TEST_F(Healing, WhatNoRestartHealsIsNotRestarted) {
  const Healed healed = run("echo \"TypeError: x is None\" >&2; echo $GPUWARDEN_RESTART_COUNT >>$1/tried; exit 1", 5);
  EXPECT_EQ(tried(), "0\n");
  ASSERT_THAT(healed.failed, SizeIs(1));
  EXPECT_THAT(healed.failed[0].decision, HasSubstr("another try would end the same way: TypeError"));
}

TEST_F(Healing, WithoutRestartsItFailsAsItAlwaysDid) {
  const Healed healed = run("exit 3", 0);
  EXPECT_EQ(healed.report.end.exit_code, 3);
  ASSERT_THAT(healed.failed, SizeIs(1));
  EXPECT_EQ(healed.failed[0].decision, "");
  EXPECT_THAT(pauses_, SizeIs(0));
}

TEST_F(Healing, NobodyWaitsForAPauseThatIsEnded) {
  options_.pause = [](std::chrono::milliseconds) { return false; };
  EXPECT_EQ(run(kThirdTryWorks, 5).report.end.exit_code, 1);
  EXPECT_EQ(tried(), "0\n");
}

constexpr const char* kSaysFragmented =
    "echo \"$PYTORCH_CUDA_ALLOC_CONF\" >>$1/tried; [ -n \"$PYTORCH_CUDA_ALLOC_CONF\" ] && exit 0; echo 'CUDA out of "
    "memory. "
    "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.06 GiB is free. Of the allocated "
    "memory 60.00 GiB is allocated by PyTorch, and 17.20 GiB is reserved by PyTorch but unallocated.' >&2; exit 1";

TEST_F(Healing, ARemedyIsUsedWhereThatIsWanted) {
  options_.policy.heal = true;
  const Healed healed = run(kSaysFragmented, 3);
  EXPECT_EQ(healed.report.end.exit_code, 0);
  EXPECT_EQ(tried(), "\nexpandable_segments:True\n");
  ASSERT_THAT(healed.failed, SizeIs(1));
  EXPECT_EQ(healed.failed[0].changes, (Environment{{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}}));
}

TEST_F(Healing, WithoutThatTheJobIsStartedAsItWas) {
  const Healed healed = run(kSaysFragmented, 1);
  EXPECT_EQ(healed.report.end.exit_code, 1);
  EXPECT_EQ(tried(), "\n\n");
}

TEST_F(Healing, AGpuAtFaultIsLeftOut) {
  std::vector<std::vector<Uuid>> asked;
  options_.other_gpus = [&](const std::vector<Uuid>& without) {
    asked.push_back(without);
    return reserve();  // the lost one cannot be chosen anyway
  };
  const std::string lose =
      "echo $CUDA_VISIBLE_DEVICES >>$1/tried; [ $GPUWARDEN_RESTART_COUNT = 1 ] && exit 0; sleep 2; exit 9";
  lose_the_first_gpu_soon();
  const Healed healed = run(lose, 2);
  EXPECT_EQ(healed.report.end.exit_code, 0) << tried();
  ASSERT_THAT(asked, SizeIs(1));
  EXPECT_EQ(asked[0], healed.gpus_at_fault);
  ASSERT_THAT(healed.failed, SizeIs(1));
  EXPECT_EQ(healed.failed[0].judgement.restart, Restart::other_gpus);
  const std::string both = tried();
  const auto lines = split(both, '\n');
  ASSERT_GE(lines.size(), 2U);
  EXPECT_NE(lines[0], lines[1]);
}

TEST_F(Healing, WhereThereAreNoOthersTheFailureStands) {
  options_.other_gpus = [](const std::vector<Uuid>&) -> Result<machine::Reservation> {
    return fail(ErrorCode::unsatisfied, "only 0 of the 1 requested GPUs are available");
  };
  std::string told;
  options_.gave_up = [&](const Attempt& attempt) { told = attempt.decision; };
  lose_the_first_gpu_soon();
  const Healed healed = run("sleep 2; exit 9", 2);
  EXPECT_EQ(healed.report.end.exit_code, 9);
  EXPECT_EQ(told, "it could not be started again: only 0 of the 1 requested GPUs are available");
}

TEST_F(Healing, WithNamedGpusAJobFallsBackToTheCpuAsWell) {
  ASSERT_FALSE(options_.other_gpus) << "GPUs that were named are those, and no others";
  options_.cpu_fallback = true;
  lose_the_first_gpu_soon();
  options_.run.hear = [this, lose = options_.run.hear](const telemetry::Reading& reading) {
    lose(reading);
    const auto& gpus = reading.snapshot.gpus;
    if (std::ranges::all_of(gpus, [](const auto& record) { return facts::is_usable(record); })) return;
    EXPECT_THAT(write_file_atomically(dir_ / "seen", ""), IsOk());
  };
  const Healed healed =
      run("echo \"$GPUWARDEN_RESTART_COUNT [$CUDA_VISIBLE_DEVICES]\" >>$1/tried; [ $GPUWARDEN_RESTART_COUNT = 1 ] && "
          "exit 0; until [ -e $1/seen ]; do sleep 0.1; done; exit 9",
          2);
  EXPECT_EQ(healed.report.end.exit_code, 0) << tried();
  EXPECT_THAT(tried(), HasSubstr("\n1 []\n"));
  ASSERT_THAT(healed.failed, SizeIs(1));
  EXPECT_TRUE(healed.failed[0].restarts);
}

TEST_F(Healing, AnElasticJobBelowItsLeastHoldsNothingWhileItWaits) {
  const auto reserve_some = [this](std::uint32_t count) {
    return machine::reserve(*machine_, {.gpus = {.count = count}}, {"run-1", "sh"}, system_clock());
  };
  std::vector<std::pair<std::uint32_t, std::uint32_t>> asked;
  options_.elastic = Elastic{.least = 2, .most = 3};
  options_.elastic->more = [&](std::uint32_t least, std::uint32_t most,
                               const std::vector<Uuid>&) -> Result<machine::Reservation> {
    asked.emplace_back(least, most);
    if (least == 0) return fail(ErrorCode::unsatisfied, "none is available at once");
    // It takes all GPUs of the machine, so that nobody holds one.
    return reserve_some(8);
  };
  auto two = reserve_some(2);
  ASSERT_THAT(two, IsOk());
  const Uuid lost = two->devices().at(0);
  Holding holding(std::move(*two), options_, system_clock());
  const auto error = holding.replace({lost});
  EXPECT_FALSE(error.has_value()) << error->message;
  EXPECT_THAT(asked, ElementsAre(std::pair(0U, 2U), std::pair(2U, 3U)));
  EXPECT_EQ(holding.count(), 8U);
}

TEST_F(Healing, LogsOfARestartDoNotReplaceThoseOfTheFailure) {
  log_directory_ = dir_ / "logs";
  const Healed healed = run("echo try $GPUWARDEN_RESTART_COUNT; sleep 0.3; [ $GPUWARDEN_RESTART_COUNT = 1 ]", 1, 2);
  EXPECT_EQ(healed.report.end.exit_code, 0);
  EXPECT_THAT(read_file(dir_ / "logs/rank-1.out").value_or(""), HasSubstr("try 0"));
  EXPECT_EQ(read_file(dir_ / "logs/restart-1/rank-1.out").value_or(""), "try 1\n");
}

TEST_F(Healing, ThePostMortemIsReadBackWithoutSecrets) {
  const Healed healed =
      run("echo 'token hf_abcdefghijklmnopqrstuvwxyzABCDEFGH'; echo 'RuntimeError: x' >&2; exit 1", 0, 2);
  const nlohmann::json json = to_json(healed);
  EXPECT_EQ(json.dump().find("hf_abcdefgh"), std::string::npos);
  ASSERT_THAT(write_file_atomically(dir_ / "pm.json", json.dump()), IsOk());
  const auto why = read_post_mortem(dir_ / "pm.json");
  ASSERT_THAT(why, IsOk());
  ASSERT_TRUE(why->has_value());
  EXPECT_TRUE((*why)->ordinary.has_value());
  ASSERT_THAT(write_file_atomically(dir_ / "other.json", "{\"gpus\": []}"), IsOk());
  EXPECT_FALSE(read_post_mortem(dir_ / "other.json")->has_value());
  ASSERT_THAT(write_file_atomically(dir_ / "broken.json", "{\"post_mortem\": 7}"), IsOk());
  EXPECT_FALSE(read_post_mortem(dir_ / "broken.json").has_value());
}

}  // namespace
}  // namespace gpuwarden::healing
