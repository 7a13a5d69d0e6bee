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
  Healed run(const std::string& script, const machine::ReservationRequest& request, std::uint32_t nodes = 1) {
    launch::RunRequest wanted{.argv = {"/bin/sh", "-c", script, "sh", dir_.path().string()},
                              .environment = {{"PATH", "/usr/bin:/bin"}},
                              .rank_per_gpu = true,
                              .nodes = nodes};
    if (nodes > 1) wanted.rendezvous_id = "remedies";
    auto plan = launch::plan_run(std::move(wanted));
    EXPECT_THAT(plan, IsOk());
    const Reserve reserve = [this](const machine::ReservationRequest& others) {
      asked_.push_back(others);
      return machine::reserve(*machine_, others, {"run-1", "sh"}, system_clock());
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

/// A worker of a data loader that the kernel killed for want of memory, unless there are two ranks or fewer. The others
/// wait, lest one ends the first before it has noted the try down.
constexpr const char* kNeedsMemory =
    "if [ $RANK != 0 ]; then [ $WORLD_SIZE -le 2 ] && exit 0; exec sleep 60; fi; "
    "echo $WORLD_SIZE >>$1/tried; [ $WORLD_SIZE -le 2 ] && exit 0; "
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

TEST_F(Remedies, OfSeveralNodesTheLoopbackIsNoMeetingPlace) {
  const Healed healed = run(kFindsNoInterface, {.gpus = {.count = 1}}, 2);
  EXPECT_NE(healed.report.end.exit_code, 0);
  ASSERT_FALSE(healed.failed.empty());
  EXPECT_EQ(healed.failed[0].changes, Environment{});
  EXPECT_EQ(tried().find("lo"), std::string::npos) << tried();
}

TEST(FillIn, WhatIsSetAlreadyOrCannotBeKnownIsLeftOut) {
  const Environment remedy{{"NCCL_SOCKET_IFNAME", std::string(kInterface)}, {"A", "1"}};
  EXPECT_EQ(fill_in(remedy, "127.0.0.1", 1, {{"NCCL_SOCKET_IFNAME", "docker0"}}),
            (Environment{{"A", "1"}, {"NCCL_SOCKET_IFNAME", "lo"}}))
      << "a wrong one is replaced";
  EXPECT_EQ(fill_in(remedy, "127.0.0.1", 1, {{"NCCL_SOCKET_IFNAME", "lo"}}), (Environment{{"A", "1"}}));
  EXPECT_EQ(fill_in(remedy, "no-such-host.invalid", 1, {}), (Environment{{"A", "1"}}));
  EXPECT_EQ(fill_in(remedy, "127.0.1.1", 2, {}), (Environment{{"A", "1"}})) << "the other node is not at the loopback";
}

TEST(Supply, OneMoreGpuIsAskedForAtOnceAndForAModelIsAsLargeAsTheOther) {
  std::vector<machine::ReservationRequest> asked;
  const Reserve reserve = [&](const machine::ReservationRequest& request) -> Result<machine::Reservation> {
    asked.push_back(request);
    return fail(ErrorCode::unsatisfied, "none");
  };
  const machine::ReservationRequest for_model{.gpus = {.model_size = 140_GiB}, .wait = 1h};
  const machine::ReservationRequest of_all{.gpus = {.all = true, .min_memory = 40_GiB}};
  for (const auto& first : {for_model, of_all}) {
    Options options;
    supply(first, {reserve, reserve}, options);
    ASSERT_TRUE(options.one_more);
    EXPECT_FALSE(options.one_more({Uuid("GPU-1")}, 80_GiB));
  }
  ASSERT_THAT(asked, SizeIs(2));
  EXPECT_FALSE(asked[0].gpus.model_size.has_value());
  EXPECT_EQ(asked[0].gpus.min_memory, 80_GiB);
  EXPECT_EQ(asked[1].gpus.min_memory, 40_GiB);
  for (const auto& one : asked) {
    EXPECT_EQ(one.gpus.count, 1U);
    EXPECT_FALSE(one.gpus.all);
    EXPECT_FALSE(one.wait.has_value());
    EXPECT_FALSE(one.looks_again) << "the ranks run, and nobody looks after them meanwhile";
    EXPECT_THAT(one.without, ElementsAre(Uuid("GPU-1")));
  }
  Options elastic;
  supply({.gpus = {.count = 4}, .least = 2}, {reserve, reserve}, elastic);
  EXPECT_FALSE(elastic.elastic->more(0, 2, {}));
  EXPECT_FALSE(asked.back().looks_again) << "at a checkpoint";
  EXPECT_FALSE(elastic.elastic->more(2, 4, {}));
  EXPECT_TRUE(asked.back().looks_again) << "between two tries";
  Options named;
  supply({.gpus = {.gpu_ids = {{"0"}}}}, {reserve, reserve}, named);
  EXPECT_FALSE(named.one_more) << "GPUs that were named are those, and no others";
}

class SlowGpus : public Remedies {
 protected:
  SlowGpus() {
    options_.run.load = machine::parse_load("memory=1GiB,util=90").value();
    options_.run.straggler_window = 1500ms;
    options_.replaces_stragglers = true;
    options_.run.warning = [this](const std::string& text) {
      warnings_.push_back(text);
      if (text.contains("far behind")) write("warned");
    };
    const auto slowed = machine_->simulator()->call({{"op", "fault"}, {"gpu", 0}, {"fault", "slow_clock"}});
    EXPECT_THAT(slowed, IsOk());
  }

  void write(const std::string& file) { EXPECT_THAT(write_file_atomically(dir_ / file, ""), IsOk()); }

  std::vector<std::string> warnings_;
};

/// The first try goes on for as long as nobody ends it; the second ends at once.
constexpr const char* kWorks =
    "[ $RANK = 0 ] && echo $CUDA_VISIBLE_DEVICES >>$1/tried; [ $GPUWARDEN_RESTART_COUNT = 1 ] && exit 0; "
    "exec sleep 60";

/// Goes on until the slow GPU was warned of, and ends well: whoever ends a job for its sake does so at that moment.
constexpr const char* kWorksUntilTheWarning =
    "until [ -e $1/warned ]; do sleep 0.1; done; [ $RANK = 0 ] && echo $GPUWARDEN_RESTART_COUNT >>$1/tried; exit 0";

machine::ReservationRequest three_with_the_slow_one() {
  return {.gpus = {.count = 3, .prefer = {{"0"}, {"1"}, {"2"}}}};
}

TEST_F(SlowGpus, TheJobIsStartedAgainWithoutAGpuFarBehind) {
  const Healed healed = run(kWorks, three_with_the_slow_one());
  EXPECT_EQ(healed.report.end.exit_code, 0) << tried();
  ASSERT_THAT(healed.failed, SizeIs(1));
  const Attempt& first = healed.failed[0];
  EXPECT_TRUE(first.counts) << "it is a restart like any other";
  EXPECT_THAT(first.decision, HasSubstr("GPU 0 is far behind"));
  ASSERT_TRUE(first.end.early.has_value());
  EXPECT_EQ(first.end.early->kind, launch::EarlyEnd::Kind::straggler);
  ASSERT_THAT(asked_, SizeIs(1)) << "one more beside the three, and no others in their place";
  EXPECT_EQ(asked_[0].gpus.count, 1U);
  EXPECT_FALSE(asked_[0].wait.has_value());
  const std::string both = tried();
  const auto lines = split(both, '\n');
  ASSERT_GE(lines.size(), 2U);
  ASSERT_THAT(first.judgement.gpus_at_fault, SizeIs(1));
  EXPECT_THAT(asked_[0].without, ::testing::Contains(first.judgement.gpus_at_fault[0]));
  EXPECT_TRUE(lines[0].contains(first.judgement.gpus_at_fault[0].value));
  EXPECT_FALSE(lines[1].contains(first.judgement.gpus_at_fault[0].value));
  EXPECT_THAT(split(lines[1], ','), SizeIs(3));
}

TEST_F(SlowGpus, WithoutThatItIsWarnedOfAndGoesOn) {
  options_.replaces_stragglers = false;
  const Healed healed = run(kWorksUntilTheWarning, three_with_the_slow_one());
  EXPECT_EQ(healed.report.end.exit_code, 0);
  EXPECT_THAT(healed.failed, SizeIs(0));
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("GPU 0 is far behind")));
}

