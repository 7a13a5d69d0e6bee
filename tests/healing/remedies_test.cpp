// SPDX-License-Identifier: Apache-2.0
// What --heal does about failures of programs that fail as real ones do, on a simulated fleet; and slow GPUs.
#include <gmock/gmock.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/healing/run.hpp"
#include "gpuwarden/healing/supply.hpp"
#include "gpuwarden/machine/fleets.hpp"
#include "gpuwarden/machine/reserve.hpp"
#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::healing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::SizeIs;

class Remedies : public ::testing::Test {
 protected:
  Remedies() {
    ::setenv("GPUWARDEN_SIM_DIR", (dir_ / "sim").c_str(), 1);
    machine::Options options;
    options.timeout = 60s;
    options.simulator = {GPUWARDEN_SIM_LIB_DIR, dir_ / "sim"};
    options.lease_directory = (dir_ / "leases").string();
    std::filesystem::create_directory(dir_ / "leases");
    auto machine = machine::Machine::open(machine::Simulated{"h100x8"}, options);
    EXPECT_THAT(machine, IsOk());
    machine_.emplace(std::move(*machine));
    options_.policy = {.max_restarts = 2, .heal = true, .first_pause = 1ms};
    options_.run.sample_period = 20ms;
  }

  /// A rank for each GPU; `script` finds a folder in $1.
  Healed run(const std::string& script, const machine::ReservationRequest& request) {
    auto plan = launch::plan_run({.argv = {"/bin/sh", "-c", script, "sh", dir_.path().string()},
                                  .environment = {{"PATH", "/usr/bin:/bin"}},
                                  .rank_per_gpu = true});
    EXPECT_THAT(plan, IsOk());
    const Reserve reserve = [this](const machine::ReservationRequest& wanted) {
      asked_.push_back(wanted);
      return machine::reserve(*machine_, wanted, {"run-1", "sh"}, system_clock());
    };
    supply(request, {reserve, reserve}, options_);
    auto gpus = machine::reserve(*machine_, request, {"run-1", "sh"}, system_clock());
    EXPECT_THAT(gpus, IsOk());
    auto healed = healing::run(*plan, *machine_, std::move(*gpus), options_, system_clock());
    EXPECT_THAT(healed, IsOk());
    return healed ? std::move(*healed) : Healed();
  }
  std::string tried() const { return read_file(dir_ / "tried").value_or(""); }

  testing::TempDir dir_;
  std::optional<machine::Machine> machine_;
  Options options_;
  std::vector<machine::ReservationRequest> asked_;
};

/// A worker of a data loader that the kernel killed for want of memory, unless there are two ranks or fewer.
constexpr const char* kNeedsMemory =
    "[ $RANK = 0 ] && echo $WORLD_SIZE >>$1/tried; [ $WORLD_SIZE -le 2 ] && exit 0; "
    "echo 'RuntimeError: DataLoader worker (pid 7001) is killed by signal: Killed.' >&2; exit 1";

TEST_F(Remedies, FewerGpusWhereTheMemoryIsNotEnoughForAllRanks) {
  const Healed healed = run(kNeedsMemory, {.gpus = {.count = 5}, .least = 1});
  EXPECT_EQ(healed.report.end.exit_code, 0);
  EXPECT_EQ(tried(), "5\n2\n");
  ASSERT_THAT(healed.failed, SizeIs(1));
  EXPECT_EQ(healed.failed[0].fewer_gpus, 2U);
  EXPECT_EQ(to_json(healed)["attempts"][0]["fewer_gpus"], 2);
}

TEST_F(Remedies, NeverFewerThanTheLeastNorWithoutARange) {
  EXPECT_NE(run(kNeedsMemory, {.gpus = {.count = 4}, .least = 3}).report.end.exit_code, 0);
  EXPECT_EQ(tried(), "4\n3\n3\n") << "two restarts were allowed";
  std::filesystem::remove(dir_ / "tried");
  options_.elastic.reset();
  EXPECT_NE(run(kNeedsMemory, {.gpus = {.count = 4}}).report.end.exit_code, 0);
  EXPECT_EQ(tried(), "4\n4\n4\n");
}

TEST_F(Remedies, WithoutHealTheNumberStays) {
  options_.policy.heal = false;
  EXPECT_NE(run(kNeedsMemory, {.gpus = {.count = 4}, .least = 1}).report.end.exit_code, 0);
  EXPECT_EQ(tried(), "4\n4\n4\n");
}

