// SPDX-License-Identifier: Apache-2.0
// What a pool promises to its users, one promise a test.
#include "gpuwarden/memory/pool.hpp"
#include "gpuwarden/memory/layout.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "gpuwarden/memory/host_upstreams.hpp"
#include "memory/model_upstream.hpp"
#include "memory/two_streams.hpp"

namespace gpuwarden::memory {
namespace {

std::unique_ptr<Pool> pool_on(Upstream& upstream, PoolConfig config = {}) {
  auto pool = Pool::create(upstream, std::move(config));
  EXPECT_TRUE(pool) << pool.error().message;
  return std::move(*pool);
}

TEST(Pool, ReusesMemoryOfTheSameStreamAtOnceAndWithoutUpstream) {
  ModelUpstream upstream(1_GiB);
  const auto pool = pool_on(upstream);
  const auto first = pool->allocate(3_MiB, kStream).value();
  ASSERT_TRUE(pool->deallocate(first, kStream));
  const auto calls = upstream.calls();
  EXPECT_EQ(pool->allocate(3_MiB, kStream).value(), first);
  EXPECT_EQ(upstream.calls(), calls);
}

TEST(Pool, WaitsForTheOtherStreamBeforeItsMemoryIsReused) {
  ModelUpstream upstream(64_MiB);
  upstream.works_at_once = false;
  const auto pool = pool_on(upstream);
  const auto address = pool->allocate(60_MiB, kStream).value();
  upstream.submit(kStream, address, 60_MiB);
  ASSERT_TRUE(pool->deallocate(address, kStream));
  const auto again = pool->allocate(60_MiB, kOther).value();
  EXPECT_FALSE(upstream.is_busy_for(kOther, again, 60_MiB));
  EXPECT_EQ(pool->status().rungs[static_cast<std::size_t>(Rung::steal_wait)].helped, 1U);
  EXPECT_THAT(upstream.misuses(), ::testing::IsEmpty());
}

TEST(Pool, RefusesImpossibleRequestsWithoutAskingTheDeviceForMemory) {
  ModelUpstream upstream(1_GiB);
  const auto pool = pool_on(upstream);
  for (const Bytes size : {0_B, Bytes(std::numeric_limits<std::uint64_t>::max()),
                           Bytes(std::numeric_limits<std::uint64_t>::max() - 510), Bytes(std::uint64_t{1} << 60U)}) {
    const auto address = pool->allocate(size, kStream);
    ASSERT_FALSE(address) << size.value;
    EXPECT_EQ(address.error().code, size == 0_B ? ErrorCode::invalid_argument : ErrorCode::unsatisfied);
    EXPECT_EQ(upstream.pages(), 0U);
  }
  const auto calls = upstream.calls();
  EXPECT_EQ(pool->allocate(1_MiB, kStream, 3_B).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(pool->allocate(1_MiB, kStream, 4_MiB).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(upstream.calls(), calls);
  EXPECT_TRUE(pool->check());
}

TEST(Pool, RefusesDoubleForeignAndInteriorFrees) {
  ModelUpstream upstream(1_GiB);
  const auto pool = pool_on(upstream);
  const auto other_pool = pool_on(upstream);
  const auto large = pool->allocate(8_MiB, kStream).value();
  const auto small = pool->allocate(4_KiB, kStream).value();
  const auto theirs = other_pool->allocate(4_KiB, kStream).value();
  const auto refused = [&](DeviceAddress address, std::string_view why) {
    const auto result = pool->deallocate(address, kStream);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(result.error().message + result.error().hint, ::testing::HasSubstr(std::string(why)));
  };
  refused({}, "never gave it out");
  refused({large.value + 512}, "middle of a block");
  refused({large.value + 1}, "middle of a block");
  refused({small.value + 1}, "middle of a block");
  refused(theirs, "never gave it out");
  EXPECT_FALSE(pool->deallocate(large, 7_MiB, kStream));
  ASSERT_TRUE(pool->deallocate(large, 8_MiB, kStream));
  refused(large, "twice");
  ASSERT_TRUE(pool->deallocate(small, kOther));
  refused(small, "twice");
  EXPECT_TRUE(pool->check());
  EXPECT_EQ(pool->status().live, 0_B);
}

TEST(Pool, RefusesASecondFreeOfAHandle) {
  ModelUpstream upstream(1_GiB);
  const auto pool = pool_on(upstream);
  const auto block = pool->allocate_block(8_MiB, kStream).value();
  ASSERT_TRUE(pool->deallocate_block(block, kStream));
  EXPECT_EQ(pool->deallocate_block(block, kStream).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(pool->deallocate_block({}, kStream).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(pool->deallocate_block({block.address(), 4000}, kStream).error().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(pool->check());
}

TEST(Pool, TellsTheSizeThatWasAskedFor) {
  ModelUpstream upstream(1_GiB);
  const auto pool = pool_on(upstream);
  const auto address = pool->allocate(1000_B, kStream).value();
  EXPECT_EQ(pool->size_of(address).value(), 1000_B);
  EXPECT_EQ(pool->status().requested, 1000_B);
  EXPECT_EQ(pool->status().live, 1_KiB);
  EXPECT_FALSE(pool->size_of({address.value + 512}));
}

TEST(Pool, AsksCallbacksWhichMayGiveBackToThePool) {
  ModelUpstream upstream(64_MiB);
  DeviceAddress cached;
  Pool* used = nullptr;
  std::vector<Bytes> asked;
  const auto give_back = [&](Bytes needed) {
    asked.push_back(needed);
    return used->deallocate(cached, kStream).has_value();
  };
  const auto pool = pool_on(upstream, {.give_back = {[](Bytes) { return false; }, give_back}});
  used = pool.get();
  cached = pool->allocate(40_MiB, kStream).value();
  EXPECT_TRUE(pool->allocate(50_MiB, kStream));
  EXPECT_THAT(asked, ::testing::ElementsAre(50_MiB));
  EXPECT_EQ(pool->status().rungs[static_cast<std::size_t>(Rung::callbacks)].helped, 1U);
}

TEST(Pool, WaitsForOthersIfItMay) {
  ModelUpstream upstream(64_MiB);
  std::vector<PageHandle> theirs(30);
  ASSERT_TRUE(upstream.create(theirs));
  const auto pool = pool_on(upstream, {.wait_for_others = [&](Bytes) { return upstream.destroy(theirs).has_value(); }});
  EXPECT_TRUE(pool->allocate(20_MiB, kStream));
  EXPECT_EQ(pool->status().rungs[static_cast<std::size_t>(Rung::wait_others)].helped, 1U);
}

TEST(Pool, KeepsMemoryFreeForOthers) {
  ModelUpstream upstream(64_MiB);
  const auto pool = pool_on(upstream, {.keep_free = 32_MiB});
  EXPECT_TRUE(pool->allocate(30_MiB, kStream));
  EXPECT_EQ(pool->allocate(6_MiB, kStream).error().code, ErrorCode::unsatisfied);
}

TEST(Pool, TrimGivesIdlePagesBackAndKeepsWhatIsAskedFor) {
  ModelUpstream upstream(1_GiB);
  const auto pool = pool_on(upstream);
  const auto kept = pool->allocate(10_MiB, kStream).value();
  const auto freed = pool->allocate(100_MiB, kStream).value();
  ASSERT_TRUE(pool->deallocate(freed, kStream));
  EXPECT_EQ(pool->trim(50_MiB).value(), 60_MiB);
  EXPECT_EQ(upstream.pages(), 25U);
  EXPECT_EQ(pool->trim().value(), 40_MiB);
  EXPECT_EQ(upstream.pages(), 5U);
  EXPECT_EQ(pool->trim().value(), 0_B);
  EXPECT_TRUE(pool->check());
  ASSERT_TRUE(pool->deallocate(kept, kStream));
}

TEST(Pool, DoesNotTrimWhatAStreamStillWorksOn) {
  ModelUpstream upstream(1_GiB);
  upstream.works_at_once = false;
  const auto pool = pool_on(upstream);
  const auto address = pool->allocate(100_MiB, kStream).value();
  upstream.submit(kStream, address, 100_MiB);
  ASSERT_TRUE(pool->deallocate(address, kStream));
  EXPECT_EQ(pool->trim().value(), 0_B);
  upstream.finish_all();
  EXPECT_EQ(pool->trim().value(), 100_MiB);
  EXPECT_THAT(upstream.misuses(), ::testing::IsEmpty());
}

TEST(Pool, MakesNoMoreCallsOnceTheContextIsGone) {
  ModelUpstream upstream(1_GiB);
  auto pool = pool_on(upstream);
  const auto address = pool->allocate(10_MiB, kStream).value();
  upstream.failure = ErrorCode::unavailable;
  upstream.fails = [](const std::string&) { return true; };
  EXPECT_EQ(pool->allocate(100_MiB, kStream).error().code, ErrorCode::unavailable);
  const auto calls = upstream.calls();
  EXPECT_EQ(pool->allocate(100_MiB, kStream).error().code, ErrorCode::unavailable);
  EXPECT_TRUE(pool->deallocate(address, kStream));
  // Not even from what the pool has: it is gone, too.
  EXPECT_EQ(pool->allocate(10_MiB, kStream).error().code, ErrorCode::unavailable);
  EXPECT_EQ(pool->allocate_block(10_MiB, kStream).error().code, ErrorCode::unavailable);
  EXPECT_EQ(pool->trim().value(), 0_B);
  EXPECT_TRUE(pool->check());
  pool.reset();
  EXPECT_EQ(upstream.calls(), calls);
}

TEST(Pool, IsOfNoUseInAForkedChild) {
  ModelUpstream upstream(1_GiB);
  const auto pool = pool_on(upstream);
  const auto address = pool->allocate(10_MiB, kStream).value();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto more = pool->allocate(10_MiB, kStream);
    const auto freed = pool->deallocate(address, kStream);
    const bool refused = !more && more.error().code == ErrorCode::unavailable && !freed && !pool->check_process();
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(pool->check_process());
  EXPECT_TRUE(pool->deallocate(address, kStream));
}

/// Whether every call of a pool fails at once, or tells of an empty pool.
bool is_useless(Pool& pool, DeviceAddress address, CaptureId capture) {
  const auto refused = [](const auto& result) { return !result && result.error().code == ErrorCode::unavailable; };
  const Clock::SteadyTime now(std::chrono::seconds(1));
  return refused(pool.allocate(10_MiB, kStream)) && refused(pool.allocate_block(4_KiB, StreamId{77})) &&
         refused(pool.deallocate(address, kStream)) && refused(pool.deallocate(address, 10_MiB, kStream)) &&
         refused(pool.record_stream(address, StreamId{77})) && refused(pool.order(kStream, StreamId{77})) &&
         refused(pool.begin_capture(kStream)) && refused(pool.join_capture(capture, kStream)) &&
         refused(pool.end_capture(capture)) && refused(pool.release_capture(capture, kStream)) &&
         refused(pool.size_of(address)) && refused(pool.trim()) &&
         refused(pool.trim_idle(now, std::chrono::seconds(1))) && refused(pool.check()) &&
         pool.idle_since(now) == 0_B && pool.status().reserved == 0_B && pool.fragmentation().classes.empty() &&
         pool.sample_fragmentation().reserved == 0_B && pool.fragmentation_history().empty() && pool.layout().empty();
}

TEST(Pool, AForkedChildWaitsForNoLockThatWasHeld) {
  ModelUpstream upstream(1_GiB);
  pid_t child = -1;
  DeviceAddress address;
  CaptureId capture;
  Pool* made = nullptr;
  // The callback runs while the pool asks upstream, behind its lock.
  upstream.fails = [&](const std::string& call) {
    if (call != "create" || child != -1 || made == nullptr) return false;
    child = ::fork();
    if (child == 0) {
      ::alarm(20);
      ::_exit(is_useless(*made, address, capture) ? 0 : 1);
    }
    return false;
  };
  const auto pool = pool_on(upstream);
  address = pool->allocate(10_MiB, kStream).value();
  capture = pool->begin_capture(StreamId{9}).value();
  ASSERT_TRUE(pool->end_capture(capture));
  made = pool.get();
  ASSERT_TRUE(pool->allocate(100_MiB, kStream));
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Pool, ServesNoStreamThatUpstreamRefuses) {
  ModelUpstream upstream(1_GiB);
  upstream.refused = StreamId{2};
  const auto pool = pool_on(upstream);
  const auto address = pool->allocate(10_MiB, kStream).value();
  const auto refused = [&](const auto& result) {
    return !result && result.error().code == ErrorCode::invalid_argument &&
           result.error().message == "the model refuses this stream";
  };
  for (int again = 0; again < 2; ++again) {
    EXPECT_TRUE(refused(pool->allocate(10_MiB, upstream.refused)));
    EXPECT_TRUE(refused(pool->allocate_block(4_KiB, upstream.refused)));
    EXPECT_TRUE(refused(pool->deallocate(address, upstream.refused)));
    EXPECT_TRUE(refused(pool->record_stream(address, upstream.refused)));
    EXPECT_TRUE(refused(pool->order(kStream, upstream.refused)));
    EXPECT_TRUE(refused(pool->begin_capture(upstream.refused)));
  }
  EXPECT_TRUE(pool->deallocate(address, kStream));
  EXPECT_TRUE(pool->check());
}

TEST(Pool, ServesManyStreamsAndSaysWhenThereAreTooMany) {
  ModelUpstream upstream(4_GiB);
  const auto pool = pool_on(upstream);
  std::vector<DeviceAddress> blocks;
  for (std::uint64_t stream = 0; stream < 1024; ++stream) {
    const auto address = pool->allocate(4_KiB, StreamId{stream * 4096});
    ASSERT_TRUE(address) << stream << ": " << address.error().message;
    blocks.push_back(*address);
  }
  EXPECT_EQ(std::set(blocks.begin(), blocks.end()).size(), blocks.size());
  const auto refused = pool->allocate(4_KiB, StreamId{7});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("at most 1024 streams"));
  const auto checked = pool->check();
  EXPECT_TRUE(checked) << checked.error().message;
  for (std::uint64_t stream = 0; stream < 1024; ++stream) {
    EXPECT_EQ(pool->size_of(blocks[stream]).value(), 4_KiB);
    ASSERT_TRUE(pool->deallocate(blocks[stream], StreamId{stream * 4096})) << stream;
    EXPECT_FALSE(pool->deallocate(blocks[stream], StreamId{stream * 4096}));
  }
  EXPECT_EQ(pool->status().live, 0_B);
  EXPECT_THAT(upstream.misuses(), ::testing::IsEmpty());
}

TEST(Pool, ALateStreamsLargeBlocksStandWhereThereIsRoom) {
  ModelUpstream upstream(1_GiB);
  upstream.works_at_once = false;
  const auto pool = pool_on(upstream);
  for (std::uint64_t stream = 0; stream < 40; ++stream) ASSERT_TRUE(pool->allocate(4_KiB, StreamId{stream}));
  // A late stream's own address space is a small part of the device.
  const StreamId late{39};
  const auto address = pool->allocate(700_MiB, late);
  ASSERT_TRUE(address) << address.error().message;
  EXPECT_FALSE(upstream.is_busy_for(late, *address, 700_MiB));
  const auto handle = pool->allocate_block(100_MiB, late);
  ASSERT_TRUE(handle) << handle.error().message;
  ASSERT_TRUE(pool->deallocate(*address, 700_MiB, late));
  ASSERT_TRUE(pool->deallocate_block(*handle, late));
  const auto again = pool->allocate(800_MiB, late);
  ASSERT_TRUE(again) << again.error().message;
  const auto checked = pool->check();
  EXPECT_TRUE(checked) << checked.error().message;
  EXPECT_THAT(upstream.misuses(), ::testing::IsEmpty());
}

TEST(Pool, MovesPagesWithoutTouchingWhatIsLive) {
  const auto upstream = MemfdUpstream::open(96_MiB).value();
  const auto pool = pool_on(*upstream);
  std::vector<DeviceAddress> blocks(12);
  for (auto& block : blocks) block = pool->allocate(7_MiB, kStream).value();
  for (std::size_t i = 0; i < blocks.size(); ++i) std::memset(pointer(blocks[i]), static_cast<int>(i), (7_MiB).value);
  for (std::size_t i = 0; i < blocks.size(); i += 2) ASSERT_TRUE(pool->deallocate(blocks[i], kStream));
  // No hole is larger than 7 MiB, and the device has no 30 MiB left: pages have to move.
  const auto large = pool->allocate(30_MiB, kStream);
  ASSERT_TRUE(large) << large.error().message;
  EXPECT_GT(pool->status().pages_moved, 0U);
  std::memset(pointer(*large), 0xEE, (30_MiB).value);
  for (std::size_t i = 1; i < blocks.size(); i += 2) {
    const auto* const bytes = static_cast<const unsigned char*>(pointer(blocks[i]));
    EXPECT_EQ(bytes[0], i);
    EXPECT_EQ(bytes[(7_MiB).value - 1], i);
  }
  EXPECT_TRUE(pool->check());
}

TEST(Pool, AMappingThatFailsHalfwayLeavesEverythingAsItWas) {
  ModelUpstream upstream(1_GiB);
  const auto pool = pool_on(upstream);
  std::vector<DeviceAddress> blocks(4);
  for (auto& block : blocks) block = pool->allocate(4_MiB, kStream).value();
  // Address space: a hole, a free block, a hole, a live block. 12 MiB need both holes mapped.
  for (const std::size_t i : {0U, 2U}) ASSERT_TRUE(pool->deallocate(blocks[i], kStream));
  ASSERT_EQ(pool->trim().value(), 8_MiB);
  ASSERT_TRUE(pool->deallocate(blocks[1], kStream));
  unsigned maps = 0;
  upstream.fails = [&](const std::string& call) { return call == "map" && ++maps % 2 == 0; };
  const auto failed = pool->allocate(12_MiB, kStream);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, ::testing::HasSubstr("map was made to fail"));
  EXPECT_GE(maps, 2U);
  EXPECT_EQ(upstream.pages(), 4U);
  EXPECT_EQ(upstream.mapped_pages() + pool->status().spare.value / kPage.value, 4U);
  EXPECT_EQ(pool->status().reserved, 8_MiB);
  EXPECT_TRUE(pool->check());
  upstream.fails = {};
  EXPECT_EQ(pool->allocate(12_MiB, kStream).value(), blocks[0]);
  EXPECT_THAT(upstream.misuses(), ::testing::IsEmpty());
}

TEST(Pool, RunsOutExactlyWhenTheDeviceDoes) {
  ModelUpstream upstream(64_MiB);
  const auto pool = pool_on(upstream);
  for (int i = 0; i < 32; ++i) ASSERT_TRUE(pool->allocate(2_MiB, kStream)) << i;
  EXPECT_EQ(pool->allocate(2_MiB, kStream).error().code, ErrorCode::unsatisfied);
  EXPECT_DOUBLE_EQ(pool->status().utilization(), 1.0);
}

TEST(Pool, NeedsNoMoreThan64BytesOfHostMemoryForABlock) {
  ArithmeticUpstream upstream(80_GiB);
  const auto pool = pool_on(upstream);
  std::mt19937 random(3);
  for (const auto& [count, most] : {std::pair{100'000U, 1U << 20U}, std::pair{1'000'000U, 4096U}}) {
    const auto before = pool->status();
    for (unsigned i = 0; i < count; ++i) ASSERT_TRUE(pool->allocate(Bytes(1 + random() % most), kStream));
    const auto after = pool->status();
    EXPECT_LE((after.metadata - before.metadata).value / count, 64U) << count;
  }
}

TEST(Pool, ThreadsThatShareStreamsAndFreeEachOthersBlocksKeepItIntact) {
  ModelUpstream upstream(512_MiB);
  const auto pool = pool_on(upstream);
  std::mutex mutex;
  std::vector<DeviceAddress> shared;
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<DeviceAddress> own;
    for (int i = 0; i < 8000; ++i) {
      const StreamId stream{seed % 2 == 0 ? 0 : random() % 3};
      if (const auto address = pool->allocate(Bytes(1 + random() % (1U << (random() % 21))), stream))
        own.push_back(*address);
      if (own.size() < 20) continue;
      std::swap(own[random() % own.size()], own.back());
      DeviceAddress gone = own.back();
      own.pop_back();
      if (random() % 4 == 0) {
        const std::lock_guard lock(mutex);
        shared.push_back(gone);
        std::swap(shared[random() % shared.size()], shared.back());
        gone = shared.back();
        shared.pop_back();
      }
      EXPECT_TRUE(pool->deallocate(gone, stream));
    }
    for (const DeviceAddress address : own) EXPECT_TRUE(pool->deallocate(address, StreamId{0}));
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < 4; ++i) threads.emplace_back(work, i);
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(pool->check());
  }
  const auto status = pool->status();
  EXPECT_EQ(status.live, 0_B);
  EXPECT_EQ(status.live_blocks, 0U);
  EXPECT_TRUE(pool->check());
  EXPECT_THAT(upstream.misuses(), ::testing::IsEmpty());
}

TEST(MemfdUpstream, TouchingAddressSpaceWithoutMemoryFaults) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto upstream = MemfdUpstream::open(16_MiB).value();
  const auto pool = pool_on(*upstream);
  const auto address = pool->allocate(2_MiB, kStream).value();
  std::memset(pointer(address), 1, (2_MiB).value);
  ASSERT_TRUE(pool->deallocate(address, kStream));
  ASSERT_EQ(pool->trim().value(), 2_MiB);
  EXPECT_DEATH(*static_cast<volatile char*>(pointer(address)) = 1, "");
}

TEST(Strategies, HaveUniqueNamesAndARule) {
  std::set<std::string_view> names;
  for (const Strategy& strategy : strategies()) {
    EXPECT_TRUE(names.insert(strategy.name).second) << strategy.name;
    EXPECT_FALSE(strategy.rule.empty());
    EXPECT_EQ(find_strategy(strategy.name), &strategy);
  }
  EXPECT_EQ(find_strategy("no such"), nullptr);
}

TEST(Pool, AtItsEndTakesNoPagesFromStreamsThatMayStillWork) {
  for (const std::string failing : {"record", "synchronize"}) {
    for (const int failures : {1, 1000}) {
      ModelUpstream upstream(1_GiB);
      upstream.works_at_once = false;
      auto pool = pool_on(upstream);
      const auto address = pool->allocate(10_MiB, kStream).value();
      upstream.submit(kStream, address, 10_MiB);
      int left = failures;
      upstream.fails = [&](const std::string& call) { return call == failing && left-- > 0; };
      pool.reset();
      EXPECT_EQ(upstream.mapped_pages(), failures == 1 ? 0U : 5U) << failing;
      EXPECT_THAT(upstream.misuses(), ::testing::IsEmpty()) << failing;
    }
  }
}

TEST(Pool, KeepsMoreFreeThanThereCouldBe) {
  ModelUpstream upstream(1_GiB);
  const auto pool = pool_on(upstream, {.keep_free = Bytes(~std::uint64_t{0})});
  EXPECT_EQ(pool->allocate(10_MiB, kStream).error().code, ErrorCode::unsatisfied);
  EXPECT_EQ(upstream.pages(), 0U);
}

}  // namespace
}  // namespace gpuwarden::memory
