// SPDX-License-Identifier: Apache-2.0
// What nobody needs for a while goes back, and nothing else.
#include <gmock/gmock.h>

#include <random>
#include <thread>

#include "gpuwarden/memory/host_upstreams.hpp"
#include "gpuwarden/memory/trimmer.hpp"
#include "memory/model_upstream.hpp"
#include "memory/two_streams.hpp"
#include "support/fake_clock.hpp"

namespace gpuwarden::memory {
namespace {

using namespace std::chrono_literals;

struct IdleScene {
  explicit IdleScene(PoolConfig config = {}) : pool(Pool::create(upstream, std::move(config)).value()) {}
  ~IdleScene() {
    EXPECT_TRUE(pool->check());
    EXPECT_THAT(upstream.misuses(), ::testing::IsEmpty());
  }
  IdleScene(const IdleScene&) = delete;
  IdleScene& operator=(const IdleScene&) = delete;

  /// A step of work that needs so much at its peak.
  void step(Bytes size, StreamId stream = kStream) {
    const auto address = pool->allocate(size, stream).value();
    ASSERT_TRUE(pool->deallocate(address, stream));
  }
  Bytes trim(std::chrono::nanoseconds idle_for, Bytes keep = {}) {
    return pool->trim_idle(clock.now(), idle_for, keep).value();
  }

