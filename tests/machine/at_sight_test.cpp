// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/at_sight.hpp"

#include "gpuwarden/facts/health.hpp"
#include "support/fleet_builder.hpp"

namespace gpuwarden::machine {
namespace {

using gpuwarden::testing::fleet;
using ::testing::IsEmpty;
using ::testing::SizeIs;

facts::Snapshot with_memory_errors(std::int64_t errors) {
  facts::Snapshot snapshot = fleet(2);
  snapshot.gpus[1].sample.ecc_uncorrected_volatile = Count(errors);
  return snapshot;
}

TEST(AtSight, AnUnfitGpuIsOutOfUseByNobodysWord) {
  lease::Disablings::View view;
  add_unfit_at_sight(view, with_memory_errors(2));
  ASSERT_THAT(view.disabled, SizeIs(1));
  const facts::Disabling& one = view.disabled[0];
  EXPECT_EQ(one.uuid, fleet(2).gpus[1].gpu.uuid);
  EXPECT_TRUE(one.judged);
  EXPECT_EQ(facts::describe_disabling(one, {}), "unfit: 2 uncorrectable memory errors since the driver was loaded");
  EXPECT_FALSE(one.next_step.empty());
}

TEST(AtSight, APersonsWordComesFirst) {
  lease::Disablings::View view;
  view.disabled.push_back({fleet(2).gpus[1].gpu.uuid, "fan is loud", "root", true, {}});
  add_unfit_at_sight(view, with_memory_errors(2));
  ASSERT_THAT(view.disabled, SizeIs(1));
  EXPECT_EQ(view.disabled[0].reason, "fan is loud");
}

TEST(AtSight, WhatWasAcceptedCountsNoMoreUntilThereIsMore) {
  const auto unfit = unfit_in(with_memory_errors(2));
  ASSERT_THAT(unfit, SizeIs(1));
  EXPECT_EQ(unfit[0].index, GpuIndex{1});
  lease::Disablings::View view;
  view.accepted.push_back({unfit[0].uuid, "it must do", "ann", {}, unfit[0].causes});
  add_unfit_at_sight(view, with_memory_errors(2));
  EXPECT_THAT(view.disabled, IsEmpty());
  add_unfit_at_sight(view, with_memory_errors(3));
  EXPECT_THAT(view.disabled, SizeIs(1)) << "another error is news";
}

TEST(EnableRequest, AcceptsWhatTheSnapshotShows) {
  const facts::Snapshot snapshot = with_memory_errors(2);
  const Uuid gpu = snapshot.gpus[1].gpu.uuid;
  const EnableRequest request = enable_request(snapshot, {gpu}, "it must do", "ann");
  EXPECT_THAT(request.gpus, ::testing::ElementsAre(gpu));
  EXPECT_EQ(request.reason, "it must do");
  EXPECT_EQ(request.by, "ann");
  ASSERT_THAT(request.seen, SizeIs(1));
  EXPECT_EQ(request.seen[0].uuid, gpu);
  EXPECT_THAT(request.marks, SizeIs(2)) << "a reset of any ends what is accepted";
}

}  // namespace
}  // namespace gpuwarden::machine
