// SPDX-License-Identifier: Apache-2.0
// Pipelines, tensor parallelism and products in 8 bits, held against the published formulas.
#include <gtest/gtest.h>

#include <algorithm>

#include "planning/equations.hpp"
#include "planning/shapes.hpp"

namespace gpuwarden::planning {
namespace {

using testing::llama3_70b;
using testing::llama3_8b;
using testing::mixtral_8x7b;

Settings staged(std::uint32_t ranks, std::uint32_t batches, std::uint32_t runs = 1) {
  Settings settings;
  settings.parallel.pipeline = ranks;
  settings.parallel.virtual_stages = runs;
  settings.accumulation = batches;
  return settings;
}

TEST(InFlight, OneForwardOneBackwardKeepsAsManyAsStagesFollow) {
  EXPECT_EQ(in_flight(staged(1, 8), Stage::first), 1);
  EXPECT_EQ(in_flight(staged(4, 16), Stage::first), 4);
  EXPECT_EQ(in_flight(staged(4, 16), Stage::last), 1);
  EXPECT_EQ(in_flight(staged(8, 3), Stage::first), 3) << "no more than there are";
}

TEST(InFlight, InterleavingKeepsWhatThePaperSays) {
  // Korthikanti et al. 2022: L (1 + (p - 1) / (p v)) layers in the first rank, which has L / p.
  for (const double p : {2.0, 4.0, 8.0}) {
    for (const double v : {2.0, 4.0, 8.0}) {
      const Settings settings = staged(static_cast<std::uint32_t>(p), 1000, static_cast<std::uint32_t>(v));
      EXPECT_NEAR(in_flight(settings, Stage::first) / p, 1 + (p - 1) / (p * v), 1e-9 + 1 / (p * v)) << p << " x " << v;
      EXPECT_LT(in_flight(settings, Stage::last), in_flight(settings, Stage::first));
    }
  }
  EXPECT_EQ(in_flight(staged(8, 8, 2), Stage::first), 8) << "never more than all micro-batches";
}

TEST(Pipeline, TheFirstStageKeepsActivationsTheLastHasTheLoss) {
  Settings settings = staged(8, 32);
  settings.framework = Framework::megatron;
  settings.precision = Precision::master_weights;
  settings.sequence = 4096;
  const Estimate deep = *estimate(llama3_70b(), settings);
  EXPECT_FALSE(deep.last_stage);
  EXPECT_EQ(deep.peak_moment().at(Use::logits), 0);
  // Few layers and a large vocabulary: the head's stage is the larger one.
  ModelShape shallow = llama3_8b();
  shallow.vocab = 1'000'000;
  settings.parallel.pipeline = 2;
  const Estimate wide = *estimate(shallow, settings);
  EXPECT_TRUE(wide.last_stage);
  EXPECT_GT(wide.moments[0].at(Use::logits), 0);
}

TEST(Pipeline, MoreMicroBatchesThanStagesCostNothingMore) {
  Settings settings = staged(4, 4);
  settings.framework = Framework::megatron;
  const double few = estimate(llama3_70b(), settings)->allocated;
  settings.accumulation = 64;
  EXPECT_EQ(estimate(llama3_70b(), settings)->allocated, few);
}

TEST(Pipeline, Fsdp2KeepsAStagesWeightsGatheredAndItsGradientsWhole) {
  Settings settings = staged(8, 8);
  settings.framework = Framework::torchtitan;
  settings.precision = Precision::mixed;
  settings.step = OptimizerStep::fused;
  settings.parallel.tensor = 8;
  settings.parallel.data = 8;
  settings.parallel.sharding = Sharding::fsdp2;
  const ModelFigures model = figures_of(llama3_70b());
  const LocalParameters local = local_parameters(model, settings);
  const Estimate estimated = *estimate(model, settings);
  const Moment& backward = estimated.moments[1];
  EXPECT_NEAR(backward.at(Use::unsharded_layers), 2 * local.total, 0.05 * local.total);
  EXPECT_GE(backward.at(Use::gradients), 4 * local.total);
  // 8-bit gathering halves what is gathered of the layers.
  settings.fp8 = Fp8::gathered;
  const Moment eighth = estimate(model, settings)->moments[1];
  EXPECT_LT(eighth.at(Use::unsharded_layers), 0.65 * backward.at(Use::unsharded_layers));
  // Without a pipeline one layer at a time is gathered.
  settings.parallel.pipeline = 1;
  settings.parallel.data = 64;
  settings.accumulation = 1;
  EXPECT_LT(estimate(model, settings)->moments[1].at(Use::unsharded_layers), local.total);
}

TEST(Tensor, MegatronKeepsWhatTheFormulaOfSequenceParallelismSays) {
  // Korthikanti et al. 2022 with t-way tensor and sequence parallelism: everything divided by t; without flash
  // attention's 5as/h a GELU layer keeps 34 bytes a hidden width, and two less without dropout's masks.
  ModelShape gpt = llama3_8b();
  gpt.gated_mlp = false;
  gpt.intermediate = 4 * gpt.hidden;
  gpt.kv_heads = gpt.heads;
  gpt.positions = Positions::learned;
  gpt.norm = NormKind::layer_norm;
  Settings settings;
  settings.framework = Framework::megatron;
  settings.recompute = Recompute::none;
  for (const std::uint32_t tensor : {1U, 2U, 8U}) {
    settings.parallel.tensor = tensor;
    const ModelFigures model = figures_of(gpt);
    const double each = saved_by_layer(gpt, widths_of(model, settings), settings);
    EXPECT_NEAR(each * tensor / gpt.hidden, 32, 1e-9) << tensor;
  }
}

TEST(Tensor, MegatronsGradientsAreThereAtEveryMoment) {
  Settings settings;
  settings.framework = Framework::megatron;
  settings.precision = Precision::master_weights;
  settings.parallel = {.data = 16, .tensor = 8, .sharding = Sharding::zero1};
  const ModelFigures model = figures_of(llama3_70b());
  const double local = local_parameters(model, settings).total;
  const Estimate estimated = *estimate(model, settings);
  for (std::size_t i = 0; i < estimated.moment_count; ++i) {
    // 6 bytes a parameter and 12 over the data-parallel ranks: megatron/training/theoretical_memory_usage.py.
    const Moment& moment = estimated.moments[i];
    const double states = moment.at(Use::weights) + moment.at(Use::gradients) + moment.at(Use::optimizer_states);
    EXPECT_NEAR(states / local, 6 + 12.0 / 16, 1e-6) << to_string(moment.kind);
  }
}

TEST(Tensor, OnlyDeepSpeedHasBucketsBesideTheGradients) {
  Settings settings;
  settings.precision = Precision::master_weights;
  settings.parallel = {.data = 16, .tensor = 8, .sharding = Sharding::zero1};
  const ModelFigures model = figures_of(llama3_70b());
  const auto buffers = [&] { return estimate(model, settings)->peak_moment().at(Use::buffers); };
  const double buckets = 2 * 500e6;  // bytes: reduce_bucket_size elements in 16 bit
  const double deepspeed = buffers();
  EXPECT_GE(deepspeed, buckets);
  settings.framework = Framework::megatron;
  EXPECT_LT(buffers(), buckets) << "the distributed optimizer works in the gradients' own buffers";
  settings.parallel.sharding = Sharding::zero2;
  EXPECT_GE(buffers(), buckets) << "Megatron-DeepSpeed";
}

TEST(Tensor, SequenceParallelismGathersWhatItSplit) {
  Settings settings;
  settings.parallel.tensor = 8;
  const ModelFigures model = figures_of(llama3_70b());
  const Widths split = widths_of(model, settings);
  EXPECT_EQ(split.hidden * 8, split.gathered);
  EXPECT_GT(gathered_inputs(split, settings), 0);
  settings.parallel.sequence_parallel = false;
  EXPECT_EQ(widths_of(model, settings).gathered, 0);
  settings.parallel = {};
  EXPECT_EQ(widths_of(model, settings).gathered, 0);
}

TEST(Fp8, TorchaoChangesNothingButWhatFsdpGathers) {
  Settings settings;
  settings.framework = Framework::torchtitan;
  settings.parallel = {.data = 8, .sharding = Sharding::fsdp2};
  const Estimate plain = *estimate(llama3_8b(), settings);
  settings.fp8 = Fp8::matrices;
  EXPECT_EQ(estimate(llama3_8b(), settings)->allocated, plain.allocated);
  settings.fp8 = Fp8::gathered;
  EXPECT_LT(estimate(llama3_8b(), settings)->moments[1].total(), plain.moments[1].total());
}

TEST(Fp8, TransformerEngineKeepsCopiesAndSavesActivations) {
  Settings settings;
  settings.framework = Framework::megatron;
  settings.recompute = Recompute::none;
  const ModelFigures model = figures_of(llama3_8b());
  const Estimate plain = *estimate(model, settings);
  const double kept = saved_by_layer(model.shape, widths_of(model, settings), settings);
  settings.fp8 = Fp8::matrices;
  const Estimate eight = *estimate(model, settings);
  EXPECT_NEAR(eight.moments[0].at(Use::weights) - plain.moments[0].at(Use::weights), 2 * model.linear, 1);
  EXPECT_LT(saved_by_layer(model.shape, widths_of(model, settings), settings), kept);
}

TEST(Fp8, IsRefusedWhereNotAllWeightsAreTrained) {
  for (const Task task : {Task::adapters, Task::inference, Task::serving}) {
    Settings settings;
    settings.task = task;
    settings.fp8 = Fp8::matrices;
    const Result<Estimate> refused = estimate(llama3_8b(), settings);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    EXPECT_TRUE(refused.error().message.contains("fp8"));
  }
}

TEST(Pipeline, IsFiniteAndPositiveWhateverItsDegrees) {
  for (const ModelShape& model : {llama3_8b(), mixtral_8x7b()}) {
    for (const Framework framework : {Framework::megatron, Framework::torchtitan, Framework::transformers}) {
      for (const std::uint32_t runs : {1U, 2U, 8U}) {
        for (const std::uint32_t batches : {1U, 3U, 64U}) {
          Settings settings = staged(4, batches, runs);
          settings.framework = framework;
          settings.parallel.tensor = 2;
          settings.parallel.data = 4;
          settings.parallel.sharding = Sharding::fsdp2;
          const Estimate estimated = *estimate(model, settings);
          EXPECT_GT(estimated.allocated, 0);
          for (std::size_t i = 0; i < estimated.moment_count; ++i) {
            const auto& uses = estimated.moments[i].uses;
            EXPECT_TRUE(std::ranges::all_of(uses, [](double bytes) { return bytes >= 0; }));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace gpuwarden::planning
