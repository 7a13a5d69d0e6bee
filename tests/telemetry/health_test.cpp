// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/health.hpp"

#include <set>

#include "support/fleet_builder.hpp"

namespace gpuwarden::telemetry {
namespace {

using namespace gpuwarden::testing;
using namespace std::chrono_literals;
using facts::GpuEvent;
using facts::GpuEventKind;
using facts::GpuRecord;
using facts::GpuState;
using facts::HealthState;
using facts::ThrottleReason;
using ::testing::HasSubstr;

GpuEvent event(GpuEventKind kind, std::uint64_t data = 0) { return {kind, gpu(0).gpu.uuid, data, {}}; }

/// A record that has one symptom and no other, and the nearest that has none.
struct SymptomCase {
  std::string id;
  std::function<void(GpuRecord&)> ill;
  std::function<void(GpuRecord&)> near_miss;
  std::vector<GpuEvent> events = {};
  std::vector<GpuEvent> harmless = {};
};

std::function<void(GpuRecord&)> state(GpuState which) {
  return [which](GpuRecord& record) { record.state = which; };
}
std::function<void(GpuRecord&)> held_back(ThrottleReason reason) {
  return [reason](GpuRecord& record) { record.sample.throttle_reasons = {{reason}}; };
}
template <auto Field>
std::function<void(GpuRecord&)> counted(std::int64_t count) {
  return [count](GpuRecord& record) { record.sample.*Field = Count(count); };
}
template <auto Field, auto Limit>
std::function<void(GpuRecord&)> heated(std::int64_t temperature, std::int64_t limit) {
  return [=](GpuRecord& record) {
    record.sample.*Field = Celsius(temperature);
    record.gpu.*Limit = Celsius(limit);
  };
}
std::function<void(GpuRecord&)> linked(std::int64_t width, std::int64_t generation, unsigned load) {
  return [=](GpuRecord& record) {
    record.gpu.pcie_width_max = Count(16);
    record.gpu.pcie_generation_max = Count(5);
    record.sample.pcie_width = Count(width);
    record.sample.pcie_generation = Count(generation);
    record.sample.utilization_gpu = Percent(load);
  };
}
std::function<void(GpuRecord&)> nvlinked(bool first, bool second) {
  return [=](GpuRecord& record) {
    record.sample.nvlinks.resize(2);
    record.sample.nvlinks[0].active = first;
    record.sample.nvlinks[1].active = second;
  };
}
std::function<void(GpuRecord&)> in_fabric(const std::string& state, std::optional<std::string> status) {
  return [=](GpuRecord& record) { record.gpu.fabric = facts::Fabric{state, status, {}, {}}; };
}
const auto nothing = [](GpuRecord&) {};

std::vector<SymptomCase> cases() {
  using S = facts::GpuSample;
  using G = facts::Gpu;
  return {
      {"fell_off_the_bus", state(GpuState::lost), state(GpuState::suspended)},
      {"fell_off_the_bus", nothing, nothing, {event(GpuEventKind::xid, 79)}, {event(GpuEventKind::xid, 13)}},
      {"fell_off_the_bus", nothing, nothing, {event(GpuEventKind::lost)}, {event(GpuEventKind::clock)}},
      {"needs_reset", state(GpuState::needs_reset), state(GpuState::busy)},
      {"not_answering", state(GpuState::not_answering), state(GpuState::busy)},
      {"faulty", state(GpuState::faulty), state(GpuState::busy)},
      {"no_driver", state(GpuState::disabled), state(GpuState::suspended)},
      {"no_permission", state(GpuState::no_permission), state(GpuState::busy)},
      {"remap_failed", counted<&S::remapped_rows_failed>(1), counted<&S::remapped_rows_failed>(0)},
      {"pages_exhausted", counted<&S::retired_pages_double_bit>(60), counted<&S::retired_pages_double_bit>(59)},
      {"ecc_uncorrected", counted<&S::ecc_uncorrected_volatile>(1), counted<&S::ecc_uncorrected_aggregate>(1)},
      {"ecc_uncorrected",
       nothing,
       nothing,
       {event(GpuEventKind::ecc_double_bit)},
       {event(GpuEventKind::ecc_single_bit)}},
      {"xid", nothing, nothing, {event(GpuEventKind::xid, 48)}, {event(GpuEventKind::xid, 31)}},
      {"xid", nothing, nothing, {event(GpuEventKind::xid, 119)}, {event(GpuEventKind::xid, 94)}},
      {"remap_pending", counted<&S::remapped_rows_pending>(1), counted<&S::remapped_rows_corrected>(5)},
      {"retirement_pending", counted<&S::retired_pages_pending>(1), counted<&S::retired_pages_pending>(0)},
      {"over_shutdown", heated<&S::temperature, &G::temperature_shutdown>(95, 95),
       heated<&S::temperature, &G::temperature_shutdown>(94, 95)},
      {"over_slowdown", heated<&S::temperature, &G::temperature_slowdown>(91, 90),
       heated<&S::temperature, &G::temperature_slowdown>(89, 90)},
      {"over_slowdown", [](GpuRecord& record) { record.sample.temperature_margin = Celsius(0); },
       [](GpuRecord& record) { record.sample.temperature_margin = Celsius(1); }},
      {"memory_hot", heated<&S::temperature_memory, &G::temperature_memory_max>(105, 95),
       heated<&S::temperature_memory, &G::temperature_memory_max>(90, 95)},
      {"thermal_throttle", held_back(ThrottleReason::sw_thermal_slowdown), held_back(ThrottleReason::sw_power_cap)},
      {"thermal_throttle", held_back(ThrottleReason::hw_thermal_slowdown), held_back(ThrottleReason::gpu_idle)},
      {"power_brake", held_back(ThrottleReason::hw_power_brake), held_back(ThrottleReason::sync_boost)},
      {"nvlink_down", nvlinked(true, false), nvlinked(false, false)},
      {"fabric", in_fabric("in_progress", {}), in_fabric("completed", "success")},
      {"fabric", in_fabric("completed", "NVML code 999"), in_fabric("completed", {})},
      {"pcie_narrow", linked(8, 5, 90), linked(8, 5, 0)},
      {"pcie_slow", linked(16, 1, 90), linked(16, 1, 0)},
  };
}

std::vector<std::string> ids_of(const std::vector<Ailment>& ailments) {
  std::vector<std::string> ids;
  for (const Ailment& one : ailments) ids.emplace_back(one.symptom->id);
  return ids;
}

TEST(Symptoms, EachIsSeenAloneAndNotInItsNearestMiss) {
  for (const SymptomCase& one : cases()) {
    GpuRecord ill = gpu(0);
    one.ill(ill);
    const auto found = ailments_of(ill, one.events);
    EXPECT_EQ(ids_of(found), std::vector<std::string>{one.id});
    if (!found.empty()) {
      EXPECT_FALSE(found[0].reason.empty()) << one.id;
    }
    GpuRecord well = gpu(0);
    one.near_miss(well);
    EXPECT_EQ(ids_of(ailments_of(well, one.harmless)), std::vector<std::string>{}) << one.id;
  }
}

TEST(Symptoms, EveryRowHasACaseAnIdOfItsOwnAndAHelp) {
  std::set<std::string> tested{"missing"};
  for (const SymptomCase& one : cases()) tested.insert(one.id);
  std::set<std::string> seen;
  for (const Symptom& symptom : symptoms()) {
    EXPECT_TRUE(seen.insert(std::string(symptom.id)).second) << symptom.id;
    EXPECT_TRUE(tested.contains(std::string(symptom.id))) << symptom.id;
    EXPECT_FALSE(symptom.help.empty()) << symptom.id;
  }
}

TEST(Symptoms, TheWorstComesFirst) {
  GpuRecord record = gpu(0);
  record.sample.remapped_rows_pending = Count(1);
  record.sample.remapped_rows_failed = Count(1);
  EXPECT_EQ(ids_of(ailments_of(record, {})), (std::vector<std::string>{"remap_failed", "remap_pending"}));
}

/// Readings of a fleet of two, a second apart.
class HealthBookTest : public ::testing::Test {
 protected:
  std::vector<HealthChange> judge(std::vector<GpuEvent> events = {}, std::chrono::milliseconds later = 1s) {
    now_ += later;
    Reading reading;
    reading.snapshot = snapshot_;
    reading.snapshot.taken_at = std::chrono::system_clock::time_point(now_);
    reading.when = Clock::SteadyTime(now_);
    reading.events = std::move(events);
    reading.leases = leases_;
    return book_.judge(reading, disabled_, accepted_);
  }
  facts::Health health() const { return book_.all().at(0); }
  /// How long it takes until GPU 0 is in that state; nothing: longer than `most`.
  std::optional<std::chrono::seconds> time_until(HealthState state, std::chrono::seconds most = 3600s) {
    for (auto waited = 0s; waited <= most; waited += 1s) {
      if (health().state == state) return waited;
      judge();
    }
    return std::nullopt;
  }
  GpuRecord& first() { return snapshot_.gpus[0]; }

