// SPDX-License-Identifier: Apache-2.0
// The re-implementations of other allocators' policies, held to the rules that their makers publish.
#include "memory/bfc_rules.hpp"
#include "memory/pytorch_rules.hpp"
#include "memory/rmm_arena_rules.hpp"
#include "memory/rmm_binning_rules.hpp"
#include "memory/rmm_rules.hpp"

namespace gpuwarden::bench {
namespace {

constexpr std::uint64_t kDevice = 8 * kGiB;

TEST(PyTorchRules, SmallRequestsShareSegmentsOfTwoMebibytesInGrainsOf512) {
  CountingDevice device(kDevice);
  PyTorchRules rules(device, false);
  const auto first = rules.allocate(1, 0);
  const auto second = rules.allocate(513, 0);
  const auto third = rules.allocate(512, 0);
  EXPECT_EQ(second - first, 512U);
  EXPECT_EQ(third - second, 1024U);
  EXPECT_EQ(device.reserved, 2 * kMiB);
  rules.allocate(kMiB, 0);
  EXPECT_EQ(device.reserved, 2 * kMiB);
  rules.allocate(kMiB, 0);
  EXPECT_EQ(device.reserved, 4 * kMiB) << "the first segment has less than 1 MiB left";
}

TEST(PyTorchRules, RequestsBelowTenMebibytesShareSegmentsOfTwenty) {
  CountingDevice device(kDevice);
  PyTorchRules rules(device, false);
  const auto first = rules.allocate(kMiB + 1, 0);
  const auto second = rules.allocate(9 * kMiB, 0);
  EXPECT_EQ(second - first, kMiB + 512);
  EXPECT_EQ(device.reserved, 20 * kMiB);
  rules.allocate(10 * kMiB + 1, 0);
  EXPECT_EQ(device.reserved, 32 * kMiB) << "10 MiB and more get a segment of their own, in whole 2 MiB";
}

TEST(PyTorchRules, ALargeBlockIsSplitOnlyIfMoreThanOneMebibyteIsLeft) {
  CountingDevice device(kDevice);
  PyTorchRules rules(device, false);
  rules.free(rules.allocate(20 * kMiB, 0), 20 * kMiB, 0);
  rules.allocate(19 * kMiB, 0);
  rules.allocate(2 * kMiB, 0);
  EXPECT_EQ(device.reserved, 40 * kMiB) << "19 of 20 MiB take all of it, so that another segment is needed";
}

TEST(PyTorchRules, NeighboursMergeWithinTheirSegment) {
  CountingDevice device(kDevice);
  PyTorchRules rules(device, false);
  const auto first = rules.allocate(4 * kMiB, 0);
  const auto second = rules.allocate(4 * kMiB, 0);
  rules.free(first, 4 * kMiB, 0);
  rules.free(second, 4 * kMiB, 0);
  EXPECT_EQ(rules.allocate(18 * kMiB, 0), first);
  EXPECT_EQ(device.reserved, 20 * kMiB);
}

TEST(PyTorchRules, AnotherStreamNeverGetsABlock) {
  CountingDevice device(kDevice);
  PyTorchRules rules(device, false);
  rules.free(rules.allocate(16 * kMiB, 1), 16 * kMiB, 1);
  rules.allocate(16 * kMiB, 2);
  EXPECT_EQ(device.reserved, 32 * kMiB);
}

TEST(PyTorchRules, ABlockUsedOnAnotherStreamWaitsForItsEvent) {
  CountingDevice device(kDevice);
  PyTorchRules rules(device, false);
  device.driver.submit(2, 50'000'000);
  const auto first = rules.allocate(16 * kMiB, 1);
  rules.free(first, 16 * kMiB, 2);
  const auto second = rules.allocate(16 * kMiB, 1);
  EXPECT_NE(second, first);
  device.driver.synchronize(device.driver.record(2));
  EXPECT_EQ(rules.allocate(16 * kMiB, 1), first);
}

TEST(PyTorchRules, FreeSegmentsGoBackBeforeMemoryIsOut) {
  CountingDevice device(64 * kMiB);
  PyTorchRules rules(device, false);
  rules.free(rules.allocate(40 * kMiB, 0), 40 * kMiB, 0);
  rules.allocate(50 * kMiB, 0);
  EXPECT_EQ(device.reserved, 50 * kMiB);
  EXPECT_EQ(device.driver.counts()[Call::mem_free], 1U);
  EXPECT_THROW(rules.allocate(20 * kMiB, 0), OutOfMemory);
}

TEST(PyTorchRules, AnExpandableSegmentGrowsByGranulesAndGivesFreeOnesBack) {
  CountingDevice device(64 * kMiB);
  PyTorchRules rules(device, true);
  const auto first = rules.allocate(30 * kMiB, 0);
  EXPECT_EQ(device.reserved, 40 * kMiB);
  const auto second = rules.allocate(10 * kMiB, 0);
  EXPECT_EQ(second, first + 30 * kMiB);
  EXPECT_EQ(device.reserved, 40 * kMiB) << "the rest of the last granule is used first";
  rules.allocate(512, 0);
  EXPECT_EQ(device.reserved, 42 * kMiB) << "small requests have granules of 2 MiB";
  rules.free(first, 30 * kMiB, 0);
  rules.allocate(35 * kMiB, 0);
  EXPECT_EQ(device.reserved, 62 * kMiB) << "the free granule before the live block moved behind it";
  EXPECT_THROW(rules.allocate(60 * kMiB, 0), OutOfMemory);
}

TEST(BfcRules, RegionsDoubleFromTwoMebibytes) {
  CountingDevice device(kDevice);
  BfcRules rules(device);
  rules.allocate(1, 0);
  EXPECT_EQ(device.reserved, 2 * kMiB);
  rules.allocate(2 * kMiB, 0);
  EXPECT_EQ(device.reserved, 6 * kMiB);
  rules.allocate(8 * kMiB, 0);
  EXPECT_EQ(device.reserved, 14 * kMiB);
}

TEST(BfcRules, AChunkIsSplitOnlyFromTwiceTheRequestOn) {
  CountingDevice device(kDevice);
  BfcRules rules(device);
  const auto whole = rules.allocate(2 * kMiB, 0);
  rules.free(whole, 2 * kMiB, 0);
  const auto most = rules.allocate(kMiB + 256, 0);
  EXPECT_EQ(most, whole);
  rules.allocate(256, 0);
  EXPECT_EQ(device.reserved, 6 * kMiB) << "less than twice the request takes all of the chunk";
  rules.free(most, kMiB + 256, 0);
  const auto half = rules.allocate(kMiB, 0);
  EXPECT_EQ(rules.allocate(kMiB, 0), half + kMiB);
}

TEST(BfcRules, NeighboursMergeAndFreeRegionsGoBackBeforeMemoryIsOut) {
  CountingDevice device(16 * kMiB);
  BfcRules rules(device);
  const auto first = rules.allocate(6 * kMiB, 0);
  EXPECT_EQ(device.reserved, 8 * kMiB);
  rules.free(first, 6 * kMiB, 0);
  rules.allocate(12 * kMiB, 0);
  EXPECT_LE(device.reserved, 16 * kMiB);
  EXPECT_EQ(device.driver.counts()[Call::mem_free], 1U);
  EXPECT_THROW(rules.allocate(8 * kMiB, 0), OutOfMemory);
}

TEST(RmmPoolRules, GrowthDoublesWhatIsHeldAndIsHalvedWhereItDoesNotFit) {
  CountingDevice device(100 * kMiB);
  RmmPoolRules rules(device);
  rules.allocate(10 * kMiB, 0);
  EXPECT_EQ(device.reserved, 10 * kMiB);
  rules.allocate(10 * kMiB, 0);
  rules.allocate(kMiB, 0);
  EXPECT_EQ(device.reserved, 40 * kMiB);
  rules.allocate(30 * kMiB, 0);
  EXPECT_EQ(device.reserved, 80 * kMiB);
  rules.allocate(20 * kMiB, 0);
  rules.allocate(18 * kMiB, 0);
  EXPECT_EQ(device.reserved, 100 * kMiB) << "80 and 40 do not fit, 20 do";
  EXPECT_THROW(rules.allocate(30 * kMiB, 0), OutOfMemory);
}

TEST(RmmPoolRules, TheSmallestBlockThatFitsIsTakenInGrainsOf256) {
  CountingDevice device(kDevice);
  RmmPoolRules rules(device);
  const auto large = rules.allocate(3 * kMiB, 0);
  const auto between = rules.allocate(1, 0);
  const auto small = rules.allocate(kMiB, 0);
  rules.allocate(1, 0);
  EXPECT_EQ(between % 256, 0U);
  rules.free(large, 3 * kMiB, 0);
  rules.free(small, kMiB, 0);
  EXPECT_EQ(rules.allocate(kMiB - 256, 0), small);
}

TEST(RmmPoolRules, NeighboursMergeButNotAcrossUpstreamBlocks) {
  CountingDevice device(kDevice);
  RmmPoolRules rules(device);
  const auto first = rules.allocate(4 * kMiB, 0);
  const auto second = rules.allocate(2 * kMiB, 0);
  const auto third = rules.allocate(2 * kMiB, 0);
  EXPECT_EQ(device.reserved, 8 * kMiB);
  EXPECT_EQ(third, second + 2 * kMiB);
  rules.free(third, 2 * kMiB, 0);
  rules.free(second, 2 * kMiB, 0);
  EXPECT_EQ(rules.allocate(4 * kMiB, 0), second);
  rules.free(first, 4 * kMiB, 0);
  rules.free(second, 4 * kMiB, 0);
  rules.allocate(8 * kMiB, 0);
  EXPECT_EQ(device.reserved, 16 * kMiB);
}

TEST(RmmPoolRules, EveryFreeRecordsAnEventAndAnotherStreamWaitsForIt) {
  CountingDevice device(kDevice);
  RmmPoolRules rules(device);
  const auto address = rules.allocate(4 * kMiB, 1);
  rules.free(address, 4 * kMiB, 1);
  EXPECT_EQ(device.driver.counts()[Call::event_record], 1U);
  EXPECT_EQ(rules.allocate(4 * kMiB, 2), address);
  EXPECT_EQ(device.driver.counts()[Call::stream_wait_event], 1U);
  EXPECT_EQ(device.reserved, 4 * kMiB);
}

TEST(RmmBinningRules, ARequestTakesABlockOfTheSmallestBinThatHoldsIt) {
  CountingDevice device(kDevice);
  RmmBinningRules rules(device);
  const auto first = rules.allocate(1, 0);
  EXPECT_EQ(device.reserved, 32 * kMiB) << "128 blocks of 256 KiB";
  EXPECT_EQ(rules.allocate(256 * 1024, 0), first + kMiB / 4);
  EXPECT_EQ(device.reserved, 32 * kMiB);
  const auto large = rules.allocate(256 * 1024 + 1, 0);
  EXPECT_EQ(device.reserved, 96 * kMiB) << "128 of 512 KiB";
  rules.free(large, 256 * 1024 + 1, 0);
  EXPECT_EQ(rules.allocate(512 * 1024, 0), large);
}

TEST(RmmBinningRules, WhatNoBinHoldsComesFromThePool) {
  CountingDevice device(kDevice);
  RmmBinningRules rules(device);
  const auto address = rules.allocate(5 * kMiB, 0);
  EXPECT_EQ(device.reserved, 5 * kMiB);
  rules.free(address, 5 * kMiB, 0);
  EXPECT_EQ(rules.allocate(4 * kMiB + 256, 0), address);
}

TEST(RmmBinningRules, AnotherStreamsBlocksAreTakenAfterItsLastEvent) {
  CountingDevice device(40 * kMiB);
  RmmBinningRules rules(device);
  rules.free(rules.allocate(1000, 1), 1000, 1);
  EXPECT_EQ(device.driver.counts()[Call::event_record], 1U);
  rules.allocate(1000, 2);
  EXPECT_EQ(device.driver.counts()[Call::stream_wait_event], 1U);
  EXPECT_EQ(device.reserved, 32 * kMiB);
  EXPECT_THROW(rules.allocate(4 * kMiB, 2), OutOfMemory) << "no room for 128 of them";
}

TEST(RmmArenaRules, TakesNearlyAllOfTheDeviceAtOnce) {
  CountingDevice device(kGiB);
  RmmArenaRules rules(device);
  EXPECT_EQ(device.reserved, kGiB - 64 * kMiB);
  const auto address = rules.allocate(kGiB - 64 * kMiB, 0);
  EXPECT_THROW(rules.allocate(1, 0), OutOfMemory);
  rules.free(address, kGiB - 64 * kMiB, 0);
  rules.allocate(1, 1);
  EXPECT_EQ(device.driver.counts()[Call::mem_alloc], 1U);
}

TEST(RmmArenaRules, TheLowestBlockThatFitsIsTaken) {
  CountingDevice device(kDevice);
  RmmArenaRules rules(device);
  const auto first = rules.allocate(kMiB / 2, 0);
  const auto second = rules.allocate(kMiB / 4, 0);
  EXPECT_EQ(second, first + kMiB / 2) << "of the same superblock";
  const auto third = rules.allocate(kMiB / 2, 0);
  EXPECT_EQ(third, first + kMiB);
  rules.free(first, kMiB / 2, 0);
  EXPECT_EQ(rules.allocate(1000, 0), first) << "not the quarter that fits better";
}

TEST(RmmArenaRules, AFreeSuperblockGoesBackForAllStreams) {
  CountingDevice device(kDevice);
  RmmArenaRules rules(device);
  const auto first = rules.allocate(kMiB / 2, 1);
  const auto second = rules.allocate(kMiB / 2, 1);
  rules.free(first, kMiB / 2, 1);
  EXPECT_NE(rules.allocate(kMiB / 2, 2), first) << "the other half is in use";
  rules.free(second, kMiB / 2, 1);
  EXPECT_EQ(rules.allocate(kMiB, 2), first);
}

TEST(RmmArenaRules, WhatAnotherStreamFreesGoesToTheArenaThatItCameFrom) {
  CountingDevice device(kDevice);
  RmmArenaRules rules(device);
  const auto first = rules.allocate(kMiB / 2, 1);
  rules.allocate(kMiB / 4, 1);
  rules.free(first, kMiB / 2, 2);
  EXPECT_EQ(device.driver.counts()[Call::event_record], 1U);
  EXPECT_NE(rules.allocate(kMiB / 2, 2), first);
  EXPECT_EQ(rules.allocate(kMiB / 2, 1), first);
}

}  // namespace
}  // namespace gpuwarden::bench
