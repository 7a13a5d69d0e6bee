// SPDX-License-Identifier: Apache-2.0
// Work that repeats itself should come to rest: no more memory calls once the pool knows what is needed.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gpuwarden/memory/host_upstreams.hpp"
#include "gpuwarden/memory/pool.hpp"
#include "memory/model_upstream.hpp"

namespace gpuwarden::memory {
namespace {

using Sizes = std::vector<Bytes>;

/// Counts what a pool does to memory.
class Settling {
 public:
  explicit Settling(const char* strategy, std::optional<Bytes> limit = {}) : upstream(4_GiB) {
    upstream.fails = [this](const std::string& call) {
      memory_calls += call == "create" || call == "destroy" || call == "map" || call == "unmap" ? 1 : 0;
      return false;
    };
    pool = Pool::create(upstream, {.strategy = find_strategy(strategy), .limit = limit}).value();
  }
  ~Settling() {
    const auto checked = pool->check();
    EXPECT_TRUE(checked) << checked.error().message;
    EXPECT_THAT(upstream.misuses(), ::testing::IsEmpty());
  }
  Settling(const Settling&) = delete;
  Settling& operator=(const Settling&) = delete;

  /// Allocates all of it, then gives all back in a random order.
  void step(const Sizes& sizes, StreamId stream) {
    std::vector<DeviceAddress> blocks;
    for (const Bytes size : sizes) {
      const auto address = pool->allocate(size, stream);
      ASSERT_TRUE(address) << address.error().message;
      blocks.push_back(*address);
    }
    std::ranges::shuffle(blocks, random_);
    for (const DeviceAddress address : blocks) ASSERT_TRUE(pool->deallocate(address, stream));
  }

  ModelUpstream upstream;
  std::uint64_t memory_calls = 0;
  std::unique_ptr<Pool> pool;

