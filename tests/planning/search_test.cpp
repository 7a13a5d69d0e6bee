// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/search.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "planning/search_parts.hpp"
#include "planning/shapes.hpp"

namespace gpuwarden::planning {
namespace {

using testing::a100_80gb;
using testing::kTestGiB;

SearchRequest request_for(std::uint32_t gpus) {
  SearchRequest request;
  request.gpu = a100_80gb();
  request.gpus = gpus;
  request.settings.sequence = 4096;
  return request;
}

Search search(const ModelShape& model, const SearchRequest& request) {
  const Result<Search> result = plan(figures_of(model), request);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result.value_or(Search{});
}

/// The best of every strategy and every micro-batch, one by one.
Candidate exhaustive_best(const ModelFigures& model, const SearchRequest& request, std::uint32_t most) {
  std::optional<Candidate> best;
  for (const Candidate& strategy : strategies(model, request)) {
    for (std::uint32_t samples = 1; samples <= most; ++samples) {
      Candidate candidate = strategy;
      candidate.settings.micro_batch = samples;
      const std::uint64_t at_once = std::uint64_t{samples} * candidate.settings.parallel.data;
      if (request.global_batch > 0) {
        candidate.settings.accumulation = static_cast<std::uint32_t>((request.global_batch + at_once - 1) / at_once);
      }
      const Result<Estimate> need = estimate(model, candidate.settings);
      if (!need) continue;
      candidate.estimate = *need;
      candidate.fit = judge(*need, request.gpu);
      candidate.seconds_per_token = seconds_per_token(model, request, candidate.settings);
      if (!best || better(candidate, *best)) best = candidate;
    }
  }
  return best.value_or(Candidate{});
}

TEST(Plan, AgreesWithExhaustiveSearchOnSmallCases) {
  for (const ModelShape& model : {testing::mistral_7b(), testing::llama3_8b(), testing::mixtral_8x7b()}) {
    for (const std::uint32_t gpus : {1U, 2U, 8U}) {
      for (const Task task : {Task::full_training, Task::adapters}) {
        SearchRequest request = request_for(gpus);
        request.settings.task = task;
        request.largest_micro_batch = 24;
        const Candidate best = exhaustive_best(figures_of(model), request, 24);
        const Search found = search(model, request);
        if (best.fit == Fit::does_not_fit) {
          EXPECT_FALSE(found.recommended);
          continue;
        }
        ASSERT_TRUE(found.recommended) << model.name << " on " << gpus;
        const Candidate& chosen = found.candidates[*found.recommended];
        EXPECT_EQ(chosen.fit, best.fit);
        EXPECT_NEAR(chosen.seconds_per_token / best.seconds_per_token, 1, 1e-9)
            << model.name << " on " << gpus << ": " << chosen.name << " against " << best.name;
      }
    }
  }
}

TEST(Plan, SaysWhyDdpIsNotChosen) {
  SearchRequest request = request_for(8);
  request.settings.precision = Precision::mixed;
  const Search found = search(testing::llama3_8b(), request);
  ASSERT_TRUE(found.recommended);
  EXPECT_TRUE(found.reason.starts_with("DDP over 8")) << found.reason;
  EXPECT_TRUE(found.reason.contains("does not fit")) << found.reason;
  EXPECT_TRUE(found.reason.contains("to spare")) << found.reason;
  EXPECT_NE(found.candidates[*found.recommended].settings.parallel.sharding, Sharding::none);
}

TEST(Plan, NamesTheSmallestNumberOfGpus) {
  // 10 bytes a parameter and more of 8 B: one A100 of 80 GB is too small for mixed precision in fp32.
  SearchRequest request = request_for(8);
  request.settings.precision = Precision::mixed;
  const Search found = search(testing::llama3_8b(), request);
  ASSERT_TRUE(found.smallest_gpus);
  EXPECT_GE(*found.smallest_gpus, 2U);
  EXPECT_LE(*found.smallest_gpus, 4U);
  // So many do, by the same search.
  request.gpus = *found.smallest_gpus;
  EXPECT_TRUE(search(testing::llama3_8b(), request).recommended);
  request.gpus = *found.smallest_gpus / 2;
  EXPECT_FALSE(search(testing::llama3_8b(), request).recommended);
}

TEST(Plan, OffersTheCheapestChangesFirstWhereNothingFits) {
  const Search found = search(testing::llama3_70b(), request_for(1));
  EXPECT_FALSE(found.recommended);
  EXPECT_TRUE(found.reason.starts_with("nothing fits")) << found.reason;
  ASSERT_FALSE(found.changes.empty());
  for (const Change& change : found.changes) EXPECT_NE(change.candidate.fit, Fit::does_not_fit) << change.what;
  EXPECT_TRUE(found.changes.front().what.contains("QLoRA")) << found.changes.front().what;
  EXPECT_TRUE(found.changes.back().what.contains("GPUs")) << found.changes.back().what;
}

TEST(Plan, AccumulatesUpToTheGlobalBatch) {
  SearchRequest request = request_for(8);
  request.global_batch = 1024;
  const Search found = search(testing::llama3_8b(), request);
  ASSERT_TRUE(found.recommended);
  const Settings& s = found.candidates[*found.recommended].settings;
  EXPECT_GE(std::uint64_t{s.micro_batch} * s.parallel.data * s.accumulation, 1024U);
  EXPECT_LT(std::uint64_t{s.micro_batch} * s.parallel.data * (s.accumulation - 1), 1024U);
}

TEST(Plan, NoCandidatesMicroBatchIsLargerThanWhatFits) {
  const Search found = search(testing::mistral_7b(), request_for(4));
  const auto usable = static_cast<double>(a100_80gb().usable.value);
  EXPECT_GT(found.searched, found.candidates.size());
  for (const Candidate& candidate : found.candidates) {
    EXPECT_EQ(candidate.settings.parallel.gpus(), 4U) << candidate.name;
    if (candidate.largest_micro_batch == 0) continue;
    Settings settings = candidate.settings;
    settings.micro_batch = candidate.largest_micro_batch;
    EXPECT_LE(estimate(testing::mistral_7b(), settings)->expected(), usable) << candidate.name;
    settings.micro_batch = candidate.largest_micro_batch + 1;
    EXPECT_GT(estimate(testing::mistral_7b(), settings)->expected(), usable) << candidate.name;
  }
}

TEST(Plan, InferenceIsSpreadByTensors) {
  SearchRequest request = request_for(4);
  request.settings.task = Task::serving;
  const Search found = search(testing::llama3_70b(), request);
  ASSERT_TRUE(found.recommended);
  EXPECT_EQ(found.candidates[*found.recommended].settings.parallel.tensor, 4U);
  request.gpus = 1;
  const Search alone = search(testing::llama3_70b(), request);
  EXPECT_FALSE(alone.recommended);
  ASSERT_FALSE(alone.changes.empty());
  EXPECT_TRUE(alone.changes.front().what.contains("bit")) << alone.changes.front().what;
}

TEST(Plan, AFixedMicroBatchIsKept) {
  SearchRequest request = request_for(8);
  request.micro_batch = 3;
  for (const Candidate& candidate : search(testing::llama3_8b(), request).candidates) {
    EXPECT_EQ(candidate.settings.micro_batch, 3U);
  }
}

TEST(Plan, RefusesNoGpusAndNoMemory) {
  EXPECT_FALSE(plan(figures_of(testing::llama3_8b()), request_for(0)));
  SearchRequest request = request_for(1);
  request.gpu = {};
  EXPECT_FALSE(plan(figures_of(testing::llama3_8b()), request));
}

}  // namespace
}  // namespace gpuwarden::planning