  ModelUpstream upstream{1_GiB};
  gpuwarden::testing::FakeClock clock;
  std::unique_ptr<Pool> pool;
};

TEST(IdleMemory, KeepsWhatTheLastStepsNeededAndReturnsTheRest) {
  IdleScene scene;
  scene.step(400_MiB);
  EXPECT_EQ(scene.trim(10s), 0_B);  // the first look: nothing is known yet
  for (int i = 0; i < 10; ++i) {
    scene.clock.advance(1s);
    scene.step(100_MiB);
    EXPECT_EQ(scene.trim(10s), 0_B) << i;
  }
  scene.clock.advance(1s);
  scene.step(100_MiB);
  const Bytes returned = scene.trim(10s);
  EXPECT_GE(returned, 294_MiB);
  EXPECT_GE(scene.pool->status().reserved, 100_MiB);
  // Steady work loses nothing and calls nobody.
  const auto created = scene.pool->status().pages_created;
  for (int i = 0; i < 30; ++i) {
    scene.clock.advance(1s);
    scene.step(100_MiB);
    EXPECT_EQ(scene.trim(10s), 0_B);
  }
  EXPECT_EQ(scene.pool->status().pages_created, created);
}

TEST(IdleMemory, NeverGoesBelowTheLowWaterMark) {
  IdleScene scene;
  scene.step(400_MiB);
  scene.trim(1s);
  scene.clock.advance(5s);
  scene.trim(1s, 200_MiB);
  scene.clock.advance(5s);
  EXPECT_EQ(scene.trim(1s, 200_MiB), 200_MiB);
  EXPECT_EQ(scene.trim(1s, 200_MiB), 0_B);
  EXPECT_EQ(scene.pool->status().reserved, 200_MiB);
  EXPECT_EQ(scene.trim(1s), 200_MiB);
}

TEST(IdleMemory, ReturnsTheLongestUnusedFirst) {
  IdleScene scene;
  const auto young = scene.pool->allocate(100_MiB, kStream).value();
  const auto old = scene.pool->allocate(100_MiB, kOther).value();
  ASSERT_TRUE(scene.pool->deallocate(old, kOther));
  scene.trim(1h);
  scene.trim(1h);
  const auto noted = scene.clock.now();
  EXPECT_EQ(scene.pool->idle_since(noted - 1ns), 0_B);
  EXPECT_EQ(scene.pool->idle_since(noted), 100_MiB);
  scene.clock.advance(1s);
  ASSERT_TRUE(scene.pool->deallocate(young, kStream));
  EXPECT_EQ(scene.pool->idle_since(scene.clock.now()), 100_MiB);
  scene.trim(1h);
  scene.trim(1h);
  EXPECT_EQ(scene.pool->idle_since(scene.clock.now()), 200_MiB);
  EXPECT_EQ(scene.pool->idle_since(noted), 100_MiB);
  scene.clock.advance(5s);
  EXPECT_EQ(scene.trim(1s, 100_MiB), 100_MiB);
  EXPECT_EQ(scene.pool->idle_since(noted), 0_B);
  EXPECT_EQ(scene.pool->idle_since(scene.clock.now()), 100_MiB);
}

TEST(IdleMemory, ReturnsWhatIsAboveTheSoftLimitHoweverYoung) {
  IdleScene scene({.soft_limit = 100_MiB});
  scene.step(300_MiB);
  EXPECT_EQ(scene.trim(1h), 200_MiB);
  EXPECT_EQ(scene.trim(1h), 0_B);
}

TEST(IdleMemory, LeavesWhatStreamsStillWorkOn) {
  IdleScene scene;
  scene.upstream.works_at_once = false;
  const auto address = scene.pool->allocate(100_MiB, kStream).value();
  scene.upstream.submit(kStream, address, 100_MiB);
  ASSERT_TRUE(scene.pool->deallocate(address, kStream));
  scene.trim(1s);
  scene.clock.advance(5s);
  EXPECT_EQ(scene.trim(1s), 0_B);
  scene.upstream.finish_all();
  scene.clock.advance(5s);
  EXPECT_EQ(scene.trim(1s), 100_MiB);
}

TEST(IdleMemory, SurvivesTheFailureOfEachUpstreamCall) {
  for (std::uint64_t failing = 1;; ++failing) {
    IdleScene scene;
    scene.step(300_MiB);
    const auto kept = scene.pool->allocate(3_MiB, kStream).value();
    scene.trim(1s);
    scene.clock.advance(5s);
    scene.trim(1s);
    scene.clock.advance(5s);
    std::uint64_t calls = 0;
    scene.upstream.fails = [&](const std::string&) { return ++calls == failing; };
    scene.trim(1s);
    scene.upstream.fails = {};
    ASSERT_TRUE(scene.pool->check()) << failing;
    scene.clock.advance(5s);
    scene.trim(1s);
    EXPECT_LE(scene.pool->status().reserved, 6_MiB);
    ASSERT_TRUE(scene.pool->deallocate(kept, kStream));
    if (calls < failing) {
      EXPECT_GT(calls, 10U);
      break;
    }
  }
}

TEST(IdleMemory, RemembersLongTimesInLittleRoom) {
  IdleScene scene;
  scene.step(200_MiB);
  for (int i = 0; i < 5000; ++i) {
    scene.clock.advance(1s);
    scene.step(Bytes(std::uint64_t{i % 97 == 0 ? 150U : 50U} << 20U));
    scene.trim(1000s);
  }
  // Each thousand seconds had a step of 150 MiB.
  EXPECT_GE(scene.pool->status().reserved, 150_MiB);
  EXPECT_LE(scene.pool->status().reserved, 156_MiB);
}

TEST(Trimmer, ReturnsIdleMemoryBesideThreadsThatAllocate) {
  ArithmeticUpstream upstream(1_GiB);
  const auto pool = Pool::create(upstream, {}).value();
  const auto first = pool->allocate(500_MiB, kOther).value();
  ASSERT_TRUE(pool->deallocate(first, kOther));
  {
    const Trimmer trimmer(*pool, system_clock(), {.interval = 1ms, .idle_for = 5ms, .keep = 10_MiB});
    std::vector<std::jthread> threads;
    for (unsigned seed = 0; seed < 2; ++seed)
      threads.emplace_back([&, seed](const std::stop_token& stop) {
        std::mt19937 random(seed);
        while (!stop.stop_requested()) {
          const auto address = pool->allocate(Bytes(1 + random() % 3'000'000), StreamId{seed});
          ASSERT_TRUE(address);
          ASSERT_TRUE(pool->deallocate(*address, StreamId{seed}));
        }
      });
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (trimmer.returned() < 400_MiB && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_GE(trimmer.returned(), 400_MiB);
  }
  EXPECT_TRUE(pool->check());
  EXPECT_GE(pool->status().reserved, 10_MiB);
}

TEST(Trimmer, StopsAtOnce) {
  ModelUpstream upstream(1_GiB);
  const auto pool = Pool::create(upstream, {}).value();
  const auto begin = std::chrono::steady_clock::now();
  {
    const Trimmer trimmer(*pool, system_clock(), {.interval = 10h});
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 1h);
}

TEST(IdleMemory, IsLeftAloneOnceTheContextIsGone) {
  IdleScene scene;
  scene.step(100_MiB);
  scene.upstream.failure = ErrorCode::unavailable;
  scene.upstream.fails = [](const std::string&) { return true; };
  EXPECT_FALSE(scene.pool->allocate(500_MiB, kStream));
  const auto calls = scene.upstream.calls();
  EXPECT_EQ(scene.pool->trim_idle(scene.clock.now(), 1s).error().code, ErrorCode::unavailable);
  EXPECT_EQ(scene.upstream.calls(), calls);
}

}  // namespace
}  // namespace gpuwarden::memory
