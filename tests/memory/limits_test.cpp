// SPDX-License-Identifier: Apache-2.0
// Limits: as people write them, for a pool, for a process, hard and soft.
#include "gpuwarden/memory/budget.hpp"

#include <thread>
#include <vector>

#include "gpuwarden/memory/host_upstreams.hpp"
#include "gpuwarden/memory/pool.hpp"
#include "memory/model_upstream.hpp"

#include <gmock/gmock.h>

namespace gpuwarden::memory {
namespace {

constexpr StreamId kStream{1};
constexpr StreamId kOther{2};

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
    EXPECT_THAT(limit.error().hint, testing::HasSubstr("12GiB"));
  }
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
  EXPECT_THAT(failed.error().message, testing::HasSubstr("process's limit of 104857600 bytes"));
  EXPECT_THAT(failed.error().hint, testing::HasSubstr("raise the process's limit"));
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

}  // namespace
}  // namespace gpuwarden::memory
