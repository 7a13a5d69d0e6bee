// SPDX-License-Identifier: Apache-2.0
// Limits: as people write them, for a pool, for a process, hard and soft.
#include "gpuwarden/memory/budget.hpp"

#include <atomic>
#include <limits>
#include <thread>
#include <vector>

#include "gpuwarden/memory/host_upstreams.hpp"
#include "gpuwarden/memory/pool.hpp"
#include "memory/model_upstream.hpp"
#include "memory/two_streams.hpp"
#include "support/repetitions.hpp"

#include <gmock/gmock.h>

namespace gpuwarden::memory {
namespace {

TEST(MemoryLimit, ReadsSizesAndShares) {
  const Bytes total = 80_GiB;
  EXPECT_EQ(parse_memory_limit("12GiB").value().of(total), 12_GiB);
  EXPECT_EQ(parse_memory_limit(" 0.5 ").value().of(total), 40_GiB);
  EXPECT_EQ(parse_memory_limit("25%").value().of(total), 20_GiB);
  EXPECT_EQ(parse_memory_limit("25 %").value().of(total), 20_GiB);
  EXPECT_EQ(parse_memory_limit("1").value().of(total), total);
  EXPECT_EQ(parse_memory_limit("100GiB").value().of(total), total);
  EXPECT_EQ(parse_memory_limit("1000000").value().of(total), Bytes(1000000));
  for (const char* bad : {"", "0", "-1", "0%", "101%", "-5GiB", "half", "nan", "1e400", "12XB", "%", "0GiB"}) {
    const auto limit = parse_memory_limit(bad);
    ASSERT_FALSE(limit) << bad;
    EXPECT_EQ(limit.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(limit.error().hint, ::testing::HasSubstr("12GiB"));
  }
}

TEST(MemoryLimit, OfSizeAndShareTheSmallerHolds) {
  EXPECT_EQ((MemoryLimit{.bytes = 30_GiB, .fraction = 0.25}.of(80_GiB)), 20_GiB);
  EXPECT_EQ((MemoryLimit{.bytes = 10_GiB, .fraction = 0.25}.of(80_GiB)), 10_GiB);
}

TEST(MemoryBudget, NeverGivesMoreThanThereIs) {
  MemoryBudget budget(100_MiB);
  EXPECT_FALSE(budget.take(Bytes(~std::uint64_t{0})));
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        for (int n = 0; n < 10'000; ++n) {
          if (!budget.take(40_MiB)) continue;
          EXPECT_LE(budget.used(), budget.limit());
          budget.give(40_MiB);
        }
      });
  }
  EXPECT_EQ(budget.left(), 100_MiB);
}