 private:
  std::mt19937 random_{5};
};

std::vector<Sizes> steps_of(unsigned steps, unsigned blocks, Bytes unit, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::vector<Sizes> all(steps);
  for (Sizes& sizes : all) {
    for (unsigned i = 0; i < blocks; ++i) sizes.push_back(unit * (1 + random() % 8));
  }
  return all;
}

Bytes sum(const Sizes& sizes) {
  Bytes total;
  for (const Bytes size : sizes) total += size;
  return total;
}

Bytes largest(const std::vector<Sizes>& steps) { return sum(std::ranges::max(steps, {}, sum)); }

class EveryMovingStrategy : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, EveryMovingStrategy, ::testing::Values("balanced", "consolidated", "fragmentation_aware"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(EveryMovingStrategy, StreamsThatTakeTurnsComeToRest) {
  Settling settling(GetParam());
  // An odd number of steps, so that each stream sees them all.
  const auto steps = steps_of(15, 8, 2_MiB);
  const auto play = [&](unsigned rounds) {
    for (unsigned i = 0; i < rounds * steps.size(); ++i) settling.step(steps[i % steps.size()], StreamId{1 + i % 2});
  };
  play(60);
  const std::uint64_t calls = settling.memory_calls;
  play(60);
  // Early trims still give a page back now and then.
  const unsigned bearable = GetParam() == std::string("consolidated") ? 40 : 0;
  EXPECT_LE(settling.memory_calls, calls + bearable);
  // What each stream needs for itself, as without moving pages, and no more.
  EXPECT_LE(settling.pool->status().peak_reserved, largest(steps) * 2 + 48_MiB);
}

TEST(Settling, WherePagesAreMovedFirstTheyGoToAnotherStreamBeforeNewOnesAreMade) {
  for (const char* strategy : {"consolidated", "fragmentation_aware"}) {
    Settling settling(strategy);
    const auto steps = steps_of(1, 64, 2_MiB);
    settling.step(steps[0], StreamId{1});
    const Bytes before = settling.pool->status().reserved;
    settling.step(steps[0], StreamId{2});
    // But for what the first stream's quick lists keep.
    EXPECT_LE(settling.pool->status().reserved, before + 16_MiB) << strategy;
  }
}

TEST_P(EveryMovingStrategy, UnderALimitPagesGoOnMovingBetweenStreams) {
  const auto steps = steps_of(15, 8, 2_MiB);
  const Bytes limit = largest(steps) + 8_MiB;
  Settling settling(GetParam(), limit);
  for (unsigned i = 0; i < 30 * steps.size(); ++i) settling.step(steps[i % steps.size()], StreamId{1 + i % 2});
  EXPECT_LE(settling.pool->status().peak_reserved, limit);
}

TEST(Settling, StreamsWithRandomRequestsDoNotGrowForEver) {
  ArithmeticUpstream upstream(80_GiB);
  const auto pool = Pool::create(upstream, {}).value();
  std::mt19937 random(7);
  std::array<std::vector<DeviceAddress>, 4> live;
  const auto play = [&](int operations) {
    for (int i = 0; i < operations; ++i) {
      const unsigned stream = random() % 4;
      auto& own = live.at(stream);
      if (own.size() < 256) {
        const auto address = pool->allocate(Bytes(1 + random() % (1U << (9 + random() % 15))), StreamId{stream});
        ASSERT_TRUE(address) << address.error().message;
        own.push_back(*address);
      } else {
        std::swap(own[random() % own.size()], own.back());
        ASSERT_TRUE(pool->deallocate(own.back(), StreamId{stream}));
        own.pop_back();
      }
    }
  };
  play(400'000);
  const Bytes before = pool->status().reserved;
  play(400'000);
  EXPECT_LE(pool->status().reserved.value, before.value + before.value / 50);
}

/// A forward pass over so many tokens: what one layer makes goes with the next.
void forward(Pool& pool, std::uint64_t tokens) {
  const auto take = [&](std::uint64_t bytes) { return pool.allocate(Bytes(bytes), StreamId{1}).value(); };
  const auto drop = [&](DeviceAddress address) { ASSERT_TRUE(pool.deallocate(address, StreamId{1})); };
  DeviceAddress hidden = take(tokens * 4096);
  for (unsigned layer = 0; layer < 8; ++layer) {
    const auto queries = take(tokens * 12288);
    const auto attended = take(tokens * 4096);
    drop(queries);
    const auto gate = take(tokens * 11264);
    const auto up = take(tokens * 11264);
    drop(attended);
    const auto next = take(tokens * 4096);
    drop(gate);
    drop(up);
    drop(hidden);
    hidden = next;
  }
  drop(hidden);
}

TEST(Settling, ChangingShapesBesideWeightsThatStayComeToRest) {
  ArithmeticUpstream upstream(80_GiB);
  const auto pool = Pool::create(upstream, {}).value();
  for (unsigned i = 0; i < 64; ++i) ASSERT_TRUE(pool->allocate(20_MiB, StreamId{1}));
  std::mt19937 random(3);
  std::vector<DeviceAddress> cache;
  const auto play = [&](unsigned passes) {
    for (unsigned i = 0; i < passes; ++i) {
      forward(*pool, 16 + random() % (1U << (6 + random() % 9)));
      // Keys and values stay for a few passes.
      cache.push_back(pool->allocate(Bytes((1 + random() % 4096) * 2048), StreamId{1}).value());
      if (cache.size() < 24) continue;
      std::swap(cache[random() % cache.size()], cache.back());
      ASSERT_TRUE(pool->deallocate(cache.back(), StreamId{1}));
      cache.pop_back();
    }
  };
  play(400);
  const std::uint64_t moved = pool->status().pages_moved;
  play(800);
  const PoolStatus after = pool->status();
  EXPECT_LE(after.pages_moved - moved, 400U) << "2,000 where pages always move before more are made";
  EXPECT_LE(after.peak_reserved.value, after.peak_live.value / 100 * 104);
  EXPECT_TRUE(pool->check());
}

TEST(Consolidated, KeepsWhatEachStepNeedsAtItsPeak) {
  Settling settling("consolidated");
  const auto steps = steps_of(3, 3000, 256_KiB);
  const auto play = [&](unsigned rounds) {
    for (unsigned i = 0; i < rounds; ++i) settling.step(steps[i % steps.size()], StreamId{1});
  };
  play(6);
  const auto before = settling.pool->status();
  play(9);
  const auto after = settling.pool->status();
  EXPECT_LE(after.pages_created, before.pages_created + 8);
  EXPECT_LE(after.reserved, before.reserved + 16_MiB);
}

TEST(Consolidated, GivesBackWhatLaterStepsNoLongerNeed) {
  Settling settling("consolidated");
  settling.step(steps_of(1, 800, 1_MiB)[0], StreamId{1});
  const Bytes large = settling.pool->status().reserved;
  EXPECT_GE(large, 3_GiB);
  const auto steps = steps_of(3, 600, 64_KiB);
  for (unsigned i = 0; i < 200; ++i) settling.step(steps[i % steps.size()], StreamId{1});
  EXPECT_LT(settling.pool->status().reserved * 4, large);
}

TEST(Consolidated, GivesALittleBackAtATime) {
  Settling settling("consolidated");
  settling.step(steps_of(1, 800, 1_MiB)[0], StreamId{1});
  std::size_t most = 0;
  std::size_t all = 0;
  for (unsigned i = 0; i < 60'000; ++i) {
    // Too many for the quick lists, so that each free merges.
    const auto large = settling.pool->allocate(20_MiB, StreamId{1}).value();
    const std::size_t before = settling.upstream.pages();
    ASSERT_TRUE(settling.pool->deallocate(large, StreamId{1}));
    most = std::max(most, before - settling.upstream.pages());
    all += before - settling.upstream.pages();
  }
  EXPECT_GT(all, 1000U);
  EXPECT_LE(most, 64U);
}

}  // namespace
}  // namespace gpuwarden::memory
