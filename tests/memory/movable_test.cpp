// SPDX-License-Identifier: Apache-2.0
// Buffers that move with consent: what is in them stays, what is pinned stays where it is.
#include "gpuwarden/memory/movable.hpp"

#include <gmock/gmock.h>

#include <cstring>
#include <random>
#include <thread>

#include "gpuwarden/memory/host_upstreams.hpp"
#include "memory/model_upstream.hpp"
#include "memory/two_streams.hpp"

namespace gpuwarden::memory {
namespace {

DeviceAddress address_of(MovableMemory& memory, MovableId id) {
  const auto pinned = memory.pin(id, kStream).value();
  EXPECT_TRUE(memory.unpin(id, kStream));
  return pinned.address;
}

/// Buffers of one size, of which only each `kept`-th survives.
std::vector<MovableId> comb(MovableMemory& memory, std::size_t count, std::size_t kept, Bytes size) {
  std::vector<MovableId> all;
  std::vector<MovableId> survivors;
  for (std::size_t i = 0; i < count; ++i) all.push_back(memory.allocate(size, kStream).value());
  for (std::size_t i = 0; i < count; ++i) {
    if (i % kept == 0) {
      survivors.push_back(all[i]);
    } else {
      EXPECT_TRUE(memory.deallocate(all[i]));
    }
  }
  return survivors;
}

TEST(MovableMemory, MovingFreesPagesAndKeepsWhatIsInTheBuffers) {
  const auto upstream = MemfdUpstream::open(256_MiB).value();
  const auto pool = Pool::create(*upstream, {}).value();
  MovableMemory memory(*pool);
  const auto survivors = comb(memory, 256, 8, 256_KiB);
  for (std::size_t i = 0; i < survivors.size(); ++i) {
    const auto pinned = memory.pin(survivors[i], kStream).value();
    std::memset(pointer(pinned.address), static_cast<int>(i + 1), pinned.size.value);
    ASSERT_TRUE(memory.unpin(survivors[i], kStream));
  }
  static_cast<void>(pool->trim());
  EXPECT_EQ(pool->status().reserved, 64_MiB);  // each page has one of them
  while (memory.defragment().value().moves != 0) continue;
  static_cast<void>(pool->trim());
  EXPECT_EQ(pool->status().reserved, 8_MiB);  // 32 buffers of 256 KiB: no page more than needed
  const auto statistics = memory.statistics();
  EXPECT_EQ(statistics.pages_freed, 28U);
  EXPECT_EQ(statistics.bytes_moved, Bytes(statistics.moves * (256_KiB).value));
  EXPECT_LE(statistics.moves, 28U * 2);
  for (std::size_t i = 0; i < survivors.size(); ++i) {
    const auto pinned = memory.pin(survivors[i], kStream).value();
    const auto* const bytes = static_cast<const unsigned char*>(pointer(pinned.address));
    for (const std::uint64_t at : {std::uint64_t{0}, pinned.size.value / 2, pinned.size.value - 1})
      ASSERT_EQ(bytes[at], i + 1) << i;
    ASSERT_TRUE(memory.unpin(survivors[i], kStream));
  }
  EXPECT_TRUE(pool->check());
}

TEST(MovableMemory, MovesLargerBuffersWhereFewerPagesAreNeeded) {
  ArithmeticUpstream upstream(1_GiB);
  const auto pool = Pool::create(upstream, {}).value();
  MovableMemory memory(*pool);
  const auto survivors = comb(memory, 40, 2, 3_MiB);
  while (memory.defragment().value().moves != 0) continue;
  static_cast<void>(pool->trim());
  EXPECT_LE(pool->status().reserved, 64_MiB);  // 20 of 3 MiB; where they were, 80
  EXPECT_TRUE(pool->check());
}

TEST(MovableMemory, NeverTouchesWhatIsPinned) {
  ArithmeticUpstream upstream(1_GiB);
  const auto pool = Pool::create(upstream, {}).value();
  MovableMemory memory(*pool);
  const auto survivors = comb(memory, 64, 8, 256_KiB);
  std::vector<PinnedBuffer> pinned;
  for (const MovableId id : survivors) pinned.push_back(memory.pin(id, kStream).value());
  EXPECT_EQ(memory.defragment().value().moves, 0U);
  for (std::size_t i = 0; i < survivors.size(); ++i) {
    ASSERT_TRUE(memory.unpin(survivors[i], kStream));
    EXPECT_EQ(address_of(memory, survivors[i]), pinned[i].address);
  }
  // Beside memory that cannot move nothing is gained.
  EXPECT_GT(memory.defragment().value().moves, 0U);
  for (const MovableId id : survivors) EXPECT_TRUE(memory.deallocate(id));
}

TEST(MovableMemory, KeepsToTheLimitsOfAPass) {
  ArithmeticUpstream upstream(1_GiB);
  const auto pool = Pool::create(upstream, {}).value();
  MovableMemory memory(*pool);
  comb(memory, 256, 8, 256_KiB);
  EXPECT_EQ(memory.defragment({.max_moves = 3}).value().moves, 3U);
  EXPECT_EQ(memory.defragment({.max_bytes = 512_KiB}).value().bytes_moved, 512_KiB);
  EXPECT_EQ(memory.defragment({.max_bytes = 100_KiB}).value().moves, 0U);
}

TEST(MovableMemory, ACopyRunsBehindAllUsersAndTheirLaterWorkBehindIt) {
  ModelUpstream upstream(1_GiB);
  upstream.works_at_once = false;
  const auto pool = Pool::create(upstream, {}).value();
  {
    // The upstream's copy checks the order of what it reads and writes.
    MovableMemory memory(*pool);
    const auto survivors = comb(memory, 64, 8, 256_KiB);
    for (const MovableId id : survivors) {
      const auto pinned = memory.pin(id, kOther).value();
      upstream.follow(kOther, kStream);
      upstream.submit(kOther, pinned.address, pinned.size);
      ASSERT_TRUE(memory.unpin(id, kOther));
    }
    EXPECT_GT(memory.defragment().value().moves, 0U);
    for (const MovableId id : survivors) {
      const auto pinned = memory.pin(id, kOther).value();
      EXPECT_FALSE(upstream.is_busy_for(kOther, pinned.address, pinned.size));
      upstream.submit(kOther, pinned.address, pinned.size);
      ASSERT_TRUE(memory.unpin(id, kOther));
      ASSERT_TRUE(memory.deallocate(id));
    }
    // Given back on its own stream while the other still works: not yet free there.
    EXPECT_GT(pool->status().cached, 0_B);
    static_cast<void>(pool->trim());
  }
  EXPECT_TRUE(pool->check());
  EXPECT_THAT(upstream.misuses(), ::testing::IsEmpty());
}

TEST(MovableMemory, AFailedCopyLeavesTheBufferWhereItWas) {
  ArithmeticUpstream upstream(1_GiB);
  const auto pool = Pool::create(upstream, {}).value();
  int allowed = 2;
  MovableMemory memory(*pool, [&](DeviceAddress, DeviceAddress, Bytes, StreamId) -> Result<void> {
    if (allowed-- > 0) return {};
    return fail(ErrorCode::failed, "the copy failed");
  });
  const auto survivors = comb(memory, 64, 8, 256_KiB);
  const auto before = pool->status();
  const auto pass = memory.defragment();
  ASSERT_FALSE(pass);
  EXPECT_EQ(pass.error().message, "the copy failed");
  EXPECT_EQ(memory.statistics().moves, 2U);
  EXPECT_EQ(pool->status().live, before.live);
  EXPECT_EQ(pool->status().live_blocks, before.live_blocks);
  EXPECT_TRUE(pool->check());
  for (const MovableId id : survivors) EXPECT_TRUE(memory.deallocate(id));
  EXPECT_EQ(pool->status().live, 0_B);
}

TEST(MovableMemory, SurvivesTheFailureOfEachUpstreamCall) {
  for (std::uint64_t failing = 1;; ++failing) {
    ModelUpstream upstream(1_GiB);
    std::uint64_t calls = 0;
    {
      const auto pool = Pool::create(upstream, {}).value();
      MovableMemory memory(*pool);
      const auto survivors = comb(memory, 64, 8, 256_KiB);
      for (const MovableId id : survivors) {
        ASSERT_TRUE(memory.pin(id, kOther));
        ASSERT_TRUE(memory.unpin(id, kOther));
      }
      upstream.fails = [&](const std::string&) { return ++calls == failing; };
      static_cast<void>(memory.defragment());
      for (const MovableId id : survivors) {
        if (memory.pin(id, kOther)) {
          ASSERT_TRUE(memory.unpin(id, kOther));
        }
        ASSERT_TRUE(memory.deallocate(id));
      }
      static_cast<void>(pool->trim());
      upstream.fails = {};
      EXPECT_EQ(pool->status().live, 0_B);
      ASSERT_TRUE(pool->check()) << failing;
    }
    ASSERT_THAT(upstream.misuses(), ::testing::IsEmpty()) << failing;
    ASSERT_EQ(upstream.pages(), 0U);
    if (calls < failing) break;
  }
}

TEST(MovableMemory, BuffersInAnotherStreamsMemoryMoveInOrder) {
  ModelUpstream upstream(64_MiB);
  upstream.works_at_once = false;
  const auto pool = Pool::create(upstream, {}).value();
  {
    MovableMemory memory(*pool);
    // All memory has been the other stream's: what is allocated now lies there.
    const auto first = pool->allocate(60_MiB, kOther).value();
    upstream.submit(kOther, first, 60_MiB);
    ASSERT_TRUE(pool->deallocate(first, kOther));
    const auto survivors = comb(memory, 80, 8, 256_KiB);
    for (const MovableId id : survivors) {
      const auto pinned = memory.pin(id, kStream).value();
      upstream.submit(kStream, pinned.address, pinned.size);
      ASSERT_TRUE(memory.unpin(id, kStream));
    }
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(memory.defragment());
    static_cast<void>(pool->trim());
    const auto large = pool->allocate(40_MiB, kOther);
    ASSERT_TRUE(large) << large.error().message;
    EXPECT_FALSE(upstream.is_busy_for(kOther, *large, 40_MiB));
    for (const MovableId id : survivors) ASSERT_TRUE(memory.deallocate(id));
  }
  EXPECT_TRUE(pool->check());
  EXPECT_THAT(upstream.misuses(), ::testing::IsEmpty());
}

TEST(MovableMemory, RefusesWhatMakesNoSense) {
  ArithmeticUpstream upstream(64_MiB);
  const auto pool = Pool::create(upstream, {}).value();
  MovableMemory memory(*pool);
  EXPECT_EQ(memory.allocate(0_B, kStream).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(memory.allocate(80_MiB, kStream).error().code, ErrorCode::unsatisfied);
  const auto id = memory.allocate(1_MiB, kStream).value();
  EXPECT_EQ(memory.unpin(id, kStream).error().code, ErrorCode::invalid_argument);
  ASSERT_TRUE(memory.pin(id, kStream));
  EXPECT_THAT(memory.deallocate(id).error().message, ::testing::HasSubstr("is pinned"));
  ASSERT_TRUE(memory.unpin(id, kStream));
  ASSERT_TRUE(memory.deallocate(id));
  EXPECT_EQ(memory.deallocate(id).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(memory.pin(id, kStream).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(memory.pin({}, kStream).error().code, ErrorCode::invalid_argument);
}

TEST(MovableMemory, MovesBesideThreadsThatUseIt) {
  const auto upstream = MemfdUpstream::open(512_MiB).value();
  const auto pool = Pool::create(*upstream, {}).value();
  MovableMemory memory(*pool);
  std::vector<std::jthread> threads;
  for (unsigned seed = 0; seed < 3; ++seed)
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      std::vector<std::pair<MovableId, unsigned char>> own;
      for (int i = 0; i < 1500; ++i) {
        if (own.size() < 60) {
          const auto mark = static_cast<unsigned char>(random());
          const auto id = memory.allocate(Bytes(1 + random() % 400'000), StreamId{seed}).value();
          const auto pinned = memory.pin(id, StreamId{seed}).value();
          std::memset(pointer(pinned.address), mark, pinned.size.value);
          ASSERT_TRUE(memory.unpin(id, StreamId{seed}));
          own.emplace_back(id, mark);
          continue;
        }
        std::swap(own[random() % own.size()], own.back());
        const auto [id, mark] = own.back();
        const auto pinned = memory.pin(id, StreamId{seed}).value();
        const auto* const bytes = static_cast<const unsigned char*>(pointer(pinned.address));
        ASSERT_EQ(bytes[0], mark);
        ASSERT_EQ(bytes[pinned.size.value - 1], mark);
        ASSERT_TRUE(memory.unpin(id, StreamId{seed}));
        ASSERT_TRUE(memory.deallocate(id));
        own.pop_back();
      }
    });
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(memory.defragment({.max_moves = 20}));
  threads.clear();
  EXPECT_TRUE(pool->check());
}

TEST(MovableMemory, TheOldPlaceOfWhatOthersUseTooComesBack) {
  ModelUpstream upstream(256_MiB);
  const auto pool = Pool::create(upstream, {}).value();
  {
    MovableMemory memory(*pool);
    const auto survivors = comb(memory, 256, 8, 256_KiB);
    for (const MovableId id : survivors) ASSERT_TRUE(pool->record_stream(address_of(memory, id), kOther));
    EXPECT_NE(memory.defragment().value().moves, 0U);
    EXPECT_EQ(pool->status().live_blocks, survivors.size());
  }
  EXPECT_EQ(pool->status().live, 0_B);
  EXPECT_TRUE(pool->check());
  EXPECT_THAT(upstream.misuses(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace gpuwarden::memory