TEST(Limits, AShareOfTheDeviceIsALimit) {
  ModelUpstream upstream(128_MiB);
  const auto pool = Pool::create(upstream, {.limit_fraction = 0.25}).value();
  EXPECT_EQ(pool->status().limit, 32_MiB);
  EXPECT_TRUE(pool->allocate(32_MiB, kStream));
  EXPECT_FALSE(pool->allocate(2_MiB, kStream));
  EXPECT_EQ(Pool::create(upstream, {.limit = 16_MiB, .limit_fraction = 0.25}).value()->status().limit, 16_MiB);
  for (const double bad : {0.0, -1.0, 1.5, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_EQ(Pool::create(upstream, {.limit_fraction = bad}).error().code, ErrorCode::invalid_argument) << bad;
}

TEST(Limits, PoolsOfAProcessShareOneBudget) {
  ModelUpstream upstream(1_GiB);
  const auto budget = std::make_shared<MemoryBudget>(100_MiB);
  ASSERT_TRUE(budget->take(20_MiB));  // a CUDA context, say
  const auto first = Pool::create(upstream, {.budget = budget}).value();
  auto second = Pool::create(upstream, {.budget = budget}).value();
  ASSERT_TRUE(first->allocate(50_MiB, kStream));
  const auto address = second->allocate(30_MiB, kStream).value();
  EXPECT_EQ(budget->left(), 0_B);
  const auto failed = first->allocate(30_MiB, kStream);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, ::testing::HasSubstr("process's limit of 104857600 bytes"));
  EXPECT_THAT(failed.error().hint, ::testing::HasSubstr("raise the process's limit"));
  ASSERT_TRUE(second->deallocate(address, kStream));
  EXPECT_EQ(second->trim().value(), 30_MiB);
  EXPECT_TRUE(first->allocate(20_MiB, kStream));
  ASSERT_TRUE(second->allocate(10_MiB, kStream));
  second.reset();
  EXPECT_EQ(budget->left(), 10_MiB);
}

TEST(Limits, ABudgetIsNotChargedForWhatFailed) {
  ModelUpstream upstream(64_MiB);
  const auto budget = std::make_shared<MemoryBudget>(1_GiB);
  {
    const auto pool = Pool::create(upstream, {.budget = budget}).value();
    EXPECT_FALSE(pool->allocate(80_MiB, kStream));
    EXPECT_EQ(budget->used(), 0_B);
    ASSERT_TRUE(pool->allocate(10_MiB, kStream));
    upstream.failure = ErrorCode::unavailable;
    upstream.fails = [](const std::string&) { return true; };
    EXPECT_FALSE(pool->allocate(20_MiB, kStream));
  }
  // The context is gone: nothing could be given back, and nothing is held.
  EXPECT_EQ(budget->used(), 0_B);
}

TEST(Limits, ASoftLimitAsksIdleMemoryFirstAndGivesWayThen) {
  for (const Strategy& strategy : strategies()) {
    ModelUpstream upstream(1_GiB);
    const auto pool = Pool::create(upstream, {.strategy = &strategy, .soft_limit = 64_MiB}).value();
    const auto idle = pool->allocate(40_MiB, kOther).value();
    ASSERT_TRUE(pool->deallocate(idle, kOther));
    // The other stream's memory lies idle: it moves here instead of 50 MiB more being taken.
    const auto address = pool->allocate(50_MiB, kStream).value();
    EXPECT_LE(pool->status().reserved, 64_MiB) << strategy.name;
    ASSERT_TRUE(pool->allocate(80_MiB, kStream)) << strategy.name;
    EXPECT_GE(pool->status().reserved, 130_MiB);
    ASSERT_TRUE(pool->deallocate(address, kStream));
    EXPECT_TRUE(pool->check());
  }
}

TEST(Limits, ALowerOneTakesEffectAtOnce) {
  for (const Strategy& strategy : strategies()) {
    ModelUpstream upstream(1_GiB);
    const auto pool = Pool::create(upstream, {.strategy = &strategy}).value();
    const auto kept = pool->allocate(30_MiB, kStream).value();
    const auto idle = pool->allocate(50_MiB, kOther).value();
    const auto small = pool->allocate(3_KiB, kStream).value();
    ASSERT_TRUE(pool->deallocate(idle, kOther));
    ASSERT_TRUE(pool->set_limit({.limit = 40_MiB})) << strategy.name;
    EXPECT_LE(pool->status().reserved, 40_MiB) << "idle memory goes back";
    EXPECT_EQ(pool->status().limit, 40_MiB);
    EXPECT_EQ(pool->allocate(20_MiB, kStream).error().code, ErrorCode::unsatisfied);
    ASSERT_TRUE(pool->set_limit({}));
    EXPECT_EQ(pool->status().limit, 1_GiB);
    EXPECT_TRUE(pool->allocate(500_MiB, kStream));
    for (const auto address : {kept, small}) EXPECT_TRUE(pool->deallocate(address, kStream));
    EXPECT_TRUE(pool->check());
  }
}

TEST(Limits, WhatIsLiveCannotBeForbidden) {
  ModelUpstream upstream(1_GiB);
  const auto pool = Pool::create(upstream, {.limit = 100_MiB}).value();
  ASSERT_TRUE(pool->allocate(20_MiB, kStream));
  const auto idle = pool->allocate(60_MiB, kStream).value();
  ASSERT_TRUE(pool->deallocate(idle, kStream));
  const auto refused = pool->set_limit({.limit = 10_MiB});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unsatisfied);
  EXPECT_EQ(refused.error().message, "the pool cannot be limited to 10485760 bytes: 20971520 are live");
  EXPECT_EQ(pool->status().limit, 100_MiB) << "the old one stays";
  EXPECT_EQ(pool->status().reserved, 20_MiB) << "though what was idle went back";
  EXPECT_TRUE(pool->allocate(80_MiB, kStream));
  EXPECT_FALSE(pool->allocate(2_MiB, kStream));
}