  facts::Snapshot snapshot_ = fleet(2);
  std::vector<facts::Lease> leases_;
  std::vector<facts::Disabling> disabled_;
  std::vector<lease::Acceptance> accepted_;
  std::chrono::milliseconds now_{1000s};
  HealthPolicy policy_;
  HealthBook book_{policy_, 7};
};

TEST_F(HealthBookTest, WhoIsFitIsToldOnlyWhenThatChanges) {
  EXPECT_TRUE(judge().empty());
  EXPECT_EQ(health().state, HealthState::available);
  EXPECT_EQ(book_.all().size(), 2U);
  first().state = GpuState::busy;
  const auto changes = judge();
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].before.state, HealthState::available);
  EXPECT_EQ(changes[0].now.state, HealthState::busy);
  EXPECT_TRUE(judge().empty());
}

TEST_F(HealthBookTest, MemoryOfSomebodyWhoIsNotSeenMakesAGpuBusy) {
  first().sample.memory_total = 80_GiB;
  first().sample.memory_used = 30_GiB;
  judge();
  EXPECT_EQ(health().state, HealthState::busy) << "who chooses GPUs refuses it";
}

TEST_F(HealthBookTest, ALeaseMakesAGpuBusy) {
  leases_ = {{first().gpu.uuid, false, {}}};
  judge();
  EXPECT_EQ(health().state, HealthState::busy);
}

