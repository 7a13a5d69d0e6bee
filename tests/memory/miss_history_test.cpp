// SPDX-License-Identifier: Apache-2.0
// What tells repeating work and random requests apart.
#include "memory/miss_history.hpp"

#include <gtest/gtest.h>

namespace gpuwarden::memory {
namespace {

/// A cycle that asks for these sizes, and finds no block for the last one.
void cycle(MissHistory& history, std::initializer_list<Grains> sizes) {
  for (const Grains size : sizes) history.request(size);
  history.miss(*(sizes.end() - 1));
}

TEST(MissHistory, CountsCyclesInWhichOnlyKnownSizesMiss) {
  MissHistory history;
  cycle(history, {8, 16});
  EXPECT_EQ(history.end_cycle(), 0U) << "nothing is known in the first";
  for (unsigned repeats = 1; repeats < 6; ++repeats) {
    cycle(history, {8, 16});
    EXPECT_EQ(history.repeats(), repeats);
    EXPECT_EQ(history.end_cycle(), repeats);
  }
}

TEST(MissHistory, BeginsAnewWhenAStrangeSizeMisses) {
  MissHistory history;
  for (int i = 0; i < 4; ++i) {
    cycle(history, {8, 16});
    history.end_cycle();
  }
  cycle(history, {8, 16});
  history.miss(17);
  EXPECT_EQ(history.repeats(), 0U);
  EXPECT_EQ(history.end_cycle(), 0U);
  cycle(history, {8, 16});
  EXPECT_EQ(history.end_cycle(), 1U);
}

TEST(MissHistory, TakesASizeOfZeroForStrange) {
  MissHistory history;
  for (int i = 0; i < 4; ++i) {
    cycle(history, {8, 16});
    history.end_cycle();
  }
  cycle(history, {8, 16});
  history.miss(0);
  EXPECT_EQ(history.repeats(), 0U);
}

TEST(MissHistory, ForgetsSizesThatAreLongPast) {
  MissHistory history;
  cycle(history, {8, 16});
  for (int i = 0; i < 8; ++i) history.end_cycle();
  cycle(history, {8, 16});
  EXPECT_EQ(history.repeats(), 0U);
}

TEST(Shortage, BearsMovesThatAreFarApart) {
  Shortage shortage;
  for (std::uint64_t allocations = 0; allocations < 1'000'000; allocations += 200)
    shortage.happened(allocations, false);
  EXPECT_EQ(shortage.permille(), 0U);
}

TEST(Shortage, GrowsInStepsWhileMovesAreClose) {
  Shortage shortage;
  std::uint64_t last = 0;
  unsigned steps = 0;
  for (std::uint64_t allocations = 0; allocations < 200; allocations += 5) {
    shortage.happened(allocations, false);
    EXPECT_GE(shortage.permille(), last);
    steps += shortage.permille() > last ? 1 : 0;
    last = shortage.permille();
  }
  EXPECT_GE(steps, 2U);
  EXPECT_GT(last, 100U);
  shortage.forget();
  EXPECT_EQ(shortage.permille(), 0U);
}

TEST(Shortage, IsMorePatientWhereSizesComeBack) {
  Shortage random;
  Shortage known;
  for (std::uint64_t allocations = 0; allocations < 500; allocations += 10) {
    random.happened(allocations, false);
    known.happened(allocations, true);
  }
  EXPECT_GT(random.permille(), 0U);
  EXPECT_EQ(known.permille(), 0U);
}

TEST(CycleLengths, AreAlikeWhereEachIsAboutAsLongAsTheOneBefore) {
  CycleLengths lengths;
  EXPECT_FALSE(lengths.are_alike());
  lengths.end(800);
  EXPECT_FALSE(lengths.are_alike()) << "there is no cycle before the first";
  lengths.end(1590);
  EXPECT_TRUE(lengths.are_alike());
  lengths.end(1700);
  EXPECT_FALSE(lengths.are_alike());
}

TEST(Swings, BearMovesThatAreFewOrFarApart) {
  Swings swings;
  swings.moved(100, 1000, 1000);
  EXPECT_EQ(swings.pages(), 0U) << "a tenth of the peak";
  for (std::uint64_t allocations = 1'000'000; allocations < 100'000'000; allocations += 1'000'000)
    swings.moved(100, allocations, 1000);
  EXPECT_EQ(swings.pages(), 0U);
}

TEST(Swings, KeepWhatMovesCostButNotTooMuch) {
  Swings swings;
  swings.moved(100, 1000, 1000);
  swings.moved(10, 1100, 1000);
  EXPECT_EQ(swings.pages(), 10U);
  for (std::uint64_t allocations = 2000; allocations < 20'000; allocations += 100) swings.moved(10, allocations, 1000);
  EXPECT_EQ(swings.pages(), 30U) << "3 % of the peak";
}

}  // namespace
}  // namespace gpuwarden::memory
