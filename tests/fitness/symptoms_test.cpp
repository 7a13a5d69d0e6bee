// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/fitness/symptoms.hpp"

#include <set>

#include "support/fleet_builder.hpp"
#include "support/reword.hpp"

namespace gpuwarden::fitness {
namespace {

using gpuwarden::testing::fleet;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> ids_of(const std::vector<facts::HealthCause>& causes) {
  std::vector<std::string> ids;
  for (const facts::HealthCause& cause : causes) ids.push_back(cause.id);
  return ids;
}

/// What one look at a single GPU finds after a change.
std::vector<std::string> seen_after(const std::function<void(facts::GpuRecord&)>& change) {
  facts::Snapshot snapshot = fleet(1);
  snapshot.gpus[0].gpu.vendor = "NVIDIA";
  change(snapshot.gpus[0]);
  return ids_of(unfit_at_sight(snapshot.gpus[0], snapshot));
}

/// A kernel log with one Xid, at the place of GPU 0 of fleet().
facts::Snapshot with_xid(std::uint32_t code, const std::string& place) {
  facts::Snapshot snapshot = fleet(2);
  facts::KernelFault fault;
  fault.kind = "xid";
  fault.code = code;
  fault.pci_bus_id = place;
  snapshot.kernel_faults = std::vector{fault};
  return snapshot;
}

TEST(Symptoms, EachHasAnIdOfItsOwnAndSaysWhereItIsDocumented) {
  std::set<std::string_view> ids;
  for (const Symptom& one : symptoms()) {
    EXPECT_TRUE(ids.insert(one.id).second) << one.id;
    EXPECT_FALSE(one.help.empty()) << one.id;
    EXPECT_EQ(&symptom_named(one.id), &one);
  }
}

TEST(Symptoms, AreAskedOfKindsWhateverTheProbeSays) {
  using facts::GpuState;
  for (const GpuState state : {GpuState::available, GpuState::lost, GpuState::needs_reset, GpuState::not_answering,
                               GpuState::no_permission, GpuState::faulty}) {
    facts::Snapshot snapshot = fleet(1);
    facts::GpuRecord& record = snapshot.gpus[0];
    record.state = state;
    record.cause = "what the driver says";
    record.next_step = "what to do";
    const auto found = [&] {
      std::vector<std::string_view> ids;
      for (const Ailment& one : ailments_of(record, {})) ids.push_back(one.symptom->id);
      return ids;
    };
    const auto before = found();
    const auto at_sight = ids_of(unfit_at_sight(record, snapshot));
    for (const std::string_view words : testing::kOtherWords) {
      testing::reword(snapshot, words);
      EXPECT_EQ(found(), before) << words;
      EXPECT_EQ(ids_of(unfit_at_sight(record, snapshot)), at_sight) << words;
    }
  }
}

TEST(UnfitAtSight, BrokenMemoryIsSeenWithoutAMonitor) {
  EXPECT_THAT(seen_after([](auto&) {}), IsEmpty());
  EXPECT_THAT(seen_after([](auto& gpu) { gpu.sample.ecc_uncorrected_volatile = Count(2); }),
              ElementsAre("ecc_uncorrected"));
  EXPECT_THAT(seen_after([](auto& gpu) { gpu.sample.remapped_rows_pending = Count(1); }), ElementsAre("remap_pending"));
  EXPECT_THAT(seen_after([](auto& gpu) { gpu.sample.remapped_rows_failed = Count(1); }), ElementsAre("remap_failed"));
  EXPECT_THAT(seen_after([](auto& gpu) { gpu.sample.retired_pages_pending = Count(1); }),
              ElementsAre("retirement_pending"));
  EXPECT_THAT(seen_after([](auto& gpu) {
                gpu.sample.ecc_uncorrected_volatile = Count(0);
                gpu.sample.ecc_uncorrected_aggregate = Count(9);  // of former times
              }),
              IsEmpty());
}

TEST(UnfitAtSight, WhatHasToLastAWhileIsNotJudgedByOneLook) {
  const auto hot = [](facts::GpuRecord& gpu) {
    gpu.sample.temperature = Celsius(90);
    gpu.gpu.temperature_slowdown = Celsius(87);
    gpu.sample.throttle_reasons = {{facts::ThrottleReason::hw_thermal_slowdown}};
  };
  EXPECT_THAT(seen_after(hot), IsEmpty());
}

TEST(UnfitAtSight, WhoDoesNotAnswerOrIsOfAnotherMakerIsNotJudged) {
  EXPECT_THAT(seen_after([](auto& gpu) {
                gpu.sample.ecc_uncorrected_volatile = Count(2);
                gpu.state = facts::GpuState::lost;
              }),
              IsEmpty())
      << "its state says enough";
  EXPECT_THAT(seen_after([](auto& gpu) {
                gpu.sample.ecc_uncorrected_volatile = Count(2);
                gpu.gpu.vendor = "AMD";
              }),
              IsEmpty());
}

TEST(UnfitAtSight, AnXidOfTheKernelLogCountsForTheGpuAtItsPlace) {
  const facts::Snapshot snapshot = with_xid(79, "0000:10:00");
  const auto causes = unfit_at_sight(snapshot.gpus[0], snapshot);
  ASSERT_THAT(ids_of(causes), ElementsAre("fell_off_the_bus"));
  EXPECT_THAT(causes[0].reason, HasSubstr("Xid 79"));
  EXPECT_TRUE(causes[0].until_reset);
  EXPECT_THAT(unfit_at_sight(snapshot.gpus[1], snapshot), IsEmpty());
}

TEST(UnfitAtSight, AnXidThatIsAnApplicationsCountsForNoGpu) {
  const facts::Snapshot snapshot = with_xid(31, "0000:10:00");
  EXPECT_THAT(unfit_at_sight(snapshot.gpus[0], snapshot), IsEmpty());
}

TEST(UnfitAtSight, CountersThatBeganAnewWithAResetKnowBetterThanALog) {
  facts::Snapshot snapshot = with_xid(48, "0000:10:00");
  EXPECT_THAT(ids_of(unfit_at_sight(snapshot.gpus[0], snapshot)), ElementsAre("xid")) << "no counter is known";
  snapshot.gpus[0].sample.ecc_uncorrected_volatile = Count(0);
  EXPECT_THAT(unfit_at_sight(snapshot.gpus[0], snapshot), IsEmpty());
}

}  // namespace
}  // namespace gpuwarden::fitness
