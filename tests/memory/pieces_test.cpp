// SPDX-License-Identifier: Apache-2.0
// Physical memory in pieces of several pages: made where the strategy says so, moved and given back whole, broken where
// they are in the way; and what that saves where shapes change.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "gpuwarden/memory/host_upstreams.hpp"
#include "gpuwarden/memory/pool.hpp"
#include "memory/model_upstream.hpp"

namespace gpuwarden::memory {
namespace {

using namespace std::chrono_literals;

/// A pool of a strategy on a device that notices misuse.
class Pieces {
 public:
  explicit Pieces(Bytes capacity, const char* strategy = "steady") : upstream(capacity) {
    pool = Pool::create(upstream, {.strategy = find_strategy(strategy)}).value();
  }
  ~Pieces() {
    const auto checked = pool->check();
    EXPECT_TRUE(checked) << checked.error().message;
    EXPECT_THAT(upstream.misuses(), ::testing::IsEmpty());
    pool.reset();
    EXPECT_EQ(upstream.pages(), 0U);
    EXPECT_THAT(upstream.misuses(), ::testing::IsEmpty());
  }
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  DeviceAddress take(Bytes size) {
    const auto address = pool->allocate(size, StreamId{});
    EXPECT_TRUE(address) << address.error().message;
    return address.value_or(DeviceAddress{});
  }
  void give(DeviceAddress address) { EXPECT_TRUE(pool->deallocate(address, StreamId{})); }

  ModelUpstream upstream;
  std::unique_ptr<Pool> pool;
};

/// Requests to a transformer, each with so many tokens: what a layer needs comes and goes, weights stay.
class Requests {
 public:
  Requests(Pool& pool, unsigned seed) : pool_(pool), random_(seed) {
    for (unsigned i = 0; i < 48; ++i) take(64_MiB);
  }

  void serve() {
    const double unit = static_cast<double>(random_()) / 4294967296.0;
    const Bytes row(static_cast<std::uint64_t>(64.0 * std::pow(96.0, unit)) * 4096);
    DeviceAddress hidden = take(row);
    for (unsigned layer = 0; layer < 16; ++layer) {
      const DeviceAddress queries = take(row * 3);
      const DeviceAddress attended = take(row);
      give(queries);
      const DeviceAddress inner = take(row * 4);
      give(attended);
      const DeviceAddress next = take(row);
      give(inner);
      give(hidden);
      hidden = next;
    }
    give(hidden);
  }

  std::uint64_t operations = 0;

 private:
  DeviceAddress take(Bytes size) {
    ++operations;
    const auto address = pool_.allocate(size, StreamId{});
    EXPECT_TRUE(address) << address.error().message;
    return address.value_or(DeviceAddress{});
  }
  void give(DeviceAddress address) {
    ++operations;
    EXPECT_TRUE(pool_.deallocate(address, StreamId{}));
  }