TEST_F(HealthBookTest, ALostGpuIsInErrorAtOnceAndTheOthersAreNot) {
  judge();
  first().state = GpuState::lost;
  first().cause = "the GPU is lost";
  first().next_step = "reboot";
  const auto changes = judge();
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].now.state, HealthState::error);
  EXPECT_EQ(changes[0].now.reason, "the GPU is lost");
  EXPECT_EQ(changes[0].now.next_step, "reboot");
  EXPECT_TRUE(changes[0].now.next_try);
  EXPECT_EQ(book_.all().at(1).state, HealthState::available);
}

TEST_F(HealthBookTest, TroubleThatMayPassCountsOnlyAfterPatienceWithoutABreak) {
  first().sample.throttle_reasons = {{ThrottleReason::hw_thermal_slowdown}};
  for (int second = 0; second < 25; ++second) judge();
  first().sample.throttle_reasons.emplace();
  judge();
  first().sample.throttle_reasons = {{ThrottleReason::hw_thermal_slowdown}};
  judge();
  EXPECT_EQ(health().state, HealthState::available);
  EXPECT_EQ(time_until(HealthState::error), 30s) << "counted from the break";
}

TEST_F(HealthBookTest, ItIsFitAgainOnlyAfterAMinuteOfWellBeing) {
  first().state = GpuState::not_answering;
  judge();
  first().state = GpuState::available;
  judge();
  EXPECT_EQ(health().state, HealthState::error);
  const auto time = time_until(HealthState::available);
  ASSERT_TRUE(time);
  EXPECT_GE(*time, 59s);
  EXPECT_LE(*time, 75s);
}

TEST_F(HealthBookTest, RecoveryIsTriedEverMoreSeldom) {
  first().state = GpuState::not_answering;
  judge();
  std::vector<std::chrono::milliseconds> tries;
  unsigned failures = 0;
  auto last = now_;
  for (int second = 0; second < 4000; ++second) {
    judge();
    if (health().failures == failures) continue;
    failures = health().failures;
    tries.push_back(now_ - last);
    last = now_;
  }
  ASSERT_GE(tries.size(), 8U);
  const std::vector<std::chrono::milliseconds> planned{10s, 20s, 40s, 80s, 160s, 320s, 600s, 600s};
  for (std::size_t i = 0; i < planned.size(); ++i) {
    EXPECT_GE(tries[i], planned[i] * 4 / 5 - 1s) << i;
    EXPECT_LE(tries[i], planned[i] * 6 / 5 + 1s) << i;
  }
  EXPECT_NE(tries[6], tries[7]) << "the jitter";
}

