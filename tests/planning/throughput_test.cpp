// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/throughput.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "planning/shapes.hpp"

namespace gpuwarden::planning {
namespace {

TEST(StepWork, CountsSixOperationsAParameterAndTokenAndAttentionsBesides) {
  Settings settings;
  settings.sequence = 2048;
  settings.recompute = Recompute::none;
  const ModelFigures model = figures_of(testing::llama3_8b());
  const StepWork work = step_work(model, settings);
  EXPECT_NEAR(work.model_flops, 6 * 8.03e9 * 2048 + 12.0 * 32 * 4096 * 2048 * 2048, 1e11);
  EXPECT_EQ(work.hardware_flops, work.model_flops);
  settings.recompute = Recompute::full;
  EXPECT_NEAR(step_work(model, settings).hardware_flops / work.model_flops, 4.0 / 3, 1e-9);
}

TEST(StepWork, RecomputingBesideAFrozenBaseAddsHalf) {
  Settings settings;
  settings.task = Task::adapters;
  settings.sequence = 1;  // attention's share is small
  settings.recompute = Recompute::full;
  const StepWork work = step_work(figures_of(testing::llama3_8b()), settings);
  EXPECT_NEAR(work.hardware_flops / work.model_flops, 1.5, 1e-3);
}

TEST(Speed, OfModelsSmallerThanAnyPublishedOneIsNotKnown) {
  ModelShape small = testing::llama3_8b();
  EXPECT_TRUE(speed_known(figures_of(small)));
  small.layers = 2;
  small.hidden = 128;
  small.vocab = 1000;
  EXPECT_FALSE(speed_known(figures_of(small)));
}

TEST(StepWork, ExpertsThatATokenDoesNotPassCostNothing) {
  Settings settings;
  const ModelFigures mixtral = figures_of(testing::mixtral_8x7b());
  EXPECT_LT(step_work(mixtral, settings).model_flops, 6 * 0.35 * mixtral.total * 2048);
}

TEST(Speed, FollowsThePublishedTable) {
  // llm-foundry: 7B, 2,048 tokens, A100 80 GB: about 3,000 tokens a second and GPU.
  ModelShape seven = testing::mistral_7b();
  Settings settings;
  settings.micro_batch = 6;
  settings.parallel = {.data = 8, .sharding = Sharding::fsdp1};
  const Speed speed = *speed_of(figures_of(seven), settings, "NVIDIA A100-SXM4-80GB", 312e12, {}, 1e9);
  EXPECT_GT(speed.high / 8, 3000);
  EXPECT_LT(speed.low / 8, 3500);
  EXPECT_LT(speed.low, speed.expected);
  EXPECT_NEAR(static_cast<double>(speed.duration->count()), 1e9 / speed.expected, 1);
  EXPECT_LT(speed.shortest, speed.longest);
}

/// llm-foundry's MPT on H100s: recomputed or not, micro-batch, GPUs, measured tokens a second.
struct SeveralNodes {
  std::uint32_t hidden, heads, layers;
  std::uint64_t parameters;
  bool recomputed;
  std::uint32_t micro_batch, gpus;
  double measured;
};

TEST(Speed, FollowsThePublishedTableAcrossNodes) {
  const std::vector<SeveralNodes> rows{
      {5120, 40, 40, 12853125120, false, 2, 16, 76280},  {5120, 40, 40, 12853125120, false, 2, 64, 307209},
      {8192, 64, 80, 64862437376, true, 2, 32, 28242},   {8192, 64, 80, 64862437376, true, 8, 512, 515636},
      {7168, 56, 48, 29975214080, true, 8, 128, 281491},
  };
  for (const SeveralNodes& row : rows) {
    ModelShape shape{.hidden = row.hidden, .layers = row.layers, .heads = row.heads, .kv_heads = row.heads};
    shape.head_dim = row.hidden / row.heads;
    shape.intermediate = 4 * row.hidden;
    shape.vocab = 50368;
    shape.tied_embeddings = true;
    shape.gated_mlp = false;
    Settings settings;
    settings.precision = Precision::mixed;
    settings.micro_batch = row.micro_batch;
    settings.recompute = row.recomputed ? Recompute::full : Recompute::none;
    settings.parallel = {.data = row.gpus, .sharding = Sharding::fsdp1};
    ModelFigures figures = figures_of(shape);
    figures.total = static_cast<double>(row.parameters);
    const Speed speed = *speed_of(figures, settings, "NVIDIA H100 80GB HBM3", 989.4e12, {}, 0, {360e9, 20e9, 8});
    EXPECT_LT(speed.low, row.measured) << row.parameters << " on " << row.gpus;
    EXPECT_GT(speed.high, row.measured) << row.parameters << " on " << row.gpus;
    EXPECT_NEAR(speed.expected / row.measured, 1, 0.15) << row.parameters << " on " << row.gpus;
  }
}

TEST(Speed, AMeasuredUtilizationReplacesThePrior) {
  const Speed speed = *speed_of(figures_of(testing::llama3_8b()), {}, "some GPU", 1e15, 0.5);
  EXPECT_EQ(speed.low, speed.high);
  EXPECT_EQ(speed.utilization, 0.5);
  EXPECT_TRUE(speed.source.contains("measured"));
}

TEST(Speed, PipelinesIdleWithFewMicroBatches) {
  Settings settings;
  settings.parallel.pipeline = 4;
  settings.accumulation = 4;
  const double few = speed_of(figures_of(testing::llama3_8b()), settings, "H100", 989e12)->expected;
  settings.accumulation = 64;
  const double many = speed_of(figures_of(testing::llama3_8b()), settings, "H100", 989e12)->expected;
  EXPECT_NEAR(few / many, (4.0 / 7) / (64.0 / 67), 1e-6);
  const Speed measured = *speed_of(figures_of(testing::llama3_8b()), settings, "H100", 989e12, 0.4);
  EXPECT_EQ(measured.idle_seconds, 0) << "it is in what was measured";
  EXPECT_NEAR(measured.achieved, 0.4, 1e-9);
}

TEST(Speed, TransformersLoopOverExpertsIsATenthOfMegatrons) {
  const ModelFigures model = figures_of(testing::mixtral_8x7b());
  Settings settings;
  settings.parallel.data = 8;
  settings.parallel.sharding = Sharding::zero3;
  const double looped = speed_of(model, settings, "NVIDIA H100 80GB HBM3", 989e12)->expected;
  settings.framework = Framework::megatron;
  settings.parallel.sharding = Sharding::zero1;
  settings.parallel.expert = 8;
  EXPECT_LT(looped, speed_of(model, settings, "NVIDIA H100 80GB HBM3", 989e12)->expected / 8);
  // A dense model gathers no expert.
  EXPECT_FALSE(expert_loop_utilization(figures_of(testing::llama3_8b()), settings, 989e12));
  EXPECT_FALSE(expert_loop_utilization(model, settings, 989e12)) << "Megatron groups its products";
}

TEST(Speed, RefusesAPeakOrUtilizationThatCannotBe) {
  EXPECT_FALSE(speed_of(figures_of(testing::llama3_8b()), {}, "H100", 0));
  EXPECT_FALSE(speed_of(figures_of(testing::llama3_8b()), {}, "H100", 1e15, 1.5));
}

TEST(LoadingAdvice, LeavesACpuForTheRankItself) {
  EXPECT_EQ(loading_advice(64, 8).workers, 7);
  EXPECT_EQ(loading_advice(8, 8).workers, 0);
  EXPECT_EQ(loading_advice(256, 8).workers, 8);
  EXPECT_EQ(loading_advice(256, 8).threads, 24);
  EXPECT_EQ(loading_advice(0, 0).threads, 1);
}

}  // namespace
}  // namespace gpuwarden::planning