TEST(Limits, LiveBlocksHoldWholePages) {
  ModelUpstream upstream(1_GiB);
  const auto pool = Pool::create(upstream, {}).value();
  std::vector<DeviceAddress> blocks;
  for (int i = 0; i < 64; ++i) blocks.push_back(pool->allocate(1_MiB, kStream).value());
  // Of every page one half stays.
  for (std::size_t i = 0; i < blocks.size(); i += 2) ASSERT_TRUE(pool->deallocate(blocks[i], kStream));
  const auto refused = pool->set_limit({.limit = 40_MiB});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("its 33554432 live bytes hold pages of 67108864"));
  EXPECT_TRUE(pool->set_limit({.limit = 64_MiB}));
}

TEST(Limits, AShareAndASoftLimitMayComeLate) {
  ModelUpstream upstream(128_MiB);
  const auto pool = Pool::create(upstream, {}).value();
  for (const double bad : {0.0, -1.0, 1.5, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_EQ(pool->set_limit({.limit_fraction = bad}).error().code, ErrorCode::invalid_argument) << bad;
  ASSERT_TRUE(pool->set_limit({.limit = 100_MiB, .limit_fraction = 0.5, .soft_limit = 32_MiB}));
  EXPECT_EQ(pool->status().limit, 64_MiB);
  const auto idle = pool->allocate(30_MiB, kOther).value();
  ASSERT_TRUE(pool->deallocate(idle, kOther));
  ASSERT_TRUE(pool->allocate(30_MiB, kStream));
  EXPECT_LE(pool->status().reserved, 32_MiB) << "the other stream's memory came first";
  EXPECT_TRUE(pool->set_limit({.limit = 1_MiB}).error().code == ErrorCode::unsatisfied);
  EXPECT_TRUE(pool->allocate(30_MiB, kStream)) << "beyond the soft limit";
}

TEST(Limits, ALimitBelowAPageIsMetByAnEmptyPool) {
  ModelUpstream upstream(128_MiB);
  const auto pool = Pool::create(upstream, {}).value();
  const auto address = pool->allocate(5_MiB, kStream).value();
  ASSERT_TRUE(pool->deallocate(address, kStream));
  ASSERT_TRUE(pool->set_limit({.limit = 0_B}));
  EXPECT_EQ(pool->status().reserved, 0_B);
  EXPECT_EQ(upstream.pages(), 0U);
  EXPECT_FALSE(pool->allocate(1_B, kStream));
}

TEST(Limits, ALowerOneWaitsForTheStreamsWork) {
  ModelUpstream upstream(1_GiB);
  upstream.works_at_once = false;
  const auto pool = Pool::create(upstream, {}).value();
  const auto address = pool->allocate(50_MiB, kStream).value();
  ASSERT_TRUE(pool->allocate(2_MiB, kStream));
  upstream.submit(kStream, address, 50_MiB);
  ASSERT_TRUE(pool->deallocate(address, kStream));
  ASSERT_TRUE(pool->set_limit({.limit = 10_MiB}));
  EXPECT_LE(pool->status().reserved, 10_MiB);
  EXPECT_THAT(upstream.misuses(), ::testing::IsEmpty()) << "no page went while it was in use";
}

TEST(Limits, MemoryOfACapturedGraphCounts) {
  ModelUpstream upstream(1_GiB);
  const auto pool = Pool::create(upstream, {}).value();
  const auto id = pool->begin_capture(kStream).value();
  const auto address = pool->allocate(50_MiB, kStream).value();
  ASSERT_TRUE(pool->deallocate(address, kStream));
  EXPECT_THAT(pool->set_limit({.limit = 10_MiB}).error().hint, ::testing::HasSubstr("end the capture"));
  ASSERT_TRUE(pool->end_capture(id));
  EXPECT_THAT(pool->set_limit({.limit = 10_MiB}).error().hint, ::testing::HasSubstr("captured graphs"));
  ASSERT_TRUE(pool->release_capture(id, kStream));
  EXPECT_TRUE(pool->set_limit({.limit = 10_MiB}));
}

TEST(Limits, ChangingThemSurvivesTheFailureOfEachUpstreamCall) {
  for (const ErrorCode code : {ErrorCode::failed, ErrorCode::unavailable}) {
    for (std::uint64_t failing = 1;; ++failing) {
      ModelUpstream upstream(256_MiB);
      upstream.failure = code;
      const auto pool = Pool::create(upstream, {}).value();
      ASSERT_TRUE(pool->allocate(20_MiB, kStream));
      const auto idle = pool->allocate(60_MiB, kOther).value();
      ASSERT_TRUE(pool->deallocate(idle, kOther));
      const std::uint64_t before = upstream.calls();
      upstream.fails = [&](const std::string&) { return upstream.calls() - before == failing; };
      const auto result = pool->set_limit({.limit = 30_MiB});
      const bool failed = upstream.calls() - before >= failing;
      upstream.fails = nullptr;
      if (result) {
        EXPECT_LE(pool->status().reserved, 30_MiB);
      }
      EXPECT_EQ(pool->status().limit, result ? 30_MiB : 256_MiB);
      if (failed && code == ErrorCode::unavailable) {
        ASSERT_FALSE(result) << failing;
        EXPECT_EQ(result.error().code, code) << failing;
      }
      const auto checked = pool->check();
      EXPECT_TRUE(checked) << checked.error().message;
      if (!failed) break;
    }
  }
}

TEST(Limits, ChangeBesideThreadsThatAllocate) {
  ModelUpstream upstream(256_MiB);
  const auto pool = Pool::create(upstream, {}).value();
  {
    std::atomic<unsigned> blocks = 0;
    std::vector<std::jthread> threads;
    for (std::uint64_t stream = 1; stream <= 3; ++stream)
      threads.emplace_back([&, stream](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          const auto address = pool->allocate(Bytes(1 + stream * 700'000), StreamId{stream});
          if (!address) continue;
          EXPECT_TRUE(pool->deallocate(*address, StreamId{stream}));
          ++blocks;
        }
      });
    for (unsigned i = 0; blocks < testing::repetitions(20'000); ++i) {
      const Bytes limit((20 + i % 7) << 20U);
      if (!pool->set_limit({.limit = limit, .soft_limit = 10_MiB})) continue;
      EXPECT_EQ(pool->status().limit, limit);
    }
  }
  EXPECT_TRUE(pool->check());
  EXPECT_THAT(upstream.misuses(), ::testing::IsEmpty());
}

TEST(Limits, SegmentsAreCountedAsTheLayoutListsThem) {
  ModelUpstream upstream(1_GiB);
  const auto pool = Pool::create(upstream, {}).value();
  EXPECT_EQ(pool->segments(), 0U);
  std::vector<DeviceAddress> blocks;
  for (int i = 0; i < 20; ++i) blocks.push_back(pool->allocate(4_MiB, kStream).value());
  ASSERT_TRUE(pool->allocate(1_KiB, kOther));
  for (std::size_t i = 1; i < blocks.size(); i += 3) ASSERT_TRUE(pool->deallocate(blocks[i], kStream));
  ASSERT_TRUE(pool->trim());
  EXPECT_GT(pool->segments(), 3U);
  EXPECT_EQ(pool->segments(), pool->layout().size());
}

}  // namespace
}  // namespace gpuwarden::memory