TEST_F(HealthBookTest, AnXidThatMeansABrokenGpuLastsUntilTheGpuWasReset) {
  first().sample.energy = Millijoules(5000);
  judge();
  judge({event(GpuEventKind::xid, 48)});
  EXPECT_EQ(health().state, HealthState::error);
  EXPECT_THAT(health().reason, HasSubstr("Xid 48"));
  EXPECT_FALSE(time_until(HealthState::available, 7200s)) << "nothing has changed";
  first().sample.energy = Millijoules(10);
  judge();
  EXPECT_TRUE(time_until(HealthState::available, 1200s)) << "its counters begin anew: it was reset";
}

TEST_F(HealthBookTest, GoesOnWithWhatAnEarlierMonitorJudgedUntilAResetIsSeen) {
  first().sample.energy = Millijoules(6000);
  lease::Verdict verdict;
  verdict.health.uuid = first().gpu.uuid;
  verdict.health.state = HealthState::error;
  verdict.health.causes = {{"xid", "Xid 48: double bit ECC error", "reset it", true}};
  verdict.mark = {first().gpu.uuid, 5000, std::nullopt, std::nullopt};
  const std::vector verdicts{verdict};
  book_.recall(verdicts);
  EXPECT_TRUE(book_.all().empty()) << "it was not seen yet";
  ASSERT_EQ(judge().size(), 1U);
  EXPECT_EQ(health().reason, "Xid 48: double bit ECC error");
  EXPECT_FALSE(time_until(HealthState::available, 7200s));
  first().sample.energy = Millijoules(10);
  EXPECT_TRUE(time_until(HealthState::available, 1200s));
}

TEST_F(HealthBookTest, WhoWasResetWhileNobodyWatchedIsFit) {
  first().sample.energy = Millijoules(10);
  lease::Verdict verdict;
  verdict.health.uuid = first().gpu.uuid;
  verdict.health.causes = {{"xid", "Xid 48: double bit ECC error", "reset it", true}};
  verdict.mark = {first().gpu.uuid, 5000, std::nullopt, std::nullopt};
  book_.recall(std::vector{verdict});
  judge();
  EXPECT_EQ(health().state, HealthState::available);
}

TEST_F(HealthBookTest, AGpuThatAnEarlierMonitorLostIsFitAgainOnceItIsBack) {
  const facts::GpuRecord well = first();
  lease::Verdict verdict;
  verdict.health.uuid = well.gpu.uuid;
  verdict.health.causes = {{"fell_off_the_bus", "it fell off the bus", "restart the machine", true}};
  book_.recall(std::vector{verdict});
  // A lost GPU tells no UUID.
  first().state = facts::GpuState::lost;
  first().gpu.uuid = Uuid();
  judge();
  EXPECT_EQ(health().state, HealthState::error);
  first() = well;
  judge();
  ASSERT_EQ(book_.all().size(), snapshot_.gpus.size()) << "nobody is left under the name of its place";
  EXPECT_TRUE(time_until(HealthState::available, 1200s));
}

TEST_F(HealthBookTest, WhatWasAcceptedIsNotHeldAgainstAGpuUntilSomethingElseIsWrong) {
  using WallTime = std::chrono::system_clock::time_point;
  judge();
  GpuEvent xid = event(GpuEventKind::xid, 48);
  xid.time = WallTime(now_ + 1s);
  judge({xid});
  ASSERT_EQ(health().state, HealthState::error);
  lease::Acceptance word;
  word.uuid = first().gpu.uuid;
  word.since = WallTime(now_ + 500ms);
  word.causes = health().causes;
  accepted_ = {word};
  judge();
  EXPECT_EQ(health().state, HealthState::available) << "at once, since a person said so";
  judge({xid});
  EXPECT_EQ(health().state, HealthState::available) << "it happened before that";
  xid.data = 119;
  xid.time = WallTime(now_ + 1s);
  judge({xid});
  EXPECT_EQ(health().state, HealthState::error);
  EXPECT_THAT(health().reason, HasSubstr("Xid 119"));
}

TEST_F(HealthBookTest, AGpuThatDoesNotAnswerIsNotFitByAnybodysWord) {
  first().state = GpuState::not_answering;
  judge();
  lease::Acceptance word;
  word.uuid = first().gpu.uuid;
  word.since = std::chrono::system_clock::time_point(now_ + 500ms);
  word.causes = health().causes;
  accepted_ = {word};
  judge();
  EXPECT_EQ(health().state, HealthState::error);
}