  Pool& pool_;
  std::mt19937 random_;
};

TEST(Pieces, ALargeBlockGetsItsMemoryInOnePiece) {
  Pieces pieces(1_GiB);
  pieces.take(48_MiB);
  EXPECT_EQ(pieces.upstream.created(), 1U);
  EXPECT_EQ(pieces.upstream.largest_piece(), 24U);
  EXPECT_EQ(pieces.pool->status().reserved, 48_MiB);
}

TEST(Pieces, WhatIsLargerThanAPieceGetsSeveralOfAboutTheSameSize) {
  Pieces pieces(1_GiB);
  pieces.take(66_MiB);
  EXPECT_EQ(pieces.upstream.created(), 2U);
  EXPECT_EQ(pieces.upstream.largest_piece(), 17U);
}

TEST(Pieces, OtherStrategiesMakePages) {
  for (const Strategy& strategy : strategies()) {
    if (strategy.in_pieces) continue;
    Pieces pieces(1_GiB, std::string(strategy.name).c_str());
    pieces.take(48_MiB);
    EXPECT_EQ(pieces.upstream.largest_piece(), 1U) << strategy.name;
  }
}

/// Three blocks of 40 MiB, each behind the other with a page between them; the first two are given back.
void leave_two_gaps(Pieces& pieces) {
  const DeviceAddress first = pieces.take(40_MiB);
  pieces.take(2_MiB);
  const DeviceAddress second = pieces.take(40_MiB);
  pieces.take(2_MiB);
  pieces.take(40_MiB);
  pieces.give(first);
  pieces.give(second);
}

TEST(Pieces, IdleOnesMoveWhole) {
  Pieces pieces(128_MiB);
  leave_two_gaps(pieces);
  const std::uint64_t created = pieces.upstream.created();
  pieces.take(80_MiB);
  EXPECT_EQ(pieces.upstream.created(), created);
  EXPECT_EQ(pieces.pool->status().reserved, 124_MiB);
}

TEST(Pieces, AreBrokenWhereTheyAreTooLargeForAPlace) {
  Pieces pieces(128_MiB);
  leave_two_gaps(pieces);
  const std::uint64_t created = pieces.upstream.created();
  // A whole piece and three quarters of another, for which a smaller one is made.
  pieces.take(70_MiB);
  EXPECT_EQ(pieces.upstream.created(), created + 1);
  EXPECT_EQ(pieces.pool->status().reserved, 114_MiB);
}

TEST(Pieces, AWholePieceIsGivenUpForALowerLimitAndNoneThatIsToBeKept) {
  Pieces pieces(1_GiB);
  pieces.take(2_MiB);
  pieces.give(pieces.take(60_MiB));
  ASSERT_EQ(pieces.pool->status().reserved, 62_MiB);
  // 40 MiB are to stay: the piece would take them along.
  EXPECT_EQ(pieces.pool->trim(40_MiB).value(), 0_B);
  EXPECT_EQ(pieces.pool->status().reserved, 62_MiB);
  ASSERT_TRUE(pieces.pool->set_limit({.limit = 40_MiB}));
  EXPECT_EQ(pieces.pool->status().reserved, 2_MiB);
}

TEST(Pieces, AnIdleOneLargerThanASliceGoesBackInTheEnd) {
  Pieces pieces(8_GiB);
  pieces.take(2_MiB);
  const DeviceAddress first = pieces.take(6_GiB);
  const DeviceAddress second = pieces.take(60_MiB);
  // With what is made ahead, a 256th of the pool.
  ASSERT_EQ(pieces.upstream.largest_piece(), 42U);
  pieces.give(first);
  pieces.give(second);
  for (int second_of = 0; second_of < 6; ++second_of)
    static_cast<void>(pieces.pool->trim_idle(Clock::SteadyTime(std::chrono::seconds(10 * second_of)), 1s));
  // One may stay that would take along what is kept beside the live page.
  EXPECT_LE(pieces.pool->status().reserved, 2_MiB + 84_MiB);
}

TEST(Pieces, KeepTheirContentsInAMemoryFile) {
  const auto upstream = MemfdUpstream::open(256_MiB).value();
  const auto pool = Pool::create(*upstream, {.strategy = find_strategy("steady")}).value();
  std::vector<DeviceAddress> blocks;
  const auto pointer = [](DeviceAddress at) {
    return reinterpret_cast<unsigned char*>(at.value);  // NOLINT(performance-no-int-to-ptr)
  };
  for (unsigned i = 0; i < 4; ++i) {
    blocks.push_back(pool->allocate(40_MiB, StreamId{}).value());
    std::memset(pointer(blocks.back()), static_cast<int>(i + 1), (40_MiB).value);
  }
  ASSERT_TRUE(pool->deallocate(blocks[0], StreamId{}));
  ASSERT_TRUE(pool->deallocate(blocks[2], StreamId{}));
  const DeviceAddress large = pool->allocate(120_MiB, StreamId{}).value();
  std::memset(pointer(large), 9, (120_MiB).value);
  for (const unsigned i : {1U, 3U}) {
    EXPECT_EQ(pointer(blocks[i])[0], i + 1);
    EXPECT_EQ(pointer(blocks[i])[(40_MiB).value - 1], i + 1);
  }
}

TEST(Pieces, WhereShapesChangeTheDriverIsHardlyCalledAfterTheFirstThird) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    Pieces pieces(8_GiB);
    Requests requests(*pieces.pool, seed);
    for (unsigned i = 0; i < 300; ++i) requests.serve();
    const std::uint64_t calls = pieces.pool->status().upstream_calls;
    const std::uint64_t operations = requests.operations;
    for (unsigned i = 0; i < 600; ++i) requests.serve();
    EXPECT_LE(1000 * (pieces.pool->status().upstream_calls - calls), requests.operations - operations) << seed;
    const auto status = pieces.pool->status();
    EXPECT_LE(status.peak_reserved.value, status.peak_live.value + status.peak_live.value * 4 / 100) << seed;
  }
}

TEST(Pieces, TakeAFractionOfTheCallsThatPagesTake) {
  std::uint64_t calls[2] = {};
  for (const bool steady : {false, true}) {
    Pieces pieces(8_GiB, steady ? "steady" : "balanced");
    Requests requests(*pieces.pool, 7);
    for (unsigned i = 0; i < 300; ++i) requests.serve();
    calls[steady ? 1 : 0] = pieces.pool->status().upstream_calls;
  }
  EXPECT_LT(5 * calls[1], calls[0]);
}

}  // namespace
}  // namespace gpuwarden::memory
