// SPDX-License-Identifier: Apache-2.0
// As many GPUs as a model needs: placement joined with planning.
#include "gpuwarden/placement/model_fit.hpp"

#include <algorithm>
#include <random>

#include "gpuwarden/placement/select.hpp"
#include "gpuwarden/planning/catalog.hpp"
#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"
#include "support/repetitions.hpp"

namespace gpuwarden::placement {
namespace {

using namespace gpuwarden::testing;
using planning::Fit;
using planning::Workload;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Workload work(const std::string& model, const std::string& task) {
  const auto shape = planning::find_model(model).value();
  return {.model = shape, .settings = planning::settings_for(shape, task).value()};
}

class ModelFits : public ::testing::Test {
 protected:
  Result<Decision> choose(const Request& request) const {
    return select(request, {snapshot_, leases_, spoken_for_, {}});
  }
  Decision decide(const Request& request) const {
    const auto decision = choose(request);
    EXPECT_THAT(decision, IsOk());
    return decision.value_or(Decision{});
  }
  static Request asking(Workload workload) {
    Request request;
    request.work = std::move(workload);
    return request;
  }
  std::vector<std::uint32_t> chosen(const Request& request) const {
    std::vector<std::uint32_t> indices;
    for (const auto& device : decide(request).selected) indices.push_back(device.index.value);
    return indices;
  }
  void occupy(std::size_t index, Bytes memory) {
    auto& record = snapshot_.gpus[index];
    record.sample.memory_used = memory;
    record.sample.memory_free = *record.sample.memory_total - memory;
    record.processes = {facts::GpuProcess{.pid = Pid{100}, .compute = true, .user = "bob", .command = "python x.py"}};
  }

