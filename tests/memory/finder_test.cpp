// SPDX-License-Identifier: Apache-2.0
#include "memory/steps/finder.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "memory/step_model.hpp"

namespace gpuwarden::memory {
namespace {

/// A lane's tape with nothing behind it.
class Listener {
 public:
  Listener() { finder.start(tape, live_); }

  /// Whether a plan could begin before this operation.
  bool run(const StepOperation& operation) {
    const bool begins = tape.is_due() && finder.look(tape, live_);
    if (operation.size != 0) {
      Block& block = blocks_[operation.id];
      block.size = grains(Bytes(operation.size));
      block.left = static_cast<std::uint32_t>((std::uint64_t{block.size} << kGrainShift) - operation.size);
      tape.allocated(block, operation.size);
      live_ += block.size;
    } else {
      tape.freed(blocks_[operation.id], 0);
      live_ -= blocks_[operation.id].size;
    }
    return begins;
  }
  /// The first operation before which a plan could begin.
  std::optional<std::size_t> run(const std::vector<StepOperation>& step) {
    std::optional<std::size_t> first;
    for (std::size_t i = 0; i < step.size(); ++i)
      if (run(step[i]) && !first) first = i;
    return first;
  }

  StepTape tape;
  PeriodFinder finder;

 private:
  std::map<std::uint32_t, Block> blocks_;
  std::uint64_t live_ = 1000;
};

TEST(PeriodFinder, BelievesAStepWhenItEndsForTheSecondTime) {
  const auto step = training_step(60, 1);
  ASSERT_GT(step.size(), 1500U);
  Listener listener;
  EXPECT_FALSE(listener.run(step));
  EXPECT_FALSE(listener.run(step));
  EXPECT_EQ(listener.run(step), 0U);
  EXPECT_EQ(listener.finder.period(), step.size());
}

TEST(PeriodFinder, LayersThatAreAlikeAreNoPeriodWhileMemoryGrows) {
  Listener listener;
  // One step with many layers, no second one.
  EXPECT_FALSE(listener.run(training_step(1000, 1)));
}

TEST(PeriodFinder, LearnsLongStepsOnceTheTapeHasGrown) {
  const auto step = training_step(1600, 2);
  ASSERT_GT(step.size(), StepTape::kUsual);
  Listener listener;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(listener.run(step));
  EXPECT_EQ(listener.run(step), 0U);
  EXPECT_LE(listener.tape.capacity(), StepTape::kMost);
}

TEST(PeriodFinder, RandomOperationsAreNone) {
  Listener listener;
  std::minstd_rand random(1);
  std::vector<std::uint64_t> sizes(64);
  for (unsigned i = 0; i < 200'000; ++i) {
    const auto id = static_cast<std::uint32_t>(random() % sizes.size());
    sizes[id] = sizes[id] == 0 ? std::uint64_t{512} << (random() % 10) : 0;
    ASSERT_FALSE(listener.run({id, sizes[id]}));
  }
  EXPECT_EQ(listener.tape.capacity(), StepTape::kUsual);
}

TEST(PeriodFinder, ListensNowAndThenWhereNothingRepeatsItself) {
  Listener listener;
  std::minstd_rand random(1);
  std::vector<std::uint64_t> sizes(64);
  unsigned listened = 0;
  constexpr unsigned kOperations = 2'000'000;
  for (unsigned i = 0; i < kOperations; ++i) {
    const auto id = static_cast<std::uint32_t>(random() % sizes.size());
    sizes[id] = sizes[id] == 0 ? std::uint64_t{512} << (random() % 10) : 0;
    listener.run({id, sizes[id]});
    listened += listener.tape.is_on() ? 1 : 0;
  }
  EXPECT_LT(listened, kOperations / 2);
  EXPECT_GT(listened, kOperations / 5);
  // And finds a step that begins then.
  const auto step = training_step(60, 1);
  bool begun = false;
  for (int i = 0; i < 400 && !begun; ++i) {
    for (StepOperation operation : step) {
      operation.id += 100;
      begun |= listener.run(operation);
    }
  }
  EXPECT_TRUE(begun);
}

TEST(PeriodFinder, AStepThatIsOftenDisturbedIsNotBelieved) {
  auto step = training_step(60, 1);
  std::size_t middle = step.size() / 2;
  while (step[middle].size == 0) ++middle;
  Listener listener;
  for (std::uint64_t i = 0; i < 20; ++i) {
    step[middle].size = 1000 + i;
    EXPECT_FALSE(listener.run(step)) << i;
  }
}

TEST(PeriodFinder, WaitsLongerAfterEachFailure) {
  const auto step = training_step(60, 1);
  Listener listener;
  std::vector<unsigned> begun;
  for (unsigned i = 0; i < 40; ++i) {
    for (const StepOperation& operation : step) {
      if (!listener.run(operation)) continue;
      begun.push_back(i);
      listener.finder.put_off(listener.tape);
    }
  }
  ASSERT_GE(begun.size(), 3U);
  EXPECT_LT(begun.size(), 8U);
  EXPECT_GT(begun[2] - begun[1], begun[1] - begun[0]);
}

TEST(StepTape, KeepsTheLastOperationsWhenItGrows) {
  StepTape tape;
  tape.grow(512);
  Block block{};
  block.size = 2;
  for (std::uint64_t i = 1; i <= 2000; ++i) tape.allocated(block, i);
  tape.grow(1024);
  for (std::uint32_t back = 1; back <= 512; ++back) ASSERT_EQ(tape[tape.op() - back], 2001 - back);
  tape.freed(block, 0);
  const std::uint64_t free = tape[tape.op() - 1];
  EXPECT_TRUE(word::is_free(free));
  EXPECT_EQ(word::distance(free), 1U);
  EXPECT_EQ(word::bytes(free), 1024U);
  EXPECT_EQ(word::growth(free), -2);
  tape.set_apart();
  EXPECT_NE(tape[tape.op() - 1] & word::kApart, 0U);
}

TEST(StepTape, RecordsNothingWhileItIsOff) {
  StepTape tape;
  Block block{};
  tape.allocated(block, 5);
  EXPECT_FALSE(tape.is_on());
  EXPECT_TRUE(tape.is_due());
  EXPECT_EQ(tape.op(), 1U);
}

}  // namespace
}  // namespace gpuwarden::memory
