// SPDX-License-Identifier: Apache-2.0
// Learned steps: what they save, and that they change nothing else.
#include <gmock/gmock.h>

#include <array>
#include <thread>

#include "gpuwarden/base/scope_guard.hpp"
#include "memory/locks.hpp"
#include "memory/other_thread.hpp"
#include "memory/step_model.hpp"
#include "memory/two_streams.hpp"
#include "support/repetitions.hpp"

namespace gpuwarden::memory {
namespace {

using namespace std::chrono_literals;
using gpuwarden::testing::repetitions;

constexpr unsigned kLayers = 60;

/// A pool on which a stream has done its step twice.
class Steps : public ::testing::Test {
 protected:
  Steps() { make(4_GiB, {}); }
  ~Steps() override {
    model.reset();
    pool.reset();
    EXPECT_EQ(upstream->pages(), 0U);
    EXPECT_EQ(upstream->reservations(), 0U);
    EXPECT_THAT(upstream->misuses(), ::testing::IsEmpty());
  }
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  void make(Bytes capacity, PoolConfig config) {
    model.reset();
    pool.reset();
    upstream = std::make_unique<ModelUpstream>(capacity);
    pool = Pool::create(*upstream, std::move(config)).value();
    model = std::make_unique<StepModel>(*upstream, *pool, kStream);
  }
  void run(unsigned steps) {
    for (unsigned i = 0; i < steps; ++i) model->run(step);
  }
  /// Follows its step, and stands in the middle of it.
  void stop_in_the_middle() {
    run(3);
    ASSERT_EQ(pool->status().learned_steps, 1U);
    for (middle = 0; middle < step.size() / 2; ++middle) model->run(step[middle]);
  }
  void finish_step() {
    for (; middle < step.size(); ++middle) model->run(step[middle]);
    model->compare();
  }
  std::uint64_t followed() { return pool->status().learned_operations; }