  facts::Snapshot snapshot_ = fleet(8);
  std::vector<facts::Lease> leases_;
  std::vector<Uuid> spoken_for_;
};

TEST_F(ModelFits, ASmallModelTakesOneGpuAndSaysWhatItNeeds) {
  const Decision decision = decide(asking(work("gpt2", "train")));
  ASSERT_TRUE(decision.satisfied);
  EXPECT_EQ(decision.selected.size(), 1U);
  EXPECT_EQ(decision.strategy, Strategy::single);
  ASSERT_TRUE(decision.model);
  EXPECT_EQ(decision.model->fit, Fit::fits);
  EXPECT_EQ(decision.model->gpu, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(decision.model->room, 80_GiB);
  EXPECT_LT(decision.model->needed, 80_GiB);
  EXPECT_THAT(decision.model->reason, HasSubstr("gpt2 fits one NVIDIA H100 80GB HBM3 for full training: it needs"));
  EXPECT_THAT(decision.model->reason, HasSubstr("80.0 GiB are free"));
}

TEST_F(ModelFits, TheFewestGpusAreTakenOnWhichAStrategyFits) {
  for (const char* model : {"gpt2", "llama-3.2-1b", "llama-3.1-8b", "qwen2.5-14b", "mixtral-8x7b", "llama-3.1-70b"}) {
    for (const char* task : {"train", "lora", "inference", "serve"}) {
      Workload asked = work(model, task);
      asked.fixed_micro_batch = true;
      const auto figures = planning::figures_of(asked.model);
      auto gpus = planning::gpus_named("h100").value();
      gpus.usable = 80_GiB;
      std::optional<std::uint32_t> roomy, tight;
      for (gpus.count = 8; gpus.count > 0; --gpus.count) {
        const auto best = planning::best_strategy(figures, asked, gpus, 8);
        if (best && best->fit == Fit::fits && !best->other_framework) roomy = gpus.count;
        if (best && best->fit == Fit::tight && !best->other_framework) tight = gpus.count;
      }
      const Decision decision = decide(asking(asked));
      const auto expected = roomy ? roomy : tight;
      EXPECT_TRUE(decision.satisfied || !expected) << model << " " << task << ": " << decision.missing;
      if (expected) {
        EXPECT_EQ(decision.selected.size(), *expected) << model << " " << task;
      }
      if (roomy && decision.model) {
        EXPECT_EQ(decision.model->fit, Fit::fits) << model << " " << task;
      }
    }
  }
}

TEST_F(ModelFits, AnotherFrameworkIsALastResort) {
  Workload training = work("llama-3.1-8b", "train");
  const Decision own = decide(asking(training));
  ASSERT_TRUE(own.satisfied);
  EXPECT_FALSE(own.model->candidate.other_framework);
  training.settings.framework = planning::Framework::megatron;
  const Decision megatron = decide(asking(training));
  ASSERT_TRUE(megatron.satisfied);
  EXPECT_FALSE(megatron.model->candidate.other_framework) << "tensor parallelism is its own";
  // Nothing but tensor parallelism, where that is no framework's own.
  Workload fixed = work("llama-3.1-8b", "train");
  fixed.fixed_strategy = true;
  fixed.settings.parallel.tensor = 8;
  EXPECT_THAT(decide(asking(fixed)).model->reason, HasSubstr("TP 8 (in Megatron)"));
}

TEST_F(ModelFits, WhyFewerAreTooFewIsSaid) {
  const Decision decision = decide(asking(work("llama-3.1-70b", "inference")));
  ASSERT_TRUE(decision.satisfied);
  EXPECT_GE(decision.selected.size(), 2U);
  EXPECT_EQ(decision.strategy, Strategy::fsdp) << "spread over them";
  EXPECT_THAT(decision.model->reason, HasSubstr("GiB of each"));
  EXPECT_THAT(decision.model->reason, HasSubstr("; on one it does not fit (1"));
  EXPECT_EQ(decision.wanted, decision.selected.size());
}

TEST_F(ModelFits, WhatOthersHoldIsRespected) {
  // Two GPUs have room for 16 GiB of weights, and only because busy ones are allowed.
  for (std::size_t i = 0; i < 8; ++i) occupy(i, i < 2 ? 50_GiB : 78_GiB);
  Request request = asking(work("llama-3.1-8b", "inference"));
  EXPECT_FALSE(decide(request).satisfied);
  EXPECT_THAT(decide(request).missing, HasSubstr("in use by bob"));
  EXPECT_TRUE(decide(request).may_come_true);
  request.allow_busy = true;
  EXPECT_THAT(chosen(request), ElementsAre(0));
  EXPECT_EQ(decide(request).model->room, 30_GiB);
  EXPECT_THAT(decide(request).verdicts[5].reason, HasSubstr("has 2 GiB free, the chosen plan needs 1"));
  EXPECT_TRUE(decide(request).verdicts[5].transient);
  occupy(0, 70_GiB);
  EXPECT_THAT(chosen(request), ElementsAre(1));
  occupy(1, 70_GiB);
  const auto shared = decide(request);
  if (shared.satisfied) {
    for (const auto& device : shared.selected) EXPECT_LT(device.index.value, 2U);
  }
}

TEST_F(ModelFits, WaitingStandsInLineForAsManyAsTheModelTakes) {
  const Request request = asking(work("llama-3.1-70b", "inference"));
  const std::size_t needed = decide(request).selected.size();
  for (std::size_t i = 1; i < 8; ++i) leases_.push_back({snapshot_.gpus[i].gpu.uuid, false, {}});
  const Decision decision = decide(request);
  EXPECT_FALSE(decision.satisfied);
  EXPECT_TRUE(decision.may_come_true);
  EXPECT_EQ(decision.wanted, needed);
  EXPECT_EQ(decision.candidates.size(), 8U);
  EXPECT_THAT(decision.missing, HasSubstr("does not fit one NVIDIA H100"));
  EXPECT_THAT(decision.missing, HasSubstr("GPUs 1-7: leased"));
}

TEST_F(ModelFits, WhatNeverFitsIsNotWaitedFor) {
  snapshot_ = fleet(2);
  leases_ = {{snapshot_.gpus[1].gpu.uuid, false, {}}};
  const Decision decision = decide(asking(work("deepseek-v3", "train")));
  EXPECT_FALSE(decision.satisfied);
  EXPECT_FALSE(decision.may_come_true);
  EXPECT_TRUE(decision.candidates.empty());
  ASSERT_TRUE(decision.model);
  EXPECT_EQ(decision.model->fit, Fit::does_not_fit);
}

TEST_F(ModelFits, OneKindIsPreferredToAMixture) {
  snapshot_.gpus = {gpu(0, "NVIDIA GeForce RTX 3090", 24_GiB), gpu(1, "NVIDIA GeForce RTX 4090", 24_GiB),
                    gpu(2, "NVIDIA GeForce RTX 4090", 24_GiB), gpu(3, "Tesla T4", 16_GiB)};
  Request request = asking(work("qwen2.5-14b", "inference"));
  EXPECT_THAT(chosen(request), ElementsAre(1, 2));
  EXPECT_TRUE(decide(request).warnings.empty());
  snapshot_.gpus[2].state = facts::GpuState::lost;
  const Decision mixed = decide(request);
  ASSERT_TRUE(mixed.satisfied) << mixed.missing;
  EXPECT_THAT(mixed.warnings, ElementsAre(HasSubstr("slowest sets the pace")));
  EXPECT_THAT(mixed.model->reason, HasSubstr("2 different GPUs ("));
  EXPECT_THAT(mixed.model->gpu, HasSubstr("RTX 3090"));
  EXPECT_THAT(mixed.model->gpu, HasSubstr("RTX 4090"));
}

TEST_F(ModelFits, PreferredGpusAreTakenWhereTheModelFitsThem) {
  snapshot_ = mixed_fleet();  // T4, 3090, A100
  Request request = asking(work("gpt2", "inference"));
  EXPECT_THAT(chosen(request), ElementsAre(2)) << "most free memory";
  request.prefer = {{"0"}};
  EXPECT_THAT(chosen(request), ElementsAre(0));
  request.work = work("qwen2.5-14b", "inference");
  EXPECT_THAT(chosen(request), ElementsAre(2)) << "28 GiB of weights";
}

TEST_F(ModelFits, ACountAndNamesAreHeldStill) {
  Request request = asking(work("gpt2", "train"));
  request.count = 4;
  const Decision four = decide(request);
  EXPECT_EQ(four.selected.size(), 4U);
  EXPECT_EQ(four.strategy, Strategy::ddp);
  EXPECT_THAT(four.model->reason, Not(HasSubstr("; on "))) << "nobody asked about fewer";
  request.count.reset();
  request.gpu_ids = {{"3"}, {"1"}};
  EXPECT_THAT(chosen(request), ElementsAre(3, 1));
  request = asking(work("llama-3.1-70b", "train"));
  request.count = 2;
  const Decision two = decide(request);
  EXPECT_FALSE(two.satisfied);
  EXPECT_THAT(two.missing, HasSubstr("does not fit 2 x NVIDIA H100 80GB HBM3 for full training"));
  request.count = 9;
  EXPECT_THAT(decide(request).missing, HasSubstr("9 GPUs were requested, but this machine has 8 GPUs"));
}

TEST_F(ModelFits, AllTakesAsManyAsTheModelCanBeSpreadOver) {
  Request request = asking(work("gpt2", "train"));
  request.all = true;
  EXPECT_EQ(decide(request).selected.size(), 8U);
  occupy(6, 79_GiB);
  EXPECT_EQ(decide(request).selected.size(), 7U);
  request.work = work("qwen2.5-7b", "serve");
  EXPECT_EQ(decide(request).selected.size(), 4U) << "28 heads, but 4 of keys: not by seven";
}

TEST_F(ModelFits, AnInstanceHoldsAWholeModelOrNone) {
  snapshot_ = mig_fleet();  // GPU 0: 3g.40gb, 1g.10gb, 1g.10gb
  Request request = asking(work("llama-3.1-8b", "inference"));
  request.mig = true;
  EXPECT_EQ(cuda_visible_devices(decide(request)), "MIG-0aaa") << "16 GiB";
  EXPECT_EQ(decide(request).strategy, Strategy::single);
  request.work = work("llama-3.1-70b", "inference");
  EXPECT_FALSE(decide(request).satisfied);
  EXPECT_THAT(decide(request).missing, HasSubstr("does not fit one"));
  const auto plan = plan_if_free(request, {snapshot_, leases_, spoken_for_, {}});
  ASSERT_THAT(plan, IsOk());
  EXPECT_FALSE(plan->search.smallest_gpus) << "instances are not joined";
  for (const auto& change : plan->search.changes) EXPECT_EQ(change.candidate.settings.parallel.gpus(), 1U);
  request.work = work("gpt2", "inference");
  request.count = 3;
  request.one_process_per_device = true;
  EXPECT_EQ(decide(request).selected.size(), 3U);
  EXPECT_EQ(decide(request).strategy, Strategy::ddp);
  request.work = work("llama-3.1-8b", "inference");
  EXPECT_FALSE(decide(request).satisfied) << "only one instance holds it";
}

TEST_F(ModelFits, AnEngineNeedsItsShareOfTheGpuFree) {
  snapshot_ = fleet(1);
  Request request = asking(work("gpt2", "serve"));
  const Decision whole = decide(request);
  ASSERT_TRUE(whole.satisfied) << whole.missing;
  EXPECT_NEAR(static_cast<double>(whole.model->needed.value), 0.9 * static_cast<double>((80_GiB).value), 1.0);
  EXPECT_THAT(whole.model->reason, HasSubstr("the engine takes 72.0 of 80.0 GiB"));
  occupy(0, 20_GiB);
  request.allow_busy = true;
  EXPECT_FALSE(decide(request).satisfied);
  request.work->serving_utilization = 0.7;
  EXPECT_TRUE(decide(request).satisfied);
}

TEST_F(ModelFits, AnEngineWithoutRoomForARequestDoesNotFit) {
  snapshot_ = fleet(1);
  Workload serving = work("llama-3.1-70b", "serve");
  serving.settings.quantization = planning::Quantization::fp8;
  serving.settings.sequence = 131'072;
  Request request = asking(serving);
  EXPECT_FALSE(decide(request).satisfied);
  snapshot_ = fleet(8);
  const Decision several = decide(request);
  ASSERT_TRUE(several.satisfied) << several.missing;
  EXPECT_THAT(several.model->reason, HasSubstr("on one"));
}

TEST_F(ModelFits, ASizeIsThatOfWeightsIn16Bit) {
  snapshot_ = fleet(4);
  Request request;
  request.model_size = Bytes(140'000'000'000);
  const Decision two = decide(request);
  ASSERT_TRUE(two.satisfied) << two.missing;
  EXPECT_EQ(two.selected.size(), 2U);
  EXPECT_EQ(two.strategy, Strategy::fsdp);
  EXPECT_THAT(two.model->reason, HasSubstr("its shape is a guess"));
  const auto& estimate = two.model->candidate.estimate;
  EXPECT_GT(estimate.high() - estimate.low(), 0.2 * estimate.expected()) << "a wider range";
  request.model_size = Bytes(1000);
  EXPECT_THAT(choose(request), FailsWith(ErrorCode::invalid_argument, HasSubstr("parameters")));
  request.model_size = 10_GiB;
  request.work = work("gpt2", "train");
  EXPECT_THAT(choose(request), FailsWith(ErrorCode::invalid_argument, HasSubstr("cannot be used together")));
}

TEST_F(ModelFits, NodesLikeThisOneShareTheWork) {
  Request request = asking(work("llama-3.1-70b", "train"));
  const Decision alone = decide(request);
  request.nodes = 8;
  const Decision together = decide(request);
  ASSERT_TRUE(together.satisfied) << together.missing;
  EXPECT_TRUE(!alone.satisfied || together.selected.size() < alone.selected.size());
  EXPECT_EQ(together.model->candidate.settings.parallel.gpus(), 8 * together.selected.size());
  EXPECT_THAT(together.model->reason, HasSubstr("of each of 8 nodes"));
  request.nodes = 0;
  EXPECT_THAT(choose(request), FailsWith(ErrorCode::invalid_argument, HasSubstr("0 nodes")));
}

TEST_F(ModelFits, AGpuThatDoesNotTellItsFreeMemoryIsNotTaken) {
  snapshot_ = fleet(2);
  snapshot_.gpus[0].sample.memory_free.reset();
  EXPECT_THAT(chosen(asking(work("gpt2", "train"))), ElementsAre(1));
  EXPECT_THAT(decide(asking(work("gpt2", "train"))).verdicts[0].reason, HasSubstr("free memory is unknown"));
  snapshot_.gpus[1].sample.memory_free.reset();
  EXPECT_FALSE(decide(asking(work("gpt2", "train"))).satisfied);
}

TEST_F(ModelFits, AFixedStrategyIsKept) {
  Workload fixed = work("llama-3.1-8b", "inference");
  fixed.fixed_strategy = true;
  fixed.settings.parallel.tensor = 4;
  const Decision decision = decide(asking(fixed));
  ASSERT_TRUE(decision.satisfied) << decision.missing;
  EXPECT_EQ(decision.selected.size(), 4U);
  EXPECT_EQ(decision.model->candidate.name, "TP 4");
  fixed.settings.parallel.tensor = 3;
  EXPECT_THAT(decide(asking(fixed)).missing, HasSubstr("cannot be spread"));
}

TEST_F(ModelFits, ACountThatCannotShareTheModelIsNotAnsweredForFewer) {
  Workload fixed = work("llama-3.1-8b", "inference");
  fixed.fixed_strategy = true;
  fixed.settings.parallel.tensor = 2;
  Request request = asking(fixed);
  request.count = 3;
  const Decision three = decide(request);
  EXPECT_FALSE(three.satisfied);
  EXPECT_FALSE(three.model) << "two would do";
  EXPECT_THAT(three.missing, HasSubstr("cannot be spread over 3 GPUs"));
  request.count.reset();
  request.gpu_ids = {{"0"}, {"1"}, {"5"}};
  EXPECT_THAT(decide(request).missing, HasSubstr("cannot be spread over 3 GPUs"));
  request.gpu_ids.clear();
  request.count = 4;
  EXPECT_TRUE(decide(request).satisfied);
}

TEST_F(ModelFits, SettingsThatContradictThemselvesAreRefused) {
  Workload wrong = work("gpt2", "train");
  wrong.settings.quantization = planning::Quantization::nf4;
  EXPECT_THAT(choose(asking(wrong)), FailsWith(ErrorCode::invalid_argument, HasSubstr("cannot be trained")));
  EXPECT_THAT(plan_if_free(asking(wrong), {snapshot_, leases_, spoken_for_, {}}),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("cannot be trained")));
  wrong = work("gpt2", "inference");
  wrong.settings.prompt = 4096;
  EXPECT_THAT(choose(asking(wrong)), FailsWith(ErrorCode::invalid_argument, HasSubstr("longer than the sequence")));
  for (const double share : {0.0, -1.0, 1.5}) {
    wrong = work("gpt2", "serve");
    wrong.serving_utilization = share;
    EXPECT_THAT(choose(asking(wrong)), FailsWith(ErrorCode::invalid_argument, HasSubstr("an engine"))) << share;
  }
  Workload experts = work("mixtral-8x7b", "lora");
  experts.fixed_strategy = true;
  experts.settings.parallel.expert = 8;
  EXPECT_THAT(choose(asking(experts)), IsOk()) << "ranks follow from the GPUs";
}

TEST_F(ModelFits, ThePlanForFreeGpusSaysWhatWouldHelp) {
  snapshot_ = fleet(1);
  occupy(0, 79_GiB);
  const auto plan = plan_if_free(asking(work("llama-3.1-8b", "train")), {snapshot_, leases_, spoken_for_, {}});
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->request.gpus.usable, 80_GiB);
  EXPECT_EQ(plan->request.gpus.count, 1U);
  const auto bigger = plan_if_free(asking(work("llama-3.1-70b", "train")), {snapshot_, leases_, spoken_for_, {}});
  ASSERT_THAT(bigger, IsOk());
  EXPECT_FALSE(bigger->fits);
  EXPECT_FALSE(bigger->search.changes.empty());
  EXPECT_THAT(plan_if_free({}, {snapshot_, leases_, spoken_for_, {}}),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("names no model")));
  snapshot_.gpus[0].state = facts::GpuState::lost;
  EXPECT_THAT(plan_if_free(asking(work("gpt2", "train")), {snapshot_, leases_, spoken_for_, {}}),
              FailsWith(ErrorCode::unsatisfied, HasSubstr("GPU 0")));
}

TEST_F(ModelFits, OverRandomFleetsEveryChosenGpuHasTheRoomAndNobodyElse) {
  std::mt19937 random(11);  // NOLINT(bugprone-random-generator-seed): the same fleets every time
  const std::vector<Workload> workloads{work("gpt2", "train"), work("llama-3.2-1b", "train"),
                                        work("llama-3.1-8b", "lora"), work("llama-3.1-8b", "inference"),
                                        work("qwen2.5-14b", "serve")};
  constexpr std::pair<const char*, Bytes> kModels[] = {{"NVIDIA GeForce RTX 4090", 24_GiB},
                                                       {"NVIDIA H100 80GB HBM3", 80_GiB}};
  for (unsigned round = 0; round < repetitions(200); ++round) {
    snapshot_ = {};
    const auto count = static_cast<std::uint32_t>(1 + random() % 5);
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto& [name, memory] = kModels[random() % 2];
      snapshot_.gpus.push_back(gpu(i, name, memory));
      if (random() % 3 == 0) occupy(i, Bytes(random() % 24 * (1_GiB).value));
    }
    Request request = asking(workloads[random() % workloads.size()]);
    request.allow_busy = random() % 2 == 0;
    const Decision decision = decide(request);
    EXPECT_EQ(decision.satisfied, !decision.selected.empty());
    EXPECT_EQ(decision.satisfied, decision.missing.empty());
    for (const auto& device : decision.selected) {
      const auto& record = snapshot_.gpus[device.index.value];
      EXPECT_GE(*record.sample.memory_free, decision.model->needed) << decision.model->reason;
      EXPECT_TRUE(request.allow_busy || record.processes->empty());
    }
    if (decision.satisfied) {
      EXPECT_NE(decision.model->fit, Fit::does_not_fit);
    }
    const Decision again = decide(request);
    EXPECT_EQ(again.selected, decision.selected);
  }
}

}  // namespace
}  // namespace gpuwarden::placement
