// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/lease/verdicts.hpp"

#include <sys/stat.h>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/lease/health_notices.hpp"
#include "support/fake_clock.hpp"
#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::lease {
namespace {

using namespace gpuwarden::testing;
using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const facts::HealthCause kXid{"xid", "Xid 48: double bit ECC error", "reset it", true};
const facts::HealthCause kOtherXid{"xid", "Xid 119: GSP timeout", "reset it", true};
const facts::HealthCause kHeat{"thermal_throttle", "heat holds its clocks back", "check fans", false};

class Verdicts : public ::testing::Test {
 protected:
  HealthPlaces places(const std::string& epoch = "boot-1") const { return {dir_ / "health", dir_ / "health", epoch}; }
  facts::Health health(facts::HealthState state, std::vector<facts::HealthCause> causes = {}) const {
    facts::Health one;
    one.uuid = Uuid("GPU-a");
    one.state = state;
    one.since = clock_.wall_now();
    one.causes = std::move(causes);
    if (!one.causes.empty()) one.reason = one.causes.front().reason;
    return one;
  }
  void judge(const facts::Health& one) const {
    HealthPublisher publisher(places(), "gpuwarden serve", 1s);
    EXPECT_THAT(publisher.publish(std::vector{one}, clock_.wall_now(), clock_.now(),
                                  std::vector{ResetMark{one.uuid, 5000, std::nullopt, 2}}),
                IsOk());
  }
  HealthView view(const std::string& epoch = "boot-1") const {
    auto known = read_verdicts(places(epoch));
    EXPECT_THAT(known, IsOk());
    return known ? read_health(places(epoch), clock_.wall_now(), *known) : HealthView{};
  }
  Acceptance accepted(std::vector<facts::HealthCause> causes) const {
    return {Uuid("GPU-a"), "ticket 4711", "ann", clock_.wall_now(), std::move(causes), true};
  }