TEST_F(HealthBookTest, AnEventOfAnotherGpuIsNone) {
  judge({{GpuEventKind::xid, snapshot_.gpus[1].gpu.uuid, 48, {}}});
  EXPECT_EQ(health().state, HealthState::available);
  EXPECT_EQ(book_.all().at(1).state, HealthState::error);
}

TEST_F(HealthBookTest, WhoRelapsesSoonGoesOnWhereItWas) {
  first().state = GpuState::not_answering;
  judge();
  first().state = GpuState::available;
  ASSERT_TRUE(time_until(HealthState::available));
  first().state = GpuState::not_answering;
  judge();
  EXPECT_EQ(health().failures, 1U);
}

TEST_F(HealthBookTest, AMissingGpuIsInErrorAndComesBack) {
  judge();
  const facts::Snapshot both = snapshot_;
  snapshot_.gpus.erase(snapshot_.gpus.begin());
  const auto changes = judge();
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].now.state, HealthState::error);
  EXPECT_THAT(changes[0].now.reason, HasSubstr("not listed any more"));
  snapshot_ = both;
  EXPECT_TRUE(time_until(HealthState::available, 1200s));
}

TEST_F(HealthBookTest, WithoutADriverTheGpusAreKnownByTheirPlaces) {
  judge();
  snapshot_.problem = facts::DriverProblem{facts::DriverProblem::Kind::timed_out,
                                           {ErrorCode::timed_out, "the driver does not answer", "reboot"}};
  for (GpuRecord& record : snapshot_.gpus) {
    record.gpu.uuid = Uuid("");
    record.state = GpuState::not_answering;
  }
  EXPECT_EQ(judge().size(), 2U);
  EXPECT_EQ(book_.all().size(), 2U);
  EXPECT_EQ(health().uuid, gpu(0).gpu.uuid);
  snapshot_.gpus.clear();
  judge();
  EXPECT_EQ(health().reason, "the driver does not answer");
}

TEST_F(HealthBookTest, AGpuThatWasFirstSeenWithoutItsUuidIsNotMissedWhenItHasOne) {
  const facts::Snapshot both = snapshot_;
  for (GpuRecord& record : snapshot_.gpus) {
    record.gpu.uuid = Uuid("");
    record.state = GpuState::disabled;
  }
  EXPECT_EQ(judge().size(), 2U);
  snapshot_ = both;
  EXPECT_TRUE(time_until(HealthState::available, 1200s));
  ASSERT_EQ(book_.all().size(), 2U);
  EXPECT_EQ(health().uuid, gpu(0).gpu.uuid);
  EXPECT_EQ(book_.all().at(1).state, HealthState::available);
}

TEST_F(HealthBookTest, WhoFallsAsleepDoesNotGetWellByIt) {
  const GpuRecord well = first();
  first().sample.remapped_rows_failed = Count(1);
  EXPECT_EQ(judge().size(), 1U);
  first().sample = {};
  first().state = GpuState::suspended;
  EXPECT_FALSE(time_until(HealthState::available, 1200s));
  first() = well;
  EXPECT_TRUE(time_until(HealthState::available, 1200s));
}

TEST_F(HealthBookTest, DisabledWinsOverEverything) {
  disabled_ = {{first().gpu.uuid, "fan is loud", "root", true, std::chrono::system_clock::time_point(500s)}};
  first().state = GpuState::lost;
  ASSERT_EQ(judge().size(), 1U);
  EXPECT_EQ(health().state, HealthState::disabled);
  EXPECT_EQ(health().reason, "disabled by root: fan is loud");
  EXPECT_EQ(health().next_step, "gpuwarden enable 0");
  EXPECT_EQ(health().since, std::chrono::system_clock::time_point(500s));
  disabled_.clear();
  ASSERT_EQ(judge().size(), 1U);
  EXPECT_EQ(health().state, HealthState::error);
}

TEST_F(HealthBookTest, OtherMakersGpusAreNotJudged) {
  first().gpu.vendor = "AMD";
  first().state = GpuState::disabled;
  judge();
  EXPECT_EQ(book_.all().size(), 1U);
}

}  // namespace
}  // namespace gpuwarden::telemetry
