// SPDX-License-Identifier: Apache-2.0
// Counts of GPUs: more of them are never worse, fewer are taken where all cannot share the work, and which is fewest.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "gpuwarden/planning/answer.hpp"
#include "gpuwarden/planning/catalog.hpp"
#include "planning/search_parts.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::planning {
namespace {

using gpuwarden::testing::FailsWith;
using gpuwarden::testing::IsOk;
using ::testing::HasSubstr;

PlanRequest asking(const char* model, const char* task, const char* gpu, std::uint32_t count) {
  const ModelShape shape = find_model(model).value();
  PlanRequest request{.work = {.model = shape, .settings = settings_for(shape, task).value()},
                      .gpus = gpus_named(gpu).value()};
  request.gpus.count = count;
  return request;
}

/// Whether a strategy over exactly so many fits, each with every micro-batch that the search may take, one by one.
bool fits_exactly(const PlanRequest& asked, std::uint32_t count) {
  GpuGroup gpus = asked.gpus;
  gpus.count = count;
  const ModelFigures model = figures_of(asked.work.model);
  const SearchRequest request = search_request(asked.work, gpus, asked.gpus_per_node);
  return std::ranges::any_of(strategies(model, request), [&](const Candidate& candidate) {
    const auto need = estimate(model, candidate.settings);
    return need && judge(*need, request.gpu) != Fit::does_not_fit;
  });
}

using Case = std::tuple<const char*, const char*, const char*>;  ///< model, task, GPU
const Case kOddOnes[] = {{"llama-3.1-70b", "inference", "h100"}, {"llama-3.1-70b", "inference", "rtx4090"},
                         {"mixtral-8x7b", "inference", "a100"},  {"qwen2.5-7b", "train", "a100-40gb"},
                         {"qwen2.5-32b", "train", "a100"},       {"qwen2.5-32b", "inference", "rtx4090"},
                         {"llama-2-13b", "inference", "l4"},     {"llama-3.1-8b", "lora", "l4"}};

TEST(MoreGpus, NeverMakeMisfitWhatFitsFewerOfThem) {
  int on_fewer = 0;
  for (const auto& [model, task, gpu] : kOddOnes) {
    bool any = false;  // exhaustively, of all counts up to this one
    for (std::uint32_t count = 1; count <= 13; ++count) {
      PlanRequest request = asking(model, task, gpu, count);
      request.work.fixed_micro_batch = true;
      any = any || fits_exactly(request, count);
      const auto plan = answer(request);
      ASSERT_THAT(plan, IsOk());
      EXPECT_EQ(plan->fits, any) << model << " " << task << " on " << count << " " << gpu << ": "
                                 << plan->search.reason;
      const std::uint32_t used = plan->best().settings.parallel.gpus();
      EXPECT_LE(used, count);
      if (!plan->fits || used == count) continue;
      ++on_fewer;
      EXPECT_FALSE(fits_exactly(request, count)) << model << " " << task << " on " << count << " " << gpu;
      EXPECT_THAT(plan->search.reason, HasSubstr(std::to_string(used) + " of the " + std::to_string(count) + " GPUs"));
    }
  }
  EXPECT_GT(on_fewer, 5);
}

TEST(MoreGpus, OfSeveralNodesNeitherAndServingNeither) {
  bool fitted = false;
  for (const std::uint32_t count : {40U, 48U, 56U, 64U, 72U, 96U, 100U, 104U, 128U, 192U, 1024U}) {
    PlanRequest request = asking("llama-3.1-405b", "train", "h100", count);
    request.work.settings.framework = Framework::megatron;
    const auto plan = answer(request);
    ASSERT_THAT(plan, IsOk());
    EXPECT_TRUE(plan->fits || !fitted) << count << ": " << plan->search.reason;
    fitted = plan->fits;
  }
  EXPECT_TRUE(fitted);
  fitted = false;
  for (std::uint32_t count = 1; count <= 17; ++count) {
    const auto plan = answer(asking("llama-3.1-70b", "serve", "h100", count));
    ASSERT_THAT(plan, IsOk());
    EXPECT_TRUE(plan->fits || !fitted) << count << ": " << plan->search.reason;
    fitted = plan->fits;
  }
  EXPECT_TRUE(fitted);
}

TEST(FewerGpus, ACopyTakesWhatItsHeadsCanShare) {
  const std::map<std::uint32_t, std::uint32_t> served{{3, 2}, {5, 4}, {6, 2}, {7, 4}};
  for (const auto& [count, used] : served) {
    const auto plan = answer(asking("llama-3.1-70b", "serve", "h200", count));
    ASSERT_THAT(plan, IsOk());
    EXPECT_TRUE(plan->fits) << count << ": " << plan->search.reason;
    EXPECT_EQ(plan->best().settings.parallel.gpus(), used) << count;
    EXPECT_THAT(plan->search.reason, HasSubstr("a copy takes " + std::to_string(used) + " of the"));
  }
}

TEST(FewerGpus, AreBestStrategysToo) {
  for (const auto& [model, task, gpu] : kOddOnes) {
    for (const std::uint32_t count : {3U, 5U, 7U}) {
      const PlanRequest request = asking(model, task, gpu, count);
      const auto plan = answer(request);
      const auto best = best_strategy(figures_of(request.work.model), request.work, request.gpus, 8);
      ASSERT_THAT(plan, IsOk());
      if (!plan->fits) continue;
      ASSERT_TRUE(best) << model << " " << task << " on " << count;
      EXPECT_EQ(best->settings, plan->best().settings) << model << " " << task << " on " << count;
      EXPECT_EQ(best->fit, plan->best().fit);
    }
  }
}

TEST(FewerGpus, AreNotTakenForAStrategyThatWasGiven) {
  PlanRequest request = asking("llama-3.1-8b", "train", "h100", 8);
  request.work.settings.precision = Precision::mixed;
  request.work.fixed_strategy = true;
  const auto plan = answer(request);
  ASSERT_THAT(plan, IsOk());
  EXPECT_FALSE(plan->fits);
  EXPECT_EQ(plan->best().settings.parallel.data, 8U);
}

TEST(FewestGpus, AreToldWithAndWithoutRoom) {
  const auto plan = answer(asking("llama-3.1-8b", "train", "h100", 8));
  ASSERT_THAT(plan, IsOk());
  ASSERT_TRUE(plan->search.smallest_gpus && plan->search.roomy_gpus);
  EXPECT_LT(*plan->search.smallest_gpus, *plan->search.roomy_gpus) << "one GPU is tight";
  for (std::uint32_t count = 1; count <= *plan->search.roomy_gpus; ++count) {
    PlanRequest request = asking("llama-3.1-8b", "train", "h100", count);
    request.work.fixed_micro_batch = true;
    const auto on = answer(request);
    ASSERT_THAT(on, IsOk());
    EXPECT_EQ(on->fits, count >= *plan->search.smallest_gpus) << count;
    EXPECT_EQ(on->fits && on->best().fit == Fit::fits, count == *plan->search.roomy_gpus) << count;
    EXPECT_EQ(on->search.roomy_gpus, plan->search.roomy_gpus) << count;
  }
}

TEST(TightPlans, TakeNoLargerMicroBatchThanPays) {
  PlanRequest request = asking("llama-2-7b", "train", "h200", 1);
  request.work.settings.precision = Precision::mixed;
  request.work.fixed_recompute = true;
  const auto plan = answer(request);
  ASSERT_THAT(plan, IsOk());
  const Candidate& best = plan->best();
  ASSERT_EQ(best.fit, Fit::tight);
  EXPECT_LE(2 * best.settings.micro_batch, best.largest_micro_batch + 1);
  const SearchRequest search = search_request(request.work, request.gpus, 8);
  Settings largest = best.settings;
  largest.micro_batch = best.largest_micro_batch;
  const double least = seconds_per_token(plan->figures, search, largest);
  EXPECT_LE(best.seconds_per_token, 1.02 * least);
  Settings half = best.settings;
  half.micro_batch /= 2;
  EXPECT_GT(seconds_per_token(plan->figures, search, half), 1.02 * least) << "and no smaller one than that";
}

TEST(UnsharedHeads, AreNamed) {
  PlanRequest request = asking("gpt2-xl", "train", "h100", 2);
  request.work.fixed_strategy = true;
  request.work.settings.parallel.tensor = 2;
  const auto plan = answer(request);
  EXPECT_THAT(plan, FailsWith(ErrorCode::unsatisfied, HasSubstr("25 attention heads cannot be")));
  EXPECT_THAT(plan.error().hint, HasSubstr("1, 5"));
}

TEST(Stages, NeedNotDivideTheLayers) {
  // 126 layers over 16 stages: 8 of most, 7 of two.
  PlanRequest request = asking("llama-3.1-405b", "train", "h100", 1024);
  request.work.settings.framework = Framework::megatron;
  request.work.settings.sequence = 8192;
  const auto plan = answer(request);
  ASSERT_THAT(plan, IsOk());
  EXPECT_TRUE(plan->fits) << plan->search.reason;
  const auto depth = [&](std::uint32_t stages) {
    return std::ranges::any_of(plan->search.candidates, [&](const Candidate& candidate) {
      return candidate.settings.parallel.pipeline == stages && candidate.fit != Fit::does_not_fit;
    });
  };
  EXPECT_TRUE(depth(16));
  EXPECT_FALSE(depth(3)) << "does not divide the GPUs";
}

}  // namespace
}  // namespace gpuwarden::planning