TEST_F(SlowGpus, WhereThereIsNoOtherGpuTheJobGoesOn) {
  const Healed healed = run(kWorksUntilTheWarning, {.gpus = {.count = 8}});
  EXPECT_EQ(healed.report.end.exit_code, 0);
  EXPECT_THAT(healed.failed, SizeIs(0));
  EXPECT_THAT(healed.report.stragglers, SizeIs(1));
}

TEST_F(SlowGpus, WhereTheOthersAreNotToBeHadTheJobGoesOn) {
  // They look free, and are somebody else's.
  const auto others = machine::reserve(*machine_, {.gpus = {.count = 5, .exclude = {{"0"}, {"1"}, {"2"}}}},
                                       {"run-2", "sh"}, system_clock());
  ASSERT_THAT(others, IsOk());
  const Healed healed = run(kWorksUntilTheWarning, three_with_the_slow_one());
  EXPECT_EQ(healed.report.end.exit_code, 0);
  EXPECT_THAT(healed.failed, SizeIs(0));
  EXPECT_THAT(healed.report.stragglers, SizeIs(1));
  EXPECT_FALSE(asked_.empty()) << "another one was asked for";
}

TEST_F(SlowGpus, WhereTheRequestAllowsNoOtherTheJobGoesOn) {
  machine::ReservationRequest request = three_with_the_slow_one();
  request.gpus.exclude = {{"3"}, {"4"}, {"5"}, {"6"}, {"7"}};
  EXPECT_EQ(run(kWorksUntilTheWarning, request).report.end.exit_code, 0);
  EXPECT_EQ(tried(), "0\n");
}

