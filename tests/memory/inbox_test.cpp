// SPDX-License-Identifier: Apache-2.0
// Blocks that one thread allocates and another gives back.
#include "memory/inbox.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "gpuwarden/memory/host_upstreams.hpp"
#include "gpuwarden/memory/layout.hpp"
#include "gpuwarden/memory/pool.hpp"
#include "memory/core.hpp"
#include "memory/model_upstream.hpp"
#include "memory/other_thread.hpp"
#include "memory/two_streams.hpp"
#include "support/repetitions.hpp"

namespace gpuwarden::memory {
namespace {

using gpuwarden::testing::repetitions;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

using Blocks = std::vector<std::pair<unsigned, BlockNumber>>;

Blocks contents(Inbox& inbox) {
  Blocks all;
  Blocks prepared;
  inbox.empty([&](unsigned region, BlockNumber number) { prepared.emplace_back(region, number); },
              [&](unsigned region, BlockNumber number) -> Grains {
                all.emplace_back(region, number);
                EXPECT_GE(prepared.size(), all.size()) << "taken before it was prepared";
                return number;
              });
  EXPECT_EQ(prepared, all);
  return all;
}

TEST(Inbox, HasNoRoomBeforeItHasGrown) {
  Inbox inbox;
  EXPECT_TRUE(inbox.is_full());
  EXPECT_FALSE(inbox.has_any());
  EXPECT_EQ(inbox.bytes(), 0U);
  EXPECT_THAT(contents(inbox), IsEmpty());
  inbox.grow();
  EXPECT_FALSE(inbox.is_full());
  EXPECT_GT(inbox.bytes(), 0U);
}

TEST(Inbox, KeepsOrderRegionAndSize) {
  Inbox inbox;
  inbox.grow();
  inbox.put(0, 7, 7);
  inbox.put(1, 0, 0);
  inbox.put(1, (1U << 31U) - 1, 5);
  EXPECT_TRUE(inbox.has_any());
  EXPECT_EQ(inbox.grains(), 12U);
  EXPECT_THAT(contents(inbox), ElementsAre(Pair(0, 7), Pair(1, 0), Pair(1, (1U << 31U) - 1)));
  EXPECT_FALSE(inbox.has_any());
  EXPECT_THAT(contents(inbox), IsEmpty());
}

TEST(Inbox, LosesNothingHoweverOftenItIsFilledAndGrows) {
  Inbox inbox;
  std::mt19937 random(1);
  BlockNumber next = 0;
  BlockNumber expected = 0;
  for (int round = 0; round < 40; ++round) {
    if (random() % 3 == 0 && !inbox.has_any()) inbox.grow();
    for (std::uint64_t left = random() % 5000; left > 0 && !inbox.is_full(); --left, ++next)
      inbox.put(next % 2, next, next);
    std::uint64_t sum = 0;
    for (BlockNumber number = expected; number < next; ++number) sum += number;
    EXPECT_EQ(inbox.grains(), sum);
    for (const auto& [region, number] : contents(inbox)) {
      EXPECT_EQ(number, expected);
      EXPECT_EQ(region, expected % 2);
      ++expected;
    }
    EXPECT_EQ(inbox.grains(), 0U);
  }
  EXPECT_EQ(expected, next);
  EXPECT_GT(next, 10'000U);
}

TEST(Inbox, GrowsNoFurtherThanALimit) {
  Inbox inbox;
  for (int times = 0; times < 40; ++times) inbox.grow();
  EXPECT_LE(inbox.bytes(), 1U << 20U);
  EXPECT_FALSE(inbox.is_full());
}

TEST(BiasedLock, LetsOneThreadInAtATimeWhomeverItFavours) {
  for (const auto favours : {BiasedLock::Favours::maker, BiasedLock::Favours::first_comer}) {
    BiasedLock lock(favours);
    std::uint64_t count = 0;
    const std::uint64_t each = repetitions(200'000);
    const auto work = [&](unsigned pace) {
      for (std::uint64_t i = 0; i < each / pace; ++i) {
        if (i % 3 == 0) {
          lock.lock_in_passing();
        } else {
          lock.lock();
        }
        ++count;
        lock.unlock();
      }
    };
    {
      std::vector<std::jthread> threads;
      for (const unsigned pace : {1U, 8U, 64U}) threads.emplace_back(work, pace);
      work(2);
    }
    EXPECT_EQ(count, each + each / 8 + each / 64 + each / 2);
  }
}

TEST(BiasedLock, KnowsWhetherItIsAnothers) {
  BiasedLock mine;
  EXPECT_FALSE(mine.is_others());
  OtherThread other;
  bool seen = false;
  mine.lock();
  other.run([&] { seen = mine.is_others(); });
  mine.unlock();
  EXPECT_TRUE(seen);
  BiasedLock gate(BiasedLock::Favours::first_comer);
  // Who only passes does not stay.
  gate.lock_in_passing();
  gate.unlock();
  EXPECT_FALSE(gate.try_lock_favoured());
  gate.lock();
  gate.unlock();
  EXPECT_FALSE(gate.is_others());
}

struct InboxScene {
  explicit InboxScene(Bytes capacity = 1_GiB, const char* strategy = "balanced") : upstream(capacity) {
    pool = Pool::create(upstream, {.strategy = find_strategy(strategy)}).value();
  }
  ~InboxScene() {
    const auto checked = pool->check();
    EXPECT_TRUE(checked) << checked.error().message;
    EXPECT_THAT(upstream.misuses(), IsEmpty());
  }
  InboxScene(const InboxScene&) = delete;
  InboxScene& operator=(const InboxScene&) = delete;

  std::vector<DeviceAddress> blocks(unsigned count, Bytes size, StreamId stream = kStream) {
    std::vector<DeviceAddress> all;
    for (unsigned i = 0; i < count; ++i) all.push_back(pool->allocate(size, stream).value());
    return all;
  }
  void free_elsewhere(const std::vector<DeviceAddress>& blocks, StreamId stream = kStream) {
    other.run([&] {
      for (const DeviceAddress address : blocks) EXPECT_TRUE(pool->deallocate(address, stream));
    });
  }

  ModelUpstream upstream;
  std::unique_ptr<Pool> pool;
  OtherThread other;
};

TEST(FreesOfOtherThreads, AreCountedAndTheirMemoryIsUsedAgain) {
  InboxScene scene;
  for (const Bytes size : {4_KiB, 3_MiB}) {
    const auto blocks = scene.blocks(100, size);
    const auto calls = scene.upstream.calls();
    scene.free_elsewhere(blocks);
    EXPECT_EQ(scene.upstream.calls(), calls);
    const auto status = scene.pool->status();
    EXPECT_EQ(status.live, 0_B);
    EXPECT_EQ(status.live_blocks, 0U);
    EXPECT_EQ(status.frees, status.allocations);
    auto again = scene.blocks(100, size);
    EXPECT_EQ(scene.upstream.calls(), calls);
    EXPECT_EQ(std::set(again.begin(), again.end()), std::set(blocks.begin(), blocks.end()));
    scene.free_elsewhere(again);
    // Without a look at the counters in between.
    again = scene.blocks(100, size);
    EXPECT_EQ(scene.upstream.calls(), calls);
    scene.free_elsewhere(again);
  }
}

TEST(FreesOfOtherThreads, AreRefusedTheSecondTimeWhoeverAsks) {
  InboxScene scene;
  const auto blocks = scene.blocks(3, 1_MiB);
  const auto refuses = [&](DeviceAddress address) {
    const auto freed = scene.pool->deallocate(address, kStream);
    EXPECT_FALSE(freed);
    return !freed && freed.error().code == ErrorCode::invalid_argument;
  };
  scene.other.run([&] {
    // The first one makes the inbox, the second is left in it.
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(scene.pool->deallocate(blocks[i], kStream));
      EXPECT_TRUE(refuses(blocks[i]));
    }
  });
  EXPECT_TRUE(refuses(blocks[0]));
  EXPECT_TRUE(refuses(blocks[1]));
  EXPECT_EQ(scene.pool->size_of(blocks[1]).error().code, ErrorCode::not_found);
  EXPECT_EQ(scene.pool->record_stream(blocks[1], kOther).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(scene.pool->deallocate(blocks[1], kOther).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(scene.pool->status().live, 1_MiB);
  EXPECT_TRUE(scene.pool->deallocate(blocks[2], kStream));
}

TEST(FreesOfOtherThreads, AreCheckedLikeAnyOther) {
  InboxScene scene;
  const auto blocks = scene.blocks(2, 100_KiB);
  scene.other.run([&] {
    EXPECT_TRUE(scene.pool->deallocate(blocks[0], kStream));
    EXPECT_EQ(scene.pool->deallocate(blocks[1], 99_KiB, kStream).error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(scene.pool->deallocate({blocks[1].value + 512}, kStream).error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(scene.pool->deallocate({blocks[1].value + 1}, kStream).error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(scene.pool->deallocate({4096}, kStream).error().code, ErrorCode::invalid_argument);
    EXPECT_TRUE(scene.pool->deallocate(blocks[1], 100_KiB, kStream));
  });
  EXPECT_EQ(scene.pool->status().requested, 0_B);
}

TEST(FreesOfOtherThreads, WorkByHandle) {
  InboxScene scene;
  std::vector<BlockHandle> blocks;
  for (int i = 0; i < 50; ++i) blocks.push_back(scene.pool->allocate_block(70_KiB, kStream).value());
  scene.other.run([&] {
    for (const BlockHandle block : blocks) EXPECT_TRUE(scene.pool->deallocate_block(block, kStream));
    for (const BlockHandle block : blocks) EXPECT_FALSE(scene.pool->deallocate_block(block, kStream));
  });
  EXPECT_EQ(scene.pool->status().live_blocks, 0U);
}

TEST(FreesOfOtherThreads, NeedNoHelpOfAThreadThatIsIdle) {
  InboxScene scene(4_GiB);
  // More than any inbox holds.
  const auto blocks = scene.blocks(150'000, 512_B);
  scene.free_elsewhere(blocks);
  EXPECT_EQ(scene.pool->status().live_blocks, 0U);
}

TEST(FreesOfOtherThreads, ServeOtherStreamsWhenMemoryIsShort) {
  InboxScene scene(64_MiB);
  scene.upstream.works_at_once = false;
  const auto small = scene.blocks(2, 4_KiB);
  const auto blocks = scene.blocks(10, 6_MiB);
  scene.free_elsewhere(small);
  scene.free_elsewhere(blocks);
  const auto large = scene.pool->allocate(56_MiB, kOther);
  ASSERT_TRUE(large) << large.error().message;
  EXPECT_FALSE(scene.upstream.is_busy_for(kOther, *large, 56_MiB));
}

TEST(FreesOfOtherThreads, WaitForTheStreamAsOthersDo) {
  InboxScene scene(64_MiB);
  scene.upstream.works_at_once = false;
  scene.free_elsewhere(scene.blocks(2, 6_MiB));
  const auto blocks = scene.blocks(10, 6_MiB);
  for (const DeviceAddress address : blocks) scene.upstream.submit(kStream, address, 6_MiB);
  scene.free_elsewhere(blocks);
  // At once on their own stream; elsewhere only behind that work.
  EXPECT_TRUE(scene.pool->allocate(6_MiB, kStream));
  const auto address = scene.pool->allocate(30_MiB, kOther);
  ASSERT_TRUE(address) << address.error().message;
  EXPECT_FALSE(scene.upstream.is_busy_for(kOther, *address, 30_MiB));
}

TEST(FreesOfOtherThreads, AreTrimmedAndListed) {
  InboxScene scene;
  auto blocks = scene.blocks(20, 4_MiB);
  scene.free_elsewhere(blocks);
  for (const auto& segment : scene.pool->layout()) {
    for (const auto& block : segment.blocks) EXPECT_NE(block.use, BlockUse::live);
  }
  blocks = scene.blocks(20, 4_MiB);
  scene.free_elsewhere(blocks);
  EXPECT_EQ(scene.pool->trim().value(), 80_MiB);
  EXPECT_EQ(scene.pool->status().reserved, 0_B);
}

TEST(FreesOfOtherThreads, AreGivenBackEarlyWhereTheStrategyDoes) {
  InboxScene scene(1_GiB, "consolidated");
  scene.free_elsewhere(scene.blocks(400, 1_MiB));
  EXPECT_GE(scene.pool->status().reserved, 400_MiB);
  for (int i = 0; i < 800; ++i) scene.free_elsewhere(scene.blocks(200, 100_KiB));
  EXPECT_LT(scene.pool->status().reserved, 50_MiB);
}

/// Blocks on their way from one thread to another, and whose they are.
class Traffic {
 public:
  /// Nobody else has any of it.
  void enter(DeviceAddress address, Bytes size) {
    const std::lock_guard lock(mutex_);
    const auto next = live_.lower_bound(address.value);
    if (next != live_.end()) {
      EXPECT_LE(address.value + size.value, next->first);
    }
    if (next != live_.begin()) {
      EXPECT_LE(std::prev(next)->first + std::prev(next)->second, address.value);
    }
    live_.emplace(address.value, size.value);
    waiting_.push_back(address);
  }
  std::vector<DeviceAddress> leave(std::size_t most) {
    const std::lock_guard lock(mutex_);
    std::vector<DeviceAddress> some;
    for (; !waiting_.empty() && some.size() < most; waiting_.pop_back()) {
      some.push_back(waiting_.back());
      live_.erase(waiting_.back().value);
    }
    return some;
  }
  std::size_t waiting() {
    const std::lock_guard lock(mutex_);
    return waiting_.size();
  }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> live_;
  std::vector<DeviceAddress> waiting_;
};

class LeavesAlways : public ::testing::TestWithParam<bool> {
 protected:
  LeavesAlways() { Pool::Core::leaves_always = GetParam(); }
  ~LeavesAlways() override { Pool::Core::leaves_always = false; }
};
INSTANTIATE_TEST_SUITE_P(FreesOfOtherThreads, LeavesAlways, ::testing::Bool());

TEST_P(LeavesAlways, LosesNoBlockWhileTablesGrowAndBlocksMerge) {
  for (const Strategy& strategy : strategies()) {
    ArithmeticUpstream upstream(80_GiB);
    const auto pool = Pool::create(upstream, {.strategy = &strategy}).value();
    std::array<Traffic, 2> traffic;
    std::atomic<unsigned> producing = 2;
    const auto produce = [&](unsigned stream) {
      std::mt19937 random(stream);
      for (unsigned i = 0; i < repetitions(60'000); ++i) {
        // Ever more at first, so that the tables grow.
        if (traffic[stream].waiting() > 20'000 + random() % 1000) {
          std::this_thread::yield();
          continue;
        }
        const Bytes size(1 + random() % (1U << (random() % 24)));
        const auto address = pool->allocate(size, StreamId{stream});
        ASSERT_TRUE(address) << address.error().message;
        traffic[stream].enter(*address, size);
      }
      --producing;
    };
    const auto consume = [&](unsigned stream) {
      while (true) {
        const bool last = producing == 0;
        const auto some = traffic[stream].leave(100);
        for (const DeviceAddress address : some) ASSERT_TRUE(pool->deallocate(address, StreamId{stream}));
        if (last && some.empty()) return;
        if (some.empty()) std::this_thread::yield();
      }
    };
    {
      std::vector<std::jthread> threads;
      for (unsigned stream = 0; stream < 2; ++stream) threads.emplace_back(produce, stream);
      for (const unsigned stream : {0U, 1U, 1U}) threads.emplace_back(consume, stream);
      while (producing != 0) {
        EXPECT_TRUE(pool->check());
        static_cast<void>(pool->trim());
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
    const auto status = pool->status();
    EXPECT_EQ(status.live, 0_B) << strategy.name;
    EXPECT_EQ(status.frees, status.allocations);
    const auto checked = pool->check();
    EXPECT_TRUE(checked) << checked.error().message;
  }
}

}  // namespace
}  // namespace gpuwarden::memory