  const std::vector<StepOperation> step = training_step(kLayers, 1);
  std::size_t middle = 0;
  std::unique_ptr<ModelUpstream> upstream;
  std::unique_ptr<Pool> pool;
  std::unique_ptr<StepModel> model;
};

TEST_F(Steps, TheThirdStepIsFollowedWithoutACallOfTheDriver) {
  run(2);
  EXPECT_EQ(pool->status().learned_steps, 0U);
  // The step's first operation is where it begins.
  model->run(step[0]);
  EXPECT_EQ(pool->status().learned_steps, 1U);
  const std::uint64_t calls = upstream->calls();
  const Bytes reserved = pool->status().reserved;
  for (std::size_t i = 1; i < step.size(); ++i) model->run(step[i]);
  run(3);
  const auto status = pool->status();
  EXPECT_EQ(upstream->calls(), calls);
  EXPECT_EQ(status.learned_steps, 1U);
  EXPECT_EQ(status.learned_operations, 4 * step.size());
  EXPECT_EQ(status.allocations + status.frees, 6 * step.size());
  EXPECT_EQ(status.reserved, reserved);
  EXPECT_GE(ratio(peak_of(step), status.peak_reserved), 0.95);
  EXPECT_EQ(status.peak_live, peak_of(step));
  model->compare();
}

TEST_F(Steps, ByHandleAsWell) {
  model = std::make_unique<StepModel>(*upstream, *pool, kStream, true);
  run(6);
  EXPECT_EQ(followed(), 4 * step.size());
  model->compare();
}

TEST_F(Steps, AreNotLearnedWhereTheyShallNotBe) {
  make(4_GiB, {.learn_steps = false});
  run(6);
  EXPECT_EQ(pool->status().learned_steps, 0U);
  EXPECT_EQ(followed(), 0U);
  make(4_GiB, {.strategy = find_strategy("greedy")});
  run(6);
  EXPECT_EQ(pool->status().learned_steps, 0U);
}

TEST_F(Steps, TheFragmentationAwareStrategyLearnsThemToo) {
  make(4_GiB, {.strategy = find_strategy("fragmentation_aware")});
  run(6);
  EXPECT_EQ(followed(), 4 * step.size());
  model->compare();
}

TEST_F(Steps, TheBooksAreExactAtEveryOperation) {
  run(3);
  for (const StepOperation& operation : step) {
    model->run(operation);
    model->compare(false);
  }
  model->compare();
  EXPECT_EQ(pool->status().learned_steps, 1U);
  EXPECT_EQ(pool->status().peak_live, peak_of(step));
}

TEST_F(Steps, WhatStaysFromBeforeAndBetweenStaysOrdinary) {
  const auto parameters = pool->allocate(37_MiB, kStream).value();
  // In each step a block that is given back in the next one only.
  DeviceAddress last = pool->allocate(3_MiB, kStream).value();
  for (int i = 0; i < 6; ++i) {
    for (std::size_t at = 0; at < step.size(); ++at) {
      if (at == 100) {
        ASSERT_TRUE(pool->deallocate(last, 3_MiB, kStream));
      }
      if (at == step.size() - 100) last = pool->allocate(3_MiB, kStream).value();
      model->run(step[at]);
    }
  }
  const auto status = pool->status();
  EXPECT_EQ(status.learned_steps, 1U);
  EXPECT_GE(status.learned_operations, 3 * step.size());
  EXPECT_EQ(status.live, 40_MiB);
  EXPECT_TRUE(pool->check());
  EXPECT_TRUE(pool->deallocate(last, kStream));
  EXPECT_TRUE(pool->deallocate(parameters, kStream));
  model->compare();
}

TEST_F(Steps, AnExtraBlockIsServedBesideTheScript) {
  stop_in_the_middle();
  ASSERT_TRUE(model->allocate(1U << 31U, 700_KiB));
  finish_step();
  model->free(1U << 31U);
  run(2);
  EXPECT_EQ(pool->status().learned_steps, 1U);
  EXPECT_EQ(followed(), 4 * step.size());
  model->compare();
}

TEST_F(Steps, WhenTheWorkChangesTheScriptIsLeftAndAnotherOneLearned) {
  stop_in_the_middle();
  const auto other = training_step(50, 7);
  for (int i = 0; i < 2; ++i) {
    std::vector<StepOperation> moved = other;
    for (StepOperation& operation : moved) operation.id += 1U << 20U;
    model->run(moved);
    model->compare();
  }
  finish_step();
  // The peak is lower: the higher one has to be forgotten first.
  for (int i = 0; i < 16; ++i) model->run(other);
  EXPECT_EQ(pool->status().learned_steps, 2U);
  const std::uint64_t calls = upstream->calls();
  model->run(other);
  EXPECT_EQ(upstream->calls(), calls);
  model->compare();
}

TEST_F(Steps, AnUnusualOrderOfFreesIsNoHarm) {
  stop_in_the_middle();
  const std::uint32_t early = model->any(7);
  model->free(early);
  model->compare();
  finish_step();
  run(2);
  model->compare();
}

TEST_F(Steps, DoubleFreesAndForeignPointersAreTheSameErrors) {
  stop_in_the_middle();
  const DeviceAddress address = model->address_of(model->any(3));
  const auto inside = pool->deallocate({address.value + 512}, kStream);
  ASSERT_FALSE(inside);
  EXPECT_EQ(inside.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(inside.error().hint, ::testing::HasSubstr("freed twice"));
  model->compare();
  finish_step();
  // The same again, while a script is followed: twice, a wrong size, another pool's.
  for (int i = 0; i < 40 && pool->status().learned_steps < 2; ++i) run(1);
  ASSERT_EQ(pool->status().learned_steps, 2U);
  const DeviceAddress block = pool->allocate(Bytes(step[0].size), kStream).value();
  const auto wrong = pool->deallocate(block, 7_B, kStream);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, ::testing::HasSubstr("it has"));
  ASSERT_TRUE(pool->deallocate(block, kStream));
  const auto twice = pool->deallocate(block, kStream);
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(twice.error().message, ::testing::HasSubstr("cannot free"));
  const auto foreign = pool->deallocate({512}, kStream);
  ASSERT_FALSE(foreign);
  EXPECT_THAT(foreign.error().message, ::testing::HasSubstr("never gave it out"));
  model->compare();
}

TEST_F(Steps, SizesArePlain) {
  stop_in_the_middle();
  const std::uint64_t before = followed();
  const DeviceAddress address = model->address_of(model->any(11));
  EXPECT_GT(pool->size_of(address).value(), 0_B);
  EXPECT_FALSE(pool->size_of({address.value + 512}));
  finish_step();
  EXPECT_GT(followed(), before);
  EXPECT_EQ(pool->status().learned_steps, 1U);
  EXPECT_EQ(followed(), 2 * step.size());
}

TEST_F(Steps, LayoutAndFragmentationShowTheBlocks) {
  stop_in_the_middle();
  std::size_t live = 0;
  for (const auto& segment : pool->layout())
    for (const auto& block : segment.blocks) live += block.use == BlockUse::live ? 1 : 0;
  EXPECT_EQ(live, model->live_blocks());
  finish_step();
  std::uint64_t blocks = 0;
  for (const auto& use : pool->fragmentation().classes) blocks += use.live_blocks;
  EXPECT_EQ(blocks, model->live_blocks());
  model->compare();
}

TEST_F(Steps, ABlockThatOthersUseIsWaitedFor) {
  stop_in_the_middle();
  upstream->works_at_once = false;
  const std::uint32_t used = model->any(5);
  ASSERT_TRUE(pool->record_stream(model->address_of(used), kOther));
  upstream->follow(kOther, kStream);
  upstream->submit(kOther, model->address_of(used), 512_B);
  finish_step();
  run(3);
  model->compare();
}

TEST_F(Steps, AFreeOnAnotherStreamIsWaitedFor) {
  stop_in_the_middle();
  upstream->works_at_once = false;
  for (std::uint64_t i = 0; i < 5; ++i) model->free(model->any(i), kOther);
  model->compare();
  finish_step();
  run(3);
  model->compare();
}

TEST_F(Steps, BlocksThatAreSharedInEveryStepStayOutOfThePlan) {
  // The same block of each step is used on another stream, and given back on it.
  const auto shared_step = [&](bool elsewhere) {
    for (std::size_t at = 0; at < step.size(); ++at) {
      const bool frees = step[at].size == 0;
      if (frees && step[at].id % 40 == 3 && elsewhere) {
        model->free(step[at].id, kOther);
      } else if (frees && step[at].id % 40 == 4) {
        ASSERT_TRUE(pool->record_stream(model->address_of(step[at].id), kOther));
        model->run(step[at]);
      } else {
        model->run(step[at]);
      }
    }
  };
  for (int i = 0; i < 8; ++i) shared_step(true);
  EXPECT_GE(pool->status().learned_steps, 1U);
  EXPECT_GT(followed(), 2 * step.size());
  model->compare();
}

TEST_F(Steps, AnotherStreamGetsTheMemoryWhenItIsShort) {
  make(Bytes(peak_of(step).value + (64_MiB).value), {});
  run(3);
  EXPECT_EQ(pool->status().learned_steps, 1U);
  // Between two steps: nearly all of it is free, and none of it mapped anew without leaving the script.
  const auto address = pool->allocate(peak_of(step), kOther);
  ASSERT_TRUE(address) << address.error().message;
  EXPECT_TRUE(pool->check());
  ASSERT_TRUE(pool->deallocate(*address, kOther));
  run(2);
  model->compare();
}

TEST_F(Steps, TrimGivesEverythingBack) {
  run(4);
  EXPECT_GT(pool->trim().value(), 0_B);
  EXPECT_EQ(pool->status().reserved, 0_B);
  run(4);
  model->compare();
}

TEST_F(Steps, AnIdleStreamsMemoryIsGivenBackInTheBackground) {
  run(4);
  for (int second = 0; second < 40; ++second)
    ASSERT_TRUE(pool->trim_idle(Clock::SteadyTime(std::chrono::seconds(second)), 5s));
  EXPECT_EQ(pool->status().reserved, 0_B);
  EXPECT_TRUE(pool->check());
}

TEST_F(Steps, AWorkingStreamKeepsItsMemory) {
  run(3);
  const Bytes reserved = pool->status().reserved;
  for (int second = 0; second < 40; ++second) {
    run(1);
    ASSERT_TRUE(pool->trim_idle(Clock::SteadyTime(std::chrono::seconds(second)), 5s));
  }
  EXPECT_EQ(pool->status().reserved, reserved);
  EXPECT_EQ(pool->status().learned_steps, 1U);
  model->compare();
}

TEST_F(Steps, ACaptureLeavesTheScript) {
  stop_in_the_middle();
  const auto graph = pool->begin_capture(kStream).value();
  const auto inside = pool->allocate(5_MiB, kStream).value();
  EXPECT_TRUE(pool->check());
  ASSERT_TRUE(pool->deallocate(inside, kStream));
  ASSERT_TRUE(pool->end_capture(graph));
  finish_step();
  ASSERT_TRUE(pool->release_capture(graph, kStream));
  run(3);
  model->compare();
}

TEST_F(Steps, AlignedBlocksAreServedBesideThePlan) {
  const auto aligned_step = [&] {
    for (std::size_t at = 0; at < step.size(); ++at) {
      const StepOperation& operation = step[at];
      if (operation.size != 0 && operation.id % 50 == 1) {
        ASSERT_TRUE(model->allocate(operation.id, Bytes(operation.size), 64_KiB));
      } else {
        model->run(operation);
      }
    }
  };
  for (int i = 0; i < 6; ++i) aligned_step();
  EXPECT_EQ(pool->status().learned_steps, 1U);
  EXPECT_GT(followed(), 3 * step.size());
  model->compare();
}

/// Steps with things in between that no script has: another size, a block more, an early free, memory of others, calls
/// that look at blocks.
void disturb(Pool& pool, StepModel& model, std::mt19937& random, std::uint32_t& extra) {
  const auto drawn = random() % 9;
  if (drawn == 0) {
    model.allocate(extra++, Bytes(1 + random() % 3'000'000));
  } else if (drawn == 1 && model.live_blocks() != 0) {
    model.free(model.any(random()));
  } else if (drawn == 2 && model.live_blocks() != 0) {
    model.free(model.any(random()), kOther);
  } else if (drawn == 3 && model.live_blocks() != 0) {
    EXPECT_TRUE(pool.record_stream(model.address_of(model.any(random())), kOther));
  } else if (drawn == 4) {
    static_cast<void>(pool.trim(Bytes(random() % (100U << 20U))));
  } else if (drawn == 5) {
    static_cast<void>(pool.layout());
  } else if (drawn == 6) {
    EXPECT_FALSE(pool.deallocate({random() * std::uint64_t{512}}, kStream));
  } else if (drawn == 7) {
    const auto address = pool.allocate(Bytes(1 + random() % 30'000'000), kOther);
    if (address) {
      EXPECT_TRUE(pool.deallocate(*address, kOther));
    }
  } else {
    model.compare();
  }
}

TEST_F(Steps, RandomDisturbancesChangeNothingElse) {
  for (unsigned seed = 1; seed <= repetitions(24); ++seed) {
    std::mt19937 random(seed);
    PoolConfig config;
    config.strategy = seed % 3 == 0 ? find_strategy("fragmentation_aware") : nullptr;
    // Plenty, little, and too little memory.
    make(Bytes(peak_of(step).value * (90 + 15 * (seed % 4)) / 100), config);
    model = std::make_unique<StepModel>(*upstream, *pool, kStream, seed % 2 == 0);
    upstream->works_at_once = seed % 5 != 0;
    std::uint32_t extra = 1U << 31U;
    const unsigned rate = 200U << (seed % 7);
    std::uint64_t scripts = 0;
    for (int i = 0; i < 20; ++i) {
      for (const StepOperation& operation : step) {
        if (operation.size != 0 || model->is_live(operation.id)) model->run(operation);
        if (random() % rate == 0) disturb(*pool, *model, random, extra);
        if (HasFailure()) return;
      }
      if (random() % 3 == 0) upstream->finish_all();
      scripts = pool->status().learned_steps;
      for (; extra > 1U << 31U; --extra) model->free(extra - 1);
      model->compare();
    }
    model->free_all();
    model->compare();
    if (seed % 7 == 6 && seed % 4 != 0) {
      EXPECT_GT(scripts, 0U) << seed;
    }
  }
}

TEST_F(Steps, TheFailureOfEachUpstreamCallIsSurvived) {
  const auto small = training_step(60, 5);
  for (std::uint64_t failing = 1;; ++failing) {
    make(Bytes(peak_of(small).value * 21 / 20), {});
    upstream->works_at_once = failing % 2 == 0;
    std::uint64_t calls = 0;
    upstream->fails = [&](const std::string&) { return ++calls == failing; };
    for (int i = 0; i < 4; ++i) {
      for (const StepOperation& operation : small)
        if (operation.size != 0 || model->is_live(operation.id)) model->run(operation);
      upstream->finish_all();
    }
    upstream->fails = {};
    model->compare();
    model->free_all();
    model->compare();
    if (HasFailure()) FAIL() << "call " << failing;
    if (calls < failing) break;
    if (failing > 60) failing += 1 + failing / repetitions(40);
  }
}

TEST_F(Steps, OnceTheContextIsGoneNothingIsGivenOut) {
  stop_in_the_middle();
  upstream->failure = ErrorCode::unavailable;
  upstream->fails = [](const std::string&) { return true; };
  // It is noticed by another stream's request.
  ASSERT_FALSE(pool->allocate(3_GiB, kOther));
  const auto next = std::ranges::find_if(step.begin() + static_cast<std::ptrdiff_t>(middle), step.end(),
                                         [](const StepOperation& operation) { return operation.size != 0; });
  const auto refused = pool->allocate(Bytes(next->size), kStream);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unavailable);
  model->free_all();
  EXPECT_EQ(pool->status().live, 0_B);
  EXPECT_TRUE(pool->check());
  pool.reset();
  // A new one, so that the end finds nothing left.
  upstream->fails = {};
  make(1_GiB, {});
}

TEST_F(Steps, ThreadsMayTakeTurns) {
  // While a lock favours a thread, others' frees come late to the tape; when it stops doing so is a matter of time.
  BiasedLock::favours_nobody = true;
  const ScopeGuard favour_again([] { BiasedLock::favours_nobody = false; });
  make(4_GiB, {});
  std::array<OtherThread, 2> threads;
  for (std::size_t i = 0; i < 8; ++i) threads[i % 2].run([&] { model->run(step); });
  EXPECT_EQ(pool->status().learned_steps, 1U);
  EXPECT_GE(followed(), 3 * step.size());
  model->compare();
}

TEST_F(Steps, EachStreamHasItsOwn) {
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 3; ++i) {
    threads.emplace_back([this, i] {
      const auto own = training_step(60, static_cast<unsigned>(i) + 3);
      std::map<std::uint32_t, DeviceAddress> live;
      for (unsigned times = 0; times < 12; ++times) {
        for (const auto& [id, size] : own) {
          if (size != 0) {
            live[id] = pool->allocate(Bytes(size), StreamId{i + 1}).value();
          } else if (!pool->deallocate(live[id], StreamId{i + 1})) {
            ADD_FAILURE() << "a free was refused";
          }
        }
        static_cast<void>(pool->status());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Those that want more memory make others leave theirs.
  EXPECT_GE(pool->status().learned_steps, 1U);
  EXPECT_EQ(pool->status().live, 0_B);
  EXPECT_TRUE(pool->check());
}

}  // namespace
}  // namespace gpuwarden::memory
