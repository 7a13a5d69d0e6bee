// SPDX-License-Identifier: Apache-2.0
// What lasts lies apart from what lives briefly.
#include "memory/lifetimes.hpp"

#include <gmock/gmock.h>

#include <map>
#include <random>

#include "gpuwarden/memory/host_upstreams.hpp"
#include "gpuwarden/memory/pool.hpp"

namespace gpuwarden::memory {
namespace {

TEST(Lifetimes, FollowWhatIsObserved) {
  Lifetimes lifetimes;
  EXPECT_FALSE(lifetimes.is_brief(100));
  lifetimes.ended(100, 10);
  EXPECT_TRUE(lifetimes.is_brief(100));
  EXPECT_FALSE(lifetimes.is_brief(5000));
  for (int i = 0; i < 20; ++i) lifetimes.ended(100, 100'000);
  EXPECT_FALSE(lifetimes.is_brief(100));
  for (int i = 0; i < 40; ++i) lifetimes.ended(100, 3);
  EXPECT_TRUE(lifetimes.is_brief(100));
}

/// Steps of brief blocks of any size, between which some of `lasting` bytes stay for 20 to 120 steps, as a growing
/// key-value cache does. The most that the pool reserves.
Bytes peak_reserved(const Strategy& strategy, Bytes least, Bytes most, Bytes lasting, unsigned per_step) {
  ArithmeticUpstream upstream(64_GiB);
  const auto pool = Pool::create(upstream, {.strategy = &strategy}).value();
  constexpr StreamId kStream{1};
  std::mt19937 random(5);
  std::multimap<unsigned, DeviceAddress> staying;
  for (unsigned step = 0; step < 200; ++step) {
    std::vector<DeviceAddress> brief;
    for (unsigned i = 0; i < per_step; ++i) {
      brief.push_back(pool->allocate(Bytes(least.value + random() % (most - least).value), kStream).value());
      if (brief.size() > 12 && random() % 10 < 6) {
        std::swap(brief[random() % brief.size()], brief.back());
        EXPECT_TRUE(pool->deallocate(brief.back(), kStream));
        brief.pop_back();
      }
      if (random() % 10 == 0) staying.emplace(step + 20 + random() % 100, pool->allocate(lasting, kStream).value());
    }
    for (const DeviceAddress address : brief) EXPECT_TRUE(pool->deallocate(address, kStream));
    while (!staying.empty() && staying.begin()->first <= step) {
      EXPECT_TRUE(pool->deallocate(staying.begin()->second, kStream));
      staying.erase(staying.begin());
    }
  }
  EXPECT_TRUE(pool->check());
  return pool->status().peak_reserved;
}

TEST(Lifetimes, TwoEndsNeedLessWhereLifetimesMix) {
  const Strategy& two_ends = *find_strategy("fragmentation_aware");
  ASSERT_TRUE(two_ends.two_ends);
  Strategy one_end = two_ends;
  one_end.two_ends = false;
  const Bytes with = peak_reserved(two_ends, 1200_KiB, 30_MiB, 2560_KiB, 60);
  const Bytes without = peak_reserved(one_end, 1200_KiB, 30_MiB, 2560_KiB, 60);
  EXPECT_LT(ratio(with, without), 0.98) << with.value << " and " << without.value;
}

}  // namespace
}  // namespace gpuwarden::memory
