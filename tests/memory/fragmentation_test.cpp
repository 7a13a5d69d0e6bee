// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memory/fragmentation.hpp"

#include <gmock/gmock.h>

#include "gpuwarden/memory/host_upstreams.hpp"
#include "gpuwarden/memory/pool.hpp"
#include "memory/model_upstream.hpp"
#include "memory/two_streams.hpp"

namespace gpuwarden::memory {
namespace {

TEST(Fragmentation, CountsBlocksBySizeClass) {
  ModelUpstream upstream(1_GiB);
  const auto pool = Pool::create(upstream, {}).value();
  std::vector<DeviceAddress> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(pool->allocate(3_MiB, kStream).value());
  ASSERT_TRUE(pool->allocate(1000_B, kStream));
  for (const std::size_t i : {1U, 3U, 5U}) ASSERT_TRUE(pool->deallocate(blocks[i], kStream));
  static_cast<void>(pool->trim(1_GiB));
  const auto now = pool->fragmentation();
  Bytes live;
  Bytes free;
  std::uint64_t live_blocks = 0;
  for (const SizeClassUse& use : now.classes) {
    live += use.live;
    free += use.free;
    live_blocks += use.live_blocks;
    EXPECT_GE(use.live.value, use.live_blocks * use.from.value);
    EXPECT_LT(use.live.value, use.live_blocks * 2 * use.from.value + 1);
  }
  EXPECT_EQ(live, now.now.live);
  EXPECT_EQ(free + now.now.cached, now.now.free + now.now.cached);
  EXPECT_EQ(live_blocks, 6U);
  EXPECT_EQ(now.now.live, 15_MiB + 1_KiB);
  EXPECT_NEAR(now.now.internal(), 24.0 / (15 * 1048576), 1e-9);
  EXPECT_NEAR(now.now.overhead(), 1 - ratio(now.now.live, now.now.reserved), 1e-12);
  EXPECT_LE(now.movable, now.now.free);
}

TEST(Fragmentation, TellsTheShareOutsideTheLargestBlock) {
  const FragmentationSample sample{
      .time = {}, .reserved = 100_MiB, .live = 60_MiB, .requested = 45_MiB, .free = 40_MiB, .largest_free = 10_MiB};
  EXPECT_DOUBLE_EQ(sample.external(), 0.75);
  EXPECT_DOUBLE_EQ(sample.internal(), 0.25);
  EXPECT_DOUBLE_EQ(sample.overhead(), 0.4);
  EXPECT_DOUBLE_EQ(FragmentationSample{}.external(), 0);
  EXPECT_DOUBLE_EQ(FragmentationSample{}.internal(), 0);
  EXPECT_DOUBLE_EQ(FragmentationSample{}.overhead(), 0);
}

TEST(Fragmentation, IsSampledEverySoManyOperationsAndOnDemand) {
  ArithmeticUpstream upstream(8_GiB);
  const auto pool = Pool::create(upstream, {.sample_every = 100, .samples = 4}).value();
  for (unsigned i = 0; i < 1000; ++i) ASSERT_TRUE(pool->allocate(3_MiB, kStream));
  auto samples = pool->fragmentation_history();
  ASSERT_EQ(samples.size(), 4U);
  for (std::size_t i = 1; i < samples.size(); ++i) {
    EXPECT_GE(samples[i].allocations, samples[i - 1].allocations + 100);
    EXPECT_GT(samples[i].live, samples[i - 1].live);
    EXPECT_FALSE(samples[i].time);
  }
  const Clock::SteadyTime now(std::chrono::hours(5));
  EXPECT_EQ(pool->sample_fragmentation(now).allocations, 1000U);
  samples = pool->fragmentation_history();
  ASSERT_EQ(samples.size(), 4U);
  EXPECT_EQ(samples.back().time, now);
  EXPECT_EQ(samples.back().live, 3000_MiB);
}

}  // namespace
}  // namespace gpuwarden::memory
