// SPDX-License-Identifier: Apache-2.0
// Random operations on every strategy, held against a naive model; upstream calls that fail, one by one and at random.
#include <random>

#include "memory/core.hpp"
#include "memory/other_thread.hpp"
#include "memory/pool_model.hpp"
#include "support/repetitions.hpp"

namespace gpuwarden::memory {
namespace {

using namespace std::chrono_literals;

using gpuwarden::testing::repetitions;

std::string name_of(const ::testing::TestParamInfo<Strategy>& info) { return std::string(info.param.name); }

class EveryStrategy : public ::testing::TestWithParam<Strategy> {
 protected:
  std::unique_ptr<Pool> pool_on(ModelUpstream& upstream, PoolConfig config = {}) {
    config.strategy = &GetParam();
    auto pool = Pool::create(upstream, std::move(config));
    EXPECT_TRUE(pool) << pool.error().message;
    return std::move(*pool);
  }
};

INSTANTIATE_TEST_SUITE_P(All, EveryStrategy, ::testing::ValuesIn(strategies().begin(), strategies().end()), name_of);

TEST_P(EveryStrategy, AgreesWithANaiveModel) {
  std::array<RungCount, kRungs> rungs{};
  for (unsigned seed = 1; seed <= 8; ++seed) {
    ModelUpstream upstream(seed % 2 == 0 ? 4096_MiB : 120_MiB);
    upstream.works_at_once = seed < 5;
    {
      const auto pool = pool_on(upstream);
      PoolModel model(upstream, *pool, seed, 1 + seed % 4);
      for (int i = 0; i < 4000; ++i) {
        model.step();
        if (i % 50 == 0) model.compare();
        if (HasFailure()) return;
      }
      model.free_all();
      model.compare();
      EXPECT_EQ(pool->status().live, 0_B);
      for (std::size_t i = 0; i < kRungs; ++i) rungs[i].helped += pool->status().rungs[i].helped;
    }
    EXPECT_EQ(upstream.pages(), 0U);
    EXPECT_EQ(upstream.reservations(), 0U);
    EXPECT_EQ(upstream.events(), 0U);
    EXPECT_THAT(upstream.misuses(), ::testing::IsEmpty());
  }
  for (const Rung rung : {Rung::coalesce, Rung::steal_done, Rung::grow, Rung::wait_foreign, Rung::steal_wait,
                          Rung::flush_all, Rung::synchronize}) {
    EXPECT_GT(rungs[static_cast<std::size_t>(rung)].helped, 0U) << to_string(rung) << " was never needed";
  }
}

TEST_P(EveryStrategy, ManyStreamsNeverGetWhatOthersStillUse) {
  for (unsigned seed = 1; seed <= repetitions(4); ++seed) {
    ModelUpstream upstream(160_MiB);
    upstream.works_at_once = false;
    {
      const auto pool = pool_on(upstream);
      // More than have regions for the whole device: the others' memory stands in those regions.
      PoolModel model(upstream, *pool, seed, 40);
      for (int i = 0; i < 4000; ++i) {
        model.step();
        if (i % 20 == 0) static_cast<void>(pool->trim_idle(Clock::SteadyTime(std::chrono::seconds(i)), 1s));
        if (i % 100 == 0) model.compare();
        if (HasFailure()) return;
      }
      model.free_all();
      model.compare();
    }
    EXPECT_EQ(upstream.pages(), 0U);
    EXPECT_THAT(upstream.misuses(), ::testing::IsEmpty());
  }
}

TEST_P(EveryStrategy, IsTheSameWhicheverThreadGivesBack) {
  OtherThread other;
  for (unsigned seed = 1; seed <= std::max(repetitions(6), 2U); ++seed) {
    Pool::Core::leaves_always = seed % 2 == 0;
    ModelUpstream upstream(seed % 2 == 0 ? 4096_MiB : 120_MiB);
    upstream.works_at_once = seed < 3;
    {
      const auto pool = pool_on(upstream);
      PoolModel model(upstream, *pool, seed, 1 + seed % 3);
      model.elsewhere = [&](std::function<void()> job) { other.run(std::move(job)); };
      for (int i = 0; i < 4000; ++i) {
        model.step();
        if (i % 100 == 0) model.compare();
        if (HasFailure()) return;
      }
      model.free_all();
      model.compare();
      EXPECT_EQ(pool->status().live, 0_B);
    }
    Pool::Core::leaves_always = false;
    EXPECT_EQ(upstream.pages(), 0U);
    EXPECT_THAT(upstream.misuses(), ::testing::IsEmpty());
  }
}

TEST_P(EveryStrategy, SurvivesTheFailureOfEachUpstreamCall) {
  for (std::uint64_t failing = 1;; ++failing) {
    ModelUpstream upstream(160_MiB);
    upstream.works_at_once = failing % 2 == 0;
    std::uint64_t calls = 0;
    {
      const auto pool = pool_on(upstream);
      upstream.fails = [&](const std::string&) { return ++calls == failing; };
      PoolModel model(upstream, *pool, 7, 2);
      for (int i = 0; i < 400; ++i) {
        model.step();
        if (HasFailure()) return;
      }
      upstream.fails = {};
      model.compare();
      model.free_all();
      model.compare();
    }
    ASSERT_EQ(upstream.pages(), 0U) << "call " << failing;
    ASSERT_EQ(upstream.reservations(), 0U);
    ASSERT_THAT(upstream.misuses(), ::testing::IsEmpty());
    if (calls < failing) break;
  }
}

TEST_P(EveryStrategy, EpochsDoNotWrap) {
  // From a few before the last one, and from where they are counted anew.
  for (const std::uint32_t first : {~std::uint32_t{0} - 40, (std::uint32_t{1} << 31U) - 40}) {
    Pool::Core::first_epoch = first;
    ModelUpstream upstream(120_MiB);
    upstream.works_at_once = false;
    {
      const auto pool = pool_on(upstream);
      PoolModel model(upstream, *pool, 9, 4);
      for (int i = 0; i < 4000; ++i) {
        model.step();
        if (i % 20 == 0) static_cast<void>(pool->trim_idle(Clock::SteadyTime(std::chrono::seconds(i)), 1s));
        if (i % 50 == 0) model.compare();
        if (HasFailure()) break;
      }
      model.free_all();
      model.compare();
      upstream.finish_all();
      // Nothing waits for an epoch that never comes: the first call may learn of old events only, the next asks anew.
      for (int times = 0; times < 3; ++times) EXPECT_TRUE(pool->trim());
      EXPECT_EQ(pool->status().reserved, 0_B);
    }
    Pool::Core::first_epoch = 1;
    EXPECT_EQ(upstream.pages(), 0U);
    EXPECT_THAT(upstream.misuses(), ::testing::IsEmpty());
  }
}

TEST_P(EveryStrategy, OnceTheContextIsGoneSaysSoAtOnceAndCallsNobody) {
  for (std::uint64_t losing = 1;; ++losing) {
    ModelUpstream upstream(96_MiB);
    upstream.works_at_once = losing % 2 == 0;
    upstream.failure = ErrorCode::unavailable;
    std::uint64_t before = 0;
    auto pool = pool_on(upstream, {.keep_free = 8_MiB});
    before = upstream.calls();
    upstream.fails = [&](const std::string&) { return upstream.calls() - before >= losing; };
    std::mt19937 random(3);
    std::vector<std::pair<DeviceAddress, StreamId>> live;
    const auto is_lost = [&] { return upstream.calls() - before >= losing; };
    for (int i = 0; i < 300 && !is_lost(); ++i) {
      const StreamId stream{random() % 3};
      if (random() % 16 == 0) static_cast<void>(pool->trim_idle(Clock::SteadyTime(std::chrono::seconds(i)), 1s));
      if (live.size() < 30 && random() % 2 == 0) {
        const auto address = pool->allocate(Bytes(1 + random() % (1U << (random() % 25))), stream);
        if (address) live.emplace_back(*address, stream);
        if (is_lost()) {
          ASSERT_FALSE(address) << "given out by call " << losing;
        }
      } else if (!live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        if (random() % 4 == 0) {
          static_cast<void>(pool->record_stream(live.back().first, stream));
        }
        ASSERT_TRUE(pool->deallocate(live.back().first, live.back().second));
        live.pop_back();
      }
    }
    if (!is_lost()) break;
    const std::uint64_t calls = upstream.calls();
    for (const Bytes size : {512_B, 4_KiB, 64_KiB, 1_MiB, 50_MiB}) {
      for (std::uint64_t stream = 0; stream < 4; ++stream) {
        const auto address = pool->allocate(size, StreamId{stream});
        ASSERT_FALSE(address) << "call " << losing;
        ASSERT_EQ(address.error().code, ErrorCode::unavailable);
      }
    }
    for (const auto& [address, stream] : live) EXPECT_TRUE(pool->deallocate(address, stream));
    static_cast<void>(pool->trim());
    static_cast<void>(pool->trim_idle(Clock::SteadyTime(1000s), 1s));
    static_cast<void>(pool->order(StreamId{0}, StreamId{1}));
    EXPECT_EQ(pool->status().limit, 96_MiB);
    EXPECT_EQ(pool->status().live, 0_B);
    const auto checked = pool->check();
    EXPECT_TRUE(checked) << checked.error().message;
    pool.reset();
    ASSERT_EQ(upstream.calls(), calls) << "after call " << losing;
  }
}

TEST_P(EveryStrategy, LosesNothingWhenUpstreamFailsAtRandom) {
  ModelUpstream upstream(512_MiB);
  std::mt19937 random(11);
  upstream.fails = [&](const std::string&) { return random() % 4 != 0; };
  Result<std::unique_ptr<Pool>> made = Pool::create(upstream, {.strategy = &GetParam()});
  while (!made) made = Pool::create(upstream, {.strategy = &GetParam()});
  std::vector<DeviceAddress> live;
  std::uint64_t failures = 0;
  std::vector<CaptureId> graphs;
  for (int i = 0; i < static_cast<int>(repetitions(1'000'000)); ++i) {
    // Keeps upstream busy: what is idle goes back, as far as upstream lets it.
    if (i % 200 == 0) static_cast<void>((*made)->trim());
    if (i % 200 == 100) static_cast<void>((*made)->trim_idle(Clock::SteadyTime(std::chrono::seconds(i)), 1s));
    if (!live.empty() && random() % 16 == 0) {
      const auto noted = (*made)->record_stream(live[random() % live.size()], StreamId{random() % 2});
      ASSERT_TRUE(noted) << noted.error().message;
    }
    if (i % 5000 == 0) {
      if (const auto id = (*made)->begin_capture(StreamId{random() % 2})) graphs.push_back(*id);
    } else if (i % 5000 == 300 && !graphs.empty()) {
      static_cast<void>((*made)->end_capture(graphs.back()));
    } else if (i % 5000 > 300 && i % 100 == 0) {
      std::erase_if(graphs, [&](CaptureId id) { return (*made)->release_capture(id, StreamId{0}).has_value(); });
    }
    if (live.size() < 200 && random() % 2 == 0) {
      const auto address = (*made)->allocate(Bytes(1 + random() % (1U << (random() % 24))), StreamId{random() % 2});
      if (address) live.push_back(*address);
      failures += address ? 0 : 1;
      if (!address) {
        ASSERT_EQ(address.error().code, ErrorCode::unsatisfied);
      }
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      ASSERT_TRUE((*made)->deallocate(live.back(), StreamId{random() % 2}));
      live.pop_back();
    }
  }
  EXPECT_GT(failures, 50U);
  upstream.fails = {};
  for (const DeviceAddress address : live) ASSERT_TRUE((*made)->deallocate(address, StreamId{0}));
  for (const CaptureId id : graphs) EXPECT_TRUE((*made)->release_capture(id, StreamId{0}));
  const auto checked = (*made)->check();
  EXPECT_TRUE(checked) << checked.error().message;
  EXPECT_EQ((*made)->status().live, 0_B);
  made->reset();
  EXPECT_EQ(upstream.pages(), 0U);
  EXPECT_THAT(upstream.misuses(), ::testing::IsEmpty());
}

TEST_P(EveryStrategy, HonoursItsLimit) {
  ModelUpstream upstream(1024_MiB);
  const auto pool = pool_on(upstream, {.limit = 64_MiB});
  PoolModel model(upstream, *pool, 5, 2);
  for (int i = 0; i < 2000; ++i) {
    model.step();
    ASSERT_LE(upstream.pages(), 32U);
  }
  model.compare();
  EXPECT_GT(model.failures, 0U);
}

}  // namespace
}  // namespace gpuwarden::memory