constexpr const char* kFindsNoInterface =
    "echo \"${NCCL_SOCKET_IFNAME:--} ${GLOO_SOCKET_IFNAME:--}\" >>$1/tried; [ \"$NCCL_SOCKET_IFNAME\" = lo ] && exit "
    "0; "
    "echo 'node1:71:71 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found' >&2; exit 1";

TEST_F(Remedies, TheInterfaceAtWhichTheRanksMeet) {
  const Healed healed = run(kFindsNoInterface, {.gpus = {.count = 1}});
  EXPECT_EQ(healed.report.end.exit_code, 0);
  EXPECT_EQ(tried(), "- -\nlo lo\n");
  ASSERT_THAT(healed.failed, SizeIs(1));
  EXPECT_EQ(healed.failed[0].changes, (Environment{{"GLOO_SOCKET_IFNAME", "lo"}, {"NCCL_SOCKET_IFNAME", "lo"}}));
}

TEST(FillIn, WhatIsSetAlreadyOrCannotBeKnownIsLeftOut) {
  const Environment remedy{{"NCCL_SOCKET_IFNAME", std::string(kInterface)}, {"A", "1"}};
  EXPECT_EQ(fill_in(remedy, "127.0.0.1", {{"NCCL_SOCKET_IFNAME", "docker0"}}),
            (Environment{{"A", "1"}, {"NCCL_SOCKET_IFNAME", "lo"}}))
      << "a wrong one is replaced";
  EXPECT_EQ(fill_in(remedy, "127.0.0.1", {{"NCCL_SOCKET_IFNAME", "lo"}}), (Environment{{"A", "1"}}));
  EXPECT_EQ(fill_in(remedy, "no-such-host.invalid", {}), (Environment{{"A", "1"}}));
}

class SlowGpus : public Remedies {
 protected:
  SlowGpus() {
    options_.run.load = machine::parse_load("memory=1GiB,util=90").value();
    options_.run.straggler_window = 1500ms;
    const auto slowed = machine_->simulator()->call({{"op", "fault"}, {"gpu", 0}, {"fault", "slow_clock"}});
    EXPECT_THAT(slowed, IsOk());
  }
};

/// The first try goes on for as long as nobody ends it; the second ends at once.
constexpr const char* kWorks =
    "[ $RANK = 0 ] && echo $CUDA_VISIBLE_DEVICES >>$1/tried; [ $GPUWARDEN_RESTART_COUNT = 1 ] && exit 0; "
    "exec sleep 60";

TEST_F(SlowGpus, TheJobIsStartedAgainWithoutAGpuFarBehind) {
  options_.replaces_stragglers = true;
  const Healed healed = run(kWorks, {.gpus = {.count = 3, .prefer = {{"0"}, {"1"}, {"2"}}}});
  EXPECT_EQ(healed.report.end.exit_code, 0) << tried();
  ASSERT_THAT(healed.failed, SizeIs(1));
  const Attempt& first = healed.failed[0];
  EXPECT_TRUE(first.counts) << "it is a restart like any other";
  EXPECT_THAT(first.decision, HasSubstr("GPU 0 is far behind"));
  ASSERT_TRUE(first.end.early.has_value());
  EXPECT_EQ(first.end.early->kind, launch::EarlyEnd::Kind::straggler);
  ASSERT_THAT(asked_, SizeIs(1));
  EXPECT_EQ(asked_[0].without, first.judgement.gpus_at_fault);
  const std::string both = tried();
  const auto lines = split(both, '\n');
  EXPECT_FALSE(lines.at(1).contains(first.judgement.gpus_at_fault.at(0).value));
}

TEST_F(SlowGpus, WithoutThatItIsWarnedOfAndGoesOn) {
  std::vector<std::string> warnings;
  options_.run.warning = [&](const std::string& text) { warnings.push_back(text); };
  const Healed healed = run("sleep 4", {.gpus = {.count = 3, .prefer = {{"0"}, {"1"}, {"2"}}}});
  EXPECT_EQ(healed.report.end.exit_code, 0);
  EXPECT_THAT(healed.failed, SizeIs(0));
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("GPU 0 is far behind")));
}

TEST_F(SlowGpus, WhereThereIsNoOtherGpuTheJobGoesOn) {
  options_.replaces_stragglers = true;
  const Healed healed = run("sleep 4", {.gpus = {.count = 8}});
  EXPECT_EQ(healed.report.end.exit_code, 0);
  EXPECT_THAT(healed.failed, SizeIs(0));
}

}  // namespace
}  // namespace gpuwarden::healing
