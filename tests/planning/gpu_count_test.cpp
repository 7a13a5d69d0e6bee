// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/gpu_count.hpp"

#include <array>

#include "gpuwarden/planning/catalog.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::planning {
namespace {

using namespace gpuwarden::testing;

constexpr auto kOneToFour = std::to_array<std::uint32_t>({1, 2, 3, 4});

/// Misfits on one, tight on two, with room in another framework on three, with room on four.
std::optional<Candidate> by_count(std::uint32_t gpus) {
  if (gpus == 1) return std::nullopt;
  Candidate candidate{.fit = gpus == 2 ? Fit::tight : Fit::fits};
  candidate.other_framework = gpus == 3;
  return candidate;
}

TEST(GpuCount, TheFirstWithRoomIsTakenElseTheBestOfTheRest) {
  const auto count = choose_count({}, kOneToFour, by_count);
  ASSERT_TRUE(count);
  EXPECT_EQ(count->gpus, 4U);
  EXPECT_EQ(choose_count({}, std::span(kOneToFour).first(3), by_count)->gpus, 2U) << "tight before another framework";
  EXPECT_FALSE(choose_count({}, std::span(kOneToFour).first(1), by_count));
  EXPECT_EQ(choose_count({.estimated = true}, kOneToFour, by_count)->gpus, 2U) << "a guess is no reason for more";
}

std::uint32_t gpus_for(const char* model, const char* task, const char* gpus) {
  const auto shape = find_model(model);
  const auto group = gpus_named(gpus);
  EXPECT_THAT(shape, IsOk());
  EXPECT_THAT(group, IsOk());
  Words words;
  words.set("task", {task});
  const auto work = workload_from(*shape, words, "");
  EXPECT_THAT(work, IsOk());
  const auto count = count_gpus_for(*work, *group);
  return count ? count->gpus : 0;
}

TEST(GpuCount, AModelIsCountedByItsShape) {
  EXPECT_EQ(gpus_for("llama-3-8b", "train", "64xh100"), 3U) << "on fewer it is tight";
  EXPECT_EQ(gpus_for("llama-3-8b", "train", "2xh100"), 1U) << "the first of two on which it is";
  EXPECT_EQ(gpus_for("qwen3-235b-a22b", "serve", "64xh100"), 8U);
  EXPECT_EQ(gpus_for("llama-3.1-405b", "serve", "64xh100"), 16U) << "whole nodes beyond one";
  EXPECT_EQ(gpus_for("llama-3.1-405b", "train", "8xh100"), 0U);
}

TEST(GpuCount, WhatHelpsIsNamedCheapestFirst) {
  Search search;
  EXPECT_TRUE(ways_to_fit(search).empty());
  search.changes = {{.what = "use 8-bit AdamW", .candidate = {.name = "FSDP over 8"}}};
  EXPECT_EQ(ways_to_fit(search), std::vector<std::string>{"use 8-bit AdamW (FSDP over 8: 0 B of each)"});
}

}  // namespace
}  // namespace gpuwarden::planning