TEST_F(SlowGpus, WhereNoTimeIsLeftForAnotherTryTheJobGoesOn) {
  // The pause before it is longer than what is left.
  options_.policy.first_pause = 5min;
  options_.run.time_limit.end = system_clock().now() + 4min;
  EXPECT_EQ(run(kWorksUntilTheWarning, three_with_the_slow_one()).report.end.exit_code, 0);
  EXPECT_EQ(tried(), "0\n");
  EXPECT_THAT(asked_, SizeIs(0)) << "nothing is taken from others for it";
}

TEST_F(SlowGpus, ASubstituteIsNoRemedyWithFewerGpus) {
  constexpr const char* kFailsForWantOfMemoryWhenItIsEnded =
      "[ $RANK = 0 ] && echo $WORLD_SIZE >>$1/tried; [ $GPUWARDEN_RESTART_COUNT = 1 ] && exit 0; "
      "trap 'echo \"RuntimeError: DataLoader worker (pid 7001) is killed by signal: Killed.\" >&2; exit 1' TERM; "
      "while :; do sleep 0.1; done";
  machine::ReservationRequest request = three_with_the_slow_one();
  request.least = 1;
  const Healed healed = run(kFailsForWantOfMemoryWhenItIsEnded, request);
  EXPECT_EQ(healed.report.end.exit_code, 0);
  EXPECT_EQ(tried(), "3\n3\n");
  ASSERT_THAT(healed.failed, SizeIs(1));
  EXPECT_TRUE(healed.failed[0].judgement.fewer_gpus) << "what was printed is known";
  EXPECT_FALSE(healed.failed[0].fewer_gpus.has_value()) << "and nothing shrank";
}

}  // namespace
}  // namespace gpuwarden::healing
