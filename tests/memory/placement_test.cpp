// SPDX-License-Identifier: Apache-2.0
#include "memory/steps/placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace gpuwarden::memory {
namespace {

/// `count` blocks whose births and deaths are a random order of 2 * count operations; sorted by birth.
std::vector<PlannedBlock> random_blocks(unsigned count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint32_t> operations(2 * count);
  for (std::uint32_t i = 0; i < operations.size(); ++i) operations[i] = i;
  std::ranges::shuffle(operations, random);
  std::vector<PlannedBlock> blocks;
  for (unsigned i = 0; i < count; ++i) {
    const auto [born, gone] = std::minmax(operations[2 * i], operations[2 * i + 1]);
    blocks.push_back({.size = 1 + static_cast<Grains>(random() % (1U << (random() % 14))), .born = born, .gone = gone});
  }
  std::ranges::sort(blocks, {}, &PlannedBlock::born);
  return blocks;
}

std::vector<PlannedBlock> nested_blocks(unsigned depth) {
  std::vector<PlannedBlock> blocks;
  for (unsigned i = 0; i < depth; ++i) blocks.push_back({.size = 1 + i * 7 % 50, .born = i, .gone = 2 * depth - 1 - i});
  return blocks;
}

Grains peak_of(const std::vector<PlannedBlock>& blocks) {
  Grains peak = 0;
  for (const PlannedBlock& at : blocks) {
    Grains live = 0;
    for (const PlannedBlock& block : blocks)
      if (block.born <= at.born && at.born < block.gone) live += block.size;
    peak = std::max(peak, live);
  }
  return peak;
}

void expect_sound(const std::vector<PlannedBlock>& blocks, Grains room) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const PlannedBlock& a = blocks[i];
    ASSERT_LE(a.start + a.size, room);
    for (std::size_t j = 0; j < i; ++j) {
      const PlannedBlock& b = blocks[j];
      const bool together = a.born < b.gone && b.born < a.gone;
      ASSERT_FALSE(together && a.start < b.start + b.size && b.start < a.start + a.size) << i << " and " << j;
    }
  }
}

using Method = bool (*)(std::span<PlannedBlock>, Grains, PlacementBudget&);

class Placement : public ::testing::TestWithParam<Method> {};
INSTANTIATE_TEST_SUITE_P(Both, Placement, ::testing::Values(&place_by_time, &place_by_size));

TEST_P(Placement, KeepsBlocksThatLiveAtOnceApart) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    auto blocks = random_blocks(300, seed);
    const Grains room = peak_of(blocks) + peak_of(blocks) / 2;
    PlacementBudget budget;
    ASSERT_TRUE(GetParam()(blocks, room, budget)) << seed;
    expect_sound(blocks, room);
  }
}

TEST_P(Placement, SaysSoWhereEvenThePeakDoesNotFit) {
  auto blocks = random_blocks(100, 3);
  PlacementBudget budget;
  EXPECT_FALSE(GetParam()(blocks, peak_of(blocks) - 1, budget));
  EXPECT_FALSE(GetParam()(blocks, 0, budget));
}

TEST_P(Placement, EndsWhenItCostsTooMuch) {
  auto blocks = random_blocks(300, 1);
  PlacementBudget budget{.left = 50};
  EXPECT_FALSE(GetParam()(blocks, 2 * peak_of(blocks), budget));
  EXPECT_LE(budget.left, 50U);
}

TEST_P(Placement, NothingNeedsNoRoom) {
  PlacementBudget budget;
  EXPECT_TRUE(GetParam()({}, 0, budget));
}

TEST(PlaceByTime, NestedLivesNeedNoMoreThanTheirPeak) {
  auto blocks = nested_blocks(400);
  const Grains peak = peak_of(blocks);
  PlacementBudget budget;
  ASSERT_TRUE(place_by_time(blocks, peak, budget));
  expect_sound(blocks, peak);
}

TEST(PlaceBySize, EqualSizesNeedNoMoreThanTheirPeak) {
  // Intervals of equal size are an interval graph's colouring.
  auto blocks = random_blocks(200, 5);
  for (PlannedBlock& block : blocks) block.size = 8;
  const Grains peak = peak_of(blocks);
  PlacementBudget budget;
  ASSERT_TRUE(place_by_size(blocks, peak, budget));
  expect_sound(blocks, peak);
}

}  // namespace
}  // namespace gpuwarden::memory
