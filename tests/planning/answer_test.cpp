// SPDX-License-Identifier: Apache-2.0
// The whole answer, as applications get it.
#include "gpuwarden/planning/answer.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "gpuwarden/planning/catalog.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::planning {
namespace {

using gpuwarden::testing::FailsWith;
using gpuwarden::testing::IsOk;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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

TEST(Answer, OnlyReplicasShareMegatronsOptimizer) {
  PlanRequest request = asking("llama-3.1-8b", "pretrain", "8xh100");
  Settings& settings = request.work.settings;
  settings.framework = Framework::megatron;
  settings.parallel = {.tensor = 4, .sharding = Sharding::zero1};
  request.work.fixed_strategy = request.work.usual_sharding = true;
  const auto two = answer(request);
  ASSERT_THAT(two, IsOk());
  EXPECT_THAT(two->notes, ::testing::Contains(HasSubstr("--use-distributed-optimizer")));
  EXPECT_EQ(two->best().settings.parallel.sharding, Sharding::zero1);
  settings.parallel.tensor = 8;
  const auto one = answer(request);
  ASSERT_THAT(one, IsOk());
  EXPECT_THAT(one->notes, Not(::testing::Contains(HasSubstr("--use-distributed-optimizer"))));
  EXPECT_EQ(one->best().settings.parallel.sharding, Sharding::none);
  request.work.usual_sharding = false;
  EXPECT_EQ(answer(request)->best().settings.parallel.sharding, Sharding::zero1) << "as it was asked for";
  request.work.usual_sharding = true;
  request.work.model = find_model("llama-3.1-70b").value();
  const auto large = answer(request);
  ASSERT_THAT(large, IsOk());
  EXPECT_FALSE(large->fits);
  EXPECT_TRUE(large->search.smallest_gpus) << "more replicas do share the optimizer";
}

TEST(Answer, AnEngineHasAPoolAndNoSpeed) {
  const auto plan = answer(asking("llama-3.1-8b", "serve", "h100"));
  ASSERT_THAT(plan, IsOk());
  EXPECT_TRUE(plan->fits);
  ASSERT_TRUE(plan->pool);
  EXPECT_GT(plan->pool->tokens, 100'000U);
  EXPECT_FALSE(plan->speed || plan->loading);
}

TEST(Answer, VllmWorksOnMoreAtATimeOnLargeGpusButA100s) {
  const auto activations = [](const char* gpus, std::uint32_t tokens, std::uint32_t requests) {
    PlanRequest request = asking("llama-3.1-8b", "serve", gpus);
    request.work.batched_tokens = tokens;
    request.work.max_requests = requests;
    return answer(request)->pool->activations;
  };
  EXPECT_EQ(activations("h100", 0, 0), activations("h100", 8192, 1024));
  EXPECT_EQ(activations("a100", 0, 0), activations("a100", 2048, 256));
  EXPECT_EQ(activations("l4", 0, 0), activations("l4", 2048, 256));
}

TEST(Answer, AnEngineThatShortensRequestsFitsWithWhatItsPoolHolds) {
  PlanRequest request = asking("llama-3.1-8b", "serve", "rtx4090");
  request.work.settings.sequence = 131'072;
  request.work.length = Length::window;
  const auto whole = answer(request);
  EXPECT_FALSE(whole->fits);
  ASSERT_TRUE(whole->longest_request);
  request.work.length = Length::fitted;
  const auto fitted = answer(request);
  EXPECT_TRUE(fitted->fits);
  EXPECT_EQ(fitted->best().settings.sequence, *whole->longest_request);
  const ModelFigures figures = figures_of(request.work.model);
  EXPECT_EQ(best_strategy(figures, request.work, request.gpus, 8)->settings.sequence, *whole->longest_request);
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

TEST(Serving, AWindowedModelFitsWhereItsPoolHoldsARequest) {
  // One arithmetic: the count of requests, and whether there is room for one.
  int windowed = 0;
  for (const char* model : {"gemma-3-27b-it", "mistral-7b-v0.1", "phi-3-mini-4k-instruct", "gpt-oss-20b"}) {
    for (const char* gpus : {"l4", "rtx4090", "h100"}) {
      PlanRequest request = asking(model, "serve", gpus);
      request.work.settings.sequence = 131'072;
      const auto plan = answer(request);
      ASSERT_THAT(plan, IsOk()) << model;
      EXPECT_EQ(plan->fits, plan->pool->requests >= 1) << model << gpus;
      const auto best = best_strategy(plan->figures, request.work, request.gpus, 8);
      EXPECT_EQ(best->fit != Fit::does_not_fit, plan->fits) << model << gpus;
      const ModelShape& shape = plan->figures.shape;
      const double all_layers = 2.0 * static_cast<double>(kv_elements_per_layer(shape)) * shape.layers;
      if (plan->fits && plan->pool->cache < 131'072 * all_layers) ++windowed;
      EXPECT_EQ(plan->fits, plan->pool->tokens >= 131'072U) << model << gpus;
      EXPECT_TRUE(!plan->fits || plan->search.changes.empty());
    }
  }
  EXPECT_GT(windowed, 0) << "a window's layers hold more than their tokens say";
}

TEST(Calibrated, TakesTheRecomputationThatWasMeasured) {
  PlanRequest request = asking("llama-3.1-8b", "train", "8xh100");
  request.work.settings.parallel.sharding = Sharding::fsdp2;
  request.work.fixed_strategy = true;
  request.work.fixed_micro_batch = true;
  request.measured = {{1, 46_GiB}, {2, 72_GiB}};
  const auto plan = answer(request);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->best().settings.recompute, Recompute::none);
  EXPECT_DOUBLE_EQ(plan->best().estimate.allocated, static_cast<double>((46_GiB).value));
  EXPECT_THAT(plan->calibration->note, HasSubstr("none is nearest to the measured growth"));
  request.work.fixed_recompute = true;
  request.work.settings.recompute = Recompute::full;
  EXPECT_THAT(answer(request)->calibration->note, Not(HasSubstr("nearest")));
}

TEST(Answer, MegatronsOffloadingIsRefusedAndNothingIsPlannedThatIs) {
  for (const Offload offload : {Offload::optimizer, Offload::all}) {
    PlanRequest request = asking("llama-3.1-8b", "train", "8xh100");
    request.work.settings.parallel.offload = offload;
    const auto fine = answer(request);
    ASSERT_THAT(fine, IsOk());
    for (const Candidate& candidate : fine->search.candidates) {
      EXPECT_LT(candidate.estimate.expected(), 1e15) << candidate.name;
      EXPECT_NE(candidate.settings.framework, Framework::megatron) << candidate.name;
    }
    request.work.settings.framework = Framework::megatron;
    EXPECT_THAT(answer(request), FailsWith(ErrorCode::invalid_argument, HasSubstr("Megatron keeps on the host")));
  }
}

TEST(Answer, FewNodesOfOneGpuAreSearchedInSteps) {
  PlanRequest request = asking("llama-3.1-70b", "train", "1xt4");
  request.gpus_per_node = 1;
  const auto plan = answer(request);
  ASSERT_THAT(plan, IsOk());
  EXPECT_FALSE(plan->fits);
  EXPECT_LT(plan->search.searched, 2'000'000U);
}

TEST(Calibrated, WhatWouldMakeItFitRestsOnWhatWasMeasured) {
  PlanRequest request = asking("llama-3.1-8b", "train", "8xh100");
  request.work.settings.parallel.sharding = Sharding::fsdp2;
  request.work.settings.recompute = Recompute::none;
  request.work.fixed_strategy = request.work.fixed_recompute = request.work.fixed_micro_batch = true;
  request.work.settings.micro_batch = 4;
  request.measured = {{1, 46_GiB}, {2, 72_GiB}};
  const auto plan = answer(request);
  ASSERT_THAT(plan, IsOk());
  EXPECT_FALSE(plan->fits);
  ASSERT_FALSE(plan->search.changes.empty());
  bool smaller = false;
  for (const Change& change : plan->search.changes) {
    EXPECT_NE(change.candidate.settings, plan->best().settings) << change.what;
    EXPECT_NE(judge(change.candidate.estimate, {request.gpus.usable}), Fit::does_not_fit) << change.what;
    if (change.candidate.settings.micro_batch != 1 || change.what != "use a smaller micro-batch") continue;
    smaller = true;
    EXPECT_DOUBLE_EQ(change.candidate.estimate.allocated, static_cast<double>((46_GiB).value));
  }
  EXPECT_TRUE(smaller);
  EXPECT_FALSE(plan->search.smallest_gpus) << "nobody measured other counts";
  request.work.fixed_recompute = false;
  const auto guessed = answer(request);
  ASSERT_THAT(guessed, IsOk());
  std::set<std::string> words;
  for (const Change& change : guessed->search.changes) {
    EXPECT_FALSE(change.what.contains("none recomputation")) << change.what;
    EXPECT_TRUE(words.insert(change.what).second) << change.what << " twice";
  }
  request.work.fixed_recompute = true;
  // Ten times what the equations give: what only they would make fit is not offered.
  request.measured = {{1, 500_GiB}, {2, 900_GiB}};
  const auto huge = answer(request);
  ASSERT_THAT(huge, IsOk());
  for (const Change& change : huge->search.changes)
    EXPECT_NE(judge(change.candidate.estimate, {request.gpus.usable}), Fit::does_not_fit) << change.what;
}

TEST(Answer, HeadsThatCannotBeSharedAreNamed) {
  PlanRequest request = asking("gpt2-xl", "train", "2xh100");
  request.work.settings.parallel.tensor = 2;
  request.work.fixed_strategy = true;
  const auto plan = answer(request);
  EXPECT_THAT(plan, FailsWith(ErrorCode::unsatisfied, HasSubstr("25 attention heads")));
  EXPECT_EQ(plan.error().hint, "--tensor-parallel 1, 5, 25");
}

TEST(Answer, TypesThatAGpuHasNotAreSaid) {
  const auto notes = [](const char* gpus, Quantization quantization, double kv_bytes) {
    PlanRequest request = asking("qwen2.5-0.5b", "inference", gpus);
    request.work.settings.quantization = quantization;
    request.work.settings.kv_bytes = kv_bytes;
    const auto plan = answer(request);
    EXPECT_THAT(plan, IsOk());
    std::string all = plan->best().settings.precision == Precision::fp16 ? "fp16;" : "";
    for (const std::string& note : plan->notes) all += note + ";";
    return all;
  };
  EXPECT_EQ(notes("h100", Quantization::fp8, 1), "");
  EXPECT_EQ(notes("a100", Quantization::none, 2), "");
  EXPECT_THAT(notes("t4", Quantization::none, 2), AllOf(HasSubstr("fp16;"), HasSubstr("has no bf16")));
  EXPECT_THAT(notes("a100", Quantization::fp8, 2), HasSubstr("fp8 weights spare memory"));
  EXPECT_THAT(notes("v100", Quantization::fp8, 2), HasSubstr("from compute capability 8.0 on"));
  EXPECT_THAT(notes("a100", Quantization::none, 1), HasSubstr("KV cache is converted"));
}

TEST(Answer, WhatIsKeptWithoutRecomputationIsNotCalledCheckpoints) {
  PlanRequest request = asking("gpt2", "train", "h100");
  request.work.fixed_recompute = true;
  const auto names = [&](Recompute recompute) {
    request.work.settings.recompute = recompute;
    std::string all;
    const auto plan = answer(request);
    for (const ExplainedUse& line : plan->lines) all += line.name + ";";
    return all;
  };
  EXPECT_THAT(names(Recompute::none), AllOf(HasSubstr("activations;"), Not(HasSubstr("checkpoints"))));
  EXPECT_THAT(names(Recompute::full), AllOf(HasSubstr("checkpoints;"), Not(HasSubstr("activations"))));
}

TEST(Calibrated, AnEngineHasNoMicroBatchesToMeasure) {
  PlanRequest request = asking("llama-3.1-8b", "serve", "h100");
  request.measured = {{1, 20_GiB}, {2, 25_GiB}};
  EXPECT_THAT(answer(request), FailsWith(ErrorCode::invalid_argument, HasSubstr("--calibrate")));
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
  Workload llama = serving.work;
  llama.engine = Engine::llama_cpp;
  llama.serving_utilization = 1;
  EXPECT_LT(needed_free(llama, *served, Bytes(1'000'000'000'000)), Bytes(100'000'000'000)) << "it takes no share";
}

}  // namespace
}  // namespace gpuwarden::planning