  TempDir dir_;
  FakeClock clock_;
};

TEST_F(Verdicts, WhatLastsUntilAResetOutlivesTheMonitorThatJudged) {
  judge(health(facts::HealthState::error, {kXid, kHeat}));
  const auto seen = view();
  ASSERT_THAT(seen.unfit, SizeIs(1));
  EXPECT_EQ(seen.unfit[0].reason, "judged unfit: " + kXid.reason);
  EXPECT_THAT(seen.unfit[0].by, HasSubstr("'s gpuwarden serve"));
  EXPECT_EQ(seen.unfit[0].since, clock_.wall_now()) << "since when";
  EXPECT_TRUE(seen.unfit[0].judged);
  const auto kept = read_verdicts(places());
  ASSERT_THAT(kept, IsOk());
  EXPECT_EQ(kept->verdicts.at(0).mark.energy_millijoules, 5000);
  EXPECT_EQ(kept->verdicts.at(0).mark.ecc_corrected, std::nullopt);
  EXPECT_EQ(kept->verdicts.at(0).mark.ecc_uncorrected, 2);
}

TEST_F(Verdicts, WhatMayPassEndsWithTheMonitorThatWatchesIt) {
  judge(health(facts::HealthState::error, {kHeat}));
  EXPECT_THAT(view().unfit, IsEmpty());
}

TEST_F(Verdicts, AfterARestartOfTheMachineOrTheDriverNothingOfItHolds) {
  judge(health(facts::HealthState::error, {kXid}));
  EXPECT_THAT(view("boot-2").unfit, IsEmpty());
  EXPECT_THAT(view().unfit, SizeIs(1));
}

TEST_F(Verdicts, ANewMonitorThatSeesTheGpuFitEndsIt) {
  judge(health(facts::HealthState::error, {kXid}));
  judge(health(facts::HealthState::disabled));
  EXPECT_THAT(view().unfit, SizeIs(1)) << "disabled is not fit";
  judge(health(facts::HealthState::busy));
  EXPECT_THAT(view().unfit, IsEmpty());
}

TEST_F(Verdicts, WhatIsAcceptedCountsNoMoreUntilSomethingElseIsWrong) {
  judge(health(facts::HealthState::error, {kXid}));
  clock_.advance(1s);
  ASSERT_THAT(accept(places(), std::vector{accepted({kXid})}), IsOk());
  EXPECT_THAT(view().unfit, IsEmpty());
  const auto known = read_verdicts(places());
  ASSERT_THAT(known, IsOk());
  ASSERT_THAT(known->accepted, SizeIs(1));
  EXPECT_EQ(known->accepted[0].by, "ann");
  EXPECT_EQ(known->accepted[0].reason, "ticket 4711");
  EXPECT_TRUE(accepts(known->accepted[0], kXid));
  EXPECT_FALSE(accepts(known->accepted[0], kOtherXid)) << "another Xid is news";
  clock_.advance(1s);
  judge(health(facts::HealthState::error, {kOtherXid}));
  EXPECT_THAT(view().unfit, SizeIs(1));
}

TEST_F(Verdicts, WhatIsAcceptedAgainAndAgainIsKeptOnce) {
  for (int i = 0; i < 3; ++i) ASSERT_THAT(accept(places(), std::vector{accepted({kXid, kHeat})}), IsOk());
  const auto known = read_verdicts(places());
  ASSERT_THAT(known, IsOk());
  ASSERT_THAT(known->accepted, SizeIs(1));
  EXPECT_THAT(known->accepted[0].causes, SizeIs(2));
}

TEST_F(Verdicts, ADriverThatIsLoadedAnewMeanwhileIsSeen) {
  std::string loading = "boot-1";
  HealthPlaces watched = places();
  watched.epoch_now = [&] { return loading; };
  ASSERT_THAT(accept(watched, std::vector{accepted({kXid})}), IsOk());
  loading = "boot-2";
  EXPECT_THAT(read_verdicts(watched)->accepted, IsEmpty());
  ASSERT_THAT(accept(watched, std::vector{accepted({kHeat})}), IsOk());
  EXPECT_THAT(read_verdicts(watched)->accepted, SizeIs(1));
}

TEST_F(Verdicts, AResetOfTheGpuEndsWhatWasAccepted) {
  facts::GpuRecord record;
  record.gpu.uuid = Uuid("GPU-a");
  record.sample.energy = Millijoules(5000);
  record.sample.ecc_uncorrected_volatile = Count(2);
  Acceptance word = accepted({kXid});
  word.mark = reset_mark_of(record);
  ASSERT_THAT(accept(places(), std::vector{word}), IsOk());
  const auto known = read_verdicts(places());
  ASSERT_THAT(known, IsOk());
  record.sample.energy = Millijoules(6000);
  EXPECT_NE(find_acceptance(known->accepted, record), nullptr);
  record.sample.ecc_uncorrected_volatile.reset();
  EXPECT_NE(find_acceptance(known->accepted, record), nullptr) << "what is not told says nothing";
  record.sample.energy = Millijoules(10);
  EXPECT_EQ(find_acceptance(known->accepted, record), nullptr) << "its counters began anew";
  record.sample.energy.reset();
  record.sample.ecc_uncorrected_volatile = Count(1);
  EXPECT_EQ(find_acceptance(known->accepted, record), nullptr);
}

TEST_F(Verdicts, WhatIsWrongWithADisabledGpuIsKeptUntilItIsEnabled) {
  facts::Health disabled = health(facts::HealthState::disabled, {kHeat, kXid});
  disabled.reason = "disabled by ann: fan is loud";
  judge(disabled);
  const auto seen = view();
  ASSERT_THAT(seen.unfit, SizeIs(1));
  EXPECT_EQ(seen.unfit[0].reason, "judged unfit: " + kXid.reason) << "not the word of who disabled it";
  EXPECT_EQ(seen.unfit[0].next_step, kXid.next_step);
}

TEST_F(Verdicts, AUsersOwnAreOfThisMachineAlone) {
  const HealthPlaces apart =
      health_places({.everybody = "/var/lib/gpuwarden", .own = "/home/ann/.local/state/gpuwarden"});
  EXPECT_EQ(apart.everybody, "/var/lib/gpuwarden/health");
  EXPECT_EQ(apart.own.parent_path(), "/home/ann/.local/state/gpuwarden/health");
  EXPECT_FALSE(apart.own.filename().empty());
  EXPECT_EQ(health_places({.everybody = "/a", .own = "/a"}).own, "/a/health");
  EXPECT_TRUE(health_places({.everybody = "/a", .own = {}}).own.empty());
}

TEST_F(Verdicts, AnAcceptanceIsToldWithWhoWhenAndWhy) {
  EXPECT_EQ(
      describe_acceptance(accepted({kXid, kXid, kHeat}), clock_.wall_now() + 3h),
      "enabled in spite of: Xid 48: double bit ECC error; heat holds its clocks back (by ann, 3 h ago: ticket 4711)");
  Acceptance silent = accepted({kXid});
  silent.reason.clear();
  EXPECT_THAT(describe_acceptance(silent, clock_.wall_now()), HasSubstr("(by ann, just now)"));
}

TEST_F(Verdicts, ADisabledGpuThatIsWellIsNotJudged) {
  judge(health(facts::HealthState::disabled, {kHeat}));
  EXPECT_THAT(view().unfit, IsEmpty());
}

TEST_F(Verdicts, WhatPassesIsAcceptedWhateverItsFigures) {
  const auto word = accepted({kHeat});
  facts::HealthCause hotter = kHeat;
  hotter.reason = "heat holds its clocks back a lot";
  EXPECT_TRUE(accepts(word, hotter));
}

TEST_F(Verdicts, AFileThatIsDamagedLeavesUnknownWhoIsFit) {
  judge(health(facts::HealthState::error, {kXid}));
  const auto file = dir_ / "health/verdicts.json";
  ASSERT_THAT(write_file_atomically(file, "{\"schema\":1", 0644), IsOk());
  EXPECT_THAT(read_verdicts(places()), FailsWith(ErrorCode::corrupt, HasSubstr("which GPUs are unfit is unknown")));
  ASSERT_EQ(::chmod(file.c_str(), 0666), 0);
  const auto shared = read_verdicts(places());
  ASSERT_THAT(shared, IsOk()) << "what others may write says nothing";
  EXPECT_THAT(shared->warnings, SizeIs(1));
}

TEST_F(Verdicts, TheEpochOfADriverChangesWithTheBoot) {
  TempDir sys;
  TempDir proc;
  std::filesystem::create_directories(proc / "sys/kernel/random");
  ASSERT_THAT(write_file_atomically(proc / "sys/kernel/random/boot_id", "one\n", 0644), IsOk());
  const std::string without = driver_epoch(sys / "", proc / "");
  std::filesystem::create_directories(sys / "module/nvidia");
  const std::string loaded = driver_epoch(sys / "", proc / "");
  EXPECT_NE(without, loaded);
  EXPECT_EQ(loaded, driver_epoch(sys / "", proc / ""));
  ASSERT_THAT(write_file_atomically(proc / "sys/kernel/random/boot_id", "two\n", 0644), IsOk());
  EXPECT_NE(loaded, driver_epoch(sys / "", proc / ""));
}

}  // namespace
}  // namespace gpuwarden::lease
