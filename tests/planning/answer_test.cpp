// SPDX-License-Identifier: Apache-2.0
// The whole answer, as applications get it.
#include "gpuwarden/planning/answer.hpp"

#include <algorithm>
#include <numeric>

#include "gpuwarden/planning/catalog.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::planning {
namespace {

using gpuwarden::testing::FailsWith;
using gpuwarden::testing::IsOk;
using ::testing::HasSubstr;

PlanRequest asking(const char* model, const char* task, const char* gpus) {
  const ModelShape shape = find_model(model).value();
  return {.work = {.model = shape, .settings = settings_for(shape, task).value()}, .gpus = gpus_named(gpus).value()};
}

TEST(Answer, TellsMemoryStrategiesAndSpeed) {
  PlanRequest request = asking("llama-3.1-8b", "train", "8xh100");
  request.train_tokens = 1e9;
  request.cpus = 64;
  const auto plan = answer(request);
  ASSERT_THAT(plan, IsOk());
  EXPECT_TRUE(plan->fits);
  EXPECT_EQ(plan->count.total, 8030261248U);
  EXPECT_EQ(plan->best().settings.parallel.gpus(), 8U);
  const double sum = std::accumulate(plan->lines.begin(), plan->lines.end(), 0.0,
                                     [](double bytes, const ExplainedUse& line) { return bytes + line.bytes; });
  EXPECT_NEAR(sum, plan->best().estimate.expected(), 100.0);
  ASSERT_TRUE(plan->speed && plan->loading);
  EXPECT_GT(plan->speed->duration->count(), 0);
  EXPECT_FALSE(plan->pool);
}

TEST(Answer, AnEngineHasAPoolAndNoSpeed) {
  const auto plan = answer(asking("llama-3.1-8b", "serve", "h100"));
  ASSERT_THAT(plan, IsOk());
  EXPECT_TRUE(plan->fits);
  ASSERT_TRUE(plan->pool);
  EXPECT_GT(plan->pool->tokens, 100'000U);
  EXPECT_FALSE(plan->speed || plan->loading);
}

TEST(Answer, ACopyThatCannotUseAllGpusTakesFewer) {
  const auto plan = answer(asking("qwen2.5-7b", "serve", "8xh100"));
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->best().settings.parallel.gpus(), 4U) << "28 heads";
  EXPECT_THAT(plan->search.reason, HasSubstr("4 of the 8 GPUs"));
}

TEST(Answer, AnEngineWhosePoolHoldsNoRequestDoesNotFit) {
  PlanRequest request = asking("llama-3.1-70b", "serve", "2xh100");
  request.work.serving_utilization = 0.8;
  const auto plan = answer(request);
  ASSERT_THAT(plan, IsOk());
  EXPECT_FALSE(plan->fits);
  ASSERT_TRUE(plan->search.smallest_gpus);
  request.gpus.count = *plan->search.smallest_gpus;
  EXPECT_TRUE(answer(request)->fits);
}

TEST(Answer, TheFewestGpusOfAnEngineHoldARequestWhetherOrNotThesePlansFit) {
  for (const char* gpus : {"1xl4", "2xl4", "4xl4", "8xl4"}) {
    PlanRequest request = asking("llama-3.1-8b", "serve", gpus);
    request.work.serving_utilization = 0.65;
    const auto plan = answer(request);
    ASSERT_THAT(plan, IsOk());
    ASSERT_TRUE(plan->search.smallest_gpus);
    const std::uint32_t fewest = *plan->search.smallest_gpus;
    EXPECT_EQ(plan->fits, request.gpus.count >= fewest) << gpus;
    request.gpus.count = fewest;
    EXPECT_TRUE(answer(request)->fits) << gpus;
    ASSERT_GT(fewest, 1U) << "65% of 24 GB less the weights holds no request";
    request.gpus.count = 1;
    EXPECT_FALSE(answer(request)->fits) << gpus;
  }
}

TEST(Answer, ChangesOfAnEngineLeaveRoomForARequest) {
  const auto plan = answer(asking("llama-3.1-70b", "serve", "h100"));
  ASSERT_THAT(plan, IsOk());
  EXPECT_FALSE(plan->fits) << "the weights alone are too many";
  ASSERT_TRUE(plan->search.smallest_gpus);
  ASSERT_FALSE(plan->search.changes.empty());
  for (const Change& change : plan->search.changes) EXPECT_NE(change.candidate.fit, Fit::does_not_fit) << change.what;
  const std::string more = "use " + std::to_string(*plan->search.smallest_gpus) + " GPUs";
  EXPECT_TRUE(std::ranges::any_of(plan->search.changes, [&](const Change& change) { return change.what == more; }));
}

TEST(Answer, WhatContradictsItselfIsRefused) {
  PlanRequest request = asking("llama-3.1-8b", "train", "8xh100");
  request.work.fixed_strategy = true;
  request.work.settings.parallel.tensor = 3;
  EXPECT_THAT(answer(request), FailsWith(ErrorCode::invalid_argument, HasSubstr("cannot be divided")));
  request = asking("llama-3.1-8b", "train", "8xh100");
  request.work.settings.quantization = Quantization::nf4;
  EXPECT_THAT(answer(request), FailsWith(ErrorCode::invalid_argument, HasSubstr("cannot be trained")));
  request = asking("llama-3.1-8b", "train", "8xh100");
  request.gpus.usable = Bytes{};
  EXPECT_THAT(answer(request), FailsWith(ErrorCode::invalid_argument, HasSubstr("no memory")));
  request = asking("llama-3.1-8b", "train", "8xh100");
  request.measured = {{1, Bytes(20'000'000'000)}, {2, Bytes(25'000'000'000)}};
  EXPECT_THAT(answer(request), FailsWith(ErrorCode::invalid_argument, HasSubstr("not named")));
}

TEST(Answer, OffloadingTakesAStrategyThatCan) {
  PlanRequest request = asking("llama-3.1-8b", "train", "4xa100");
  request.work.settings.parallel.offload = Offload::optimizer;
  const auto plan = answer(request);
  ASSERT_THAT(plan, IsOk());
  EXPECT_NE(plan->best().settings.parallel.sharding, Sharding::none);
  EXPECT_GT(plan->best().estimate.host, 0);
}

TEST(BestStrategy, IsTheOneThatTheWholeAnswerRecommends) {
  for (const char* model : {"gpt2", "llama-3.1-8b", "mixtral-8x7b", "llama-3.1-70b"}) {
    for (const char* task : {"train", "lora", "inference"}) {
      for (const char* gpus : {"rtx4090", "2xa100", "8xh100"}) {
        const PlanRequest request = asking(model, task, gpus);
        const auto plan = answer(request);
        const auto best = best_strategy(figures_of(request.work.model), request.work, request.gpus, 8);
        ASSERT_THAT(plan, IsOk());
        ASSERT_TRUE(best) << model << task << gpus;
        EXPECT_EQ(best->name, plan->best().name) << model << task << gpus;
        EXPECT_EQ(best->estimate, plan->best().estimate) << model << task << gpus;
        EXPECT_EQ(best->fit != Fit::does_not_fit, plan->fits) << model << task << gpus;
      }
    }
  }
}

TEST(BestStrategy, TheProgramsOwnFrameworkGoesFirst) {
  PlanRequest request = asking("llama-3.1-8b", "train", "2xh100");
  request.work.fixed_micro_batch = true;
  const ModelFigures figures = figures_of(request.work.model);
  int passed_over = 0;
  for (std::uint64_t gib = 20; gib <= 120; ++gib) {
    request.gpus.usable = Bytes(gib << 30U);
    const auto plan = answer(request);
    const auto best = best_strategy(figures, request.work, request.gpus, 8);
    ASSERT_TRUE(plan && best) << gib;
    const bool own_fits = std::ranges::any_of(plan->search.candidates, [](const Candidate& candidate) {
      return candidate.fit != Fit::does_not_fit && !candidate.other_framework;
    });
    EXPECT_EQ(best->fit != Fit::does_not_fit, plan->fits) << gib;
    EXPECT_TRUE(!plan->fits || best->other_framework == !own_fits) << gib;
    EXPECT_EQ(best->name, plan->best().name) << gib;
    const bool roomier = std::ranges::any_of(plan->search.candidates, [](const Candidate& candidate) {
      return candidate.fit == Fit::fits && candidate.other_framework;
    });
    if (plan->best().fit == Fit::tight && roomier) ++passed_over;
  }
  EXPECT_GT(passed_over, 0) << "tensor parallelism fits with room where FSDP is tight";
}

TEST(BestStrategy, NothingIsSharedByNoGpusOrWithoutMemory) {
  const PlanRequest request = asking("gpt2", "train", "h100");
  GpuGroup none = request.gpus;
  none.count = 0;
  EXPECT_FALSE(best_strategy(figures_of(request.work.model), request.work, none, 8));
  none = request.gpus;
  none.usable = Bytes{};
  EXPECT_FALSE(best_strategy(figures_of(request.work.model), request.work, none, 8));
}

TEST(NeededFree, IsTheNeedOrAnEnginesShare) {
  const PlanRequest training = asking("gpt2", "train", "h100");
  const auto trained = best_strategy(figures_of(training.work.model), training.work, training.gpus, 8);
  EXPECT_EQ(needed_free(training.work, *trained, training.gpus.usable).value,
            static_cast<std::uint64_t>(trained->estimate.expected()));
  const PlanRequest serving = asking("gpt2", "serve", "h100");
  const auto served = best_strategy(figures_of(serving.work.model), serving.work, serving.gpus, 8);
  EXPECT_EQ(needed_free(serving.work, *served, Bytes(1'000'000'000'000)), Bytes(900'000'000'000));
  EXPECT_GT(needed_free(serving.work, *served, Bytes(1)), Bytes(1)) << "the weights, at least";
}

}  // namespace
}  // namespace gpuwarden::planning
