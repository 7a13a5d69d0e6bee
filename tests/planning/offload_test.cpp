// SPDX-License-Identifier: Apache-2.0
// Sharded and offloaded states held against the numbers that DeepSpeed's documentation prints, and the optimizer's
// step against torch's code. None of these are measurements.
#include <gtest/gtest.h>

#include "planning/equations.hpp"
#include "planning/shapes.hpp"

namespace gpuwarden::planning {
namespace {

using testing::kTestGiB;
using testing::llama3_8b;

/// deepspeedai/DeepSpeed docs/code-docs/source/memory.rst: t5-3b, 2,851 million parameters, one node of eight GPUs.
ModelFigures three_billion() {
  ModelFigures model = figures_of(llama3_8b());
  const double factor = 2851e6 / model.total;
  for (double* part : {&model.total, &model.linear, &model.embedding, &model.root, &model.layer}) *part *= factor;
  return model;
}

Settings zero(Sharding sharding, Offload offload = Offload::none) {
  Settings settings;
  settings.precision = Precision::fp16;
  settings.parallel = {.data = 8, .sharding = sharding, .offload = offload};
  settings.sequence = 1;
  return settings;
}

/// GiB of states at the optimizer's step, without activations and buffers.
double states(const Settings& settings) {
  const Estimate estimated = *estimate(three_billion(), settings);
  const Moment& step = estimated.moments[3];
  return (step.at(Use::weights) + step.at(Use::gradients) + step.at(Use::optimizer_states) +
          step.at(Use::optimizer_temporaries)) /
         kTestGiB;
}

TEST(DeepSpeedsDocumentation, Zero3SpreadsEighteenBytes) {
  // 6.09 GB, of which 4 bytes for each of the largest layer's 32 million parameters.
  EXPECT_NEAR(states(zero(Sharding::zero3)), 6.09 - 4 * 32e6 / kTestGiB, 0.02);
}

TEST(DeepSpeedsDocumentation, OffloadedOptimizersLeaveTheWeightsShare) {
  // 0.78 GB with the largest layer; ZeRO-2 5.31 GB, whatever the number of GPUs.
  const Settings third = zero(Sharding::zero3, Offload::optimizer);
  EXPECT_NEAR(estimate(three_billion(), third)->moments[0].at(Use::weights) / kTestGiB, 0.78 - 4 * 32e6 / kTestGiB,
              0.02);
  const Settings second = zero(Sharding::zero2, Offload::optimizer);
  EXPECT_NEAR(estimate(three_billion(), second)->moments[0].at(Use::weights) / kTestGiB, 5.31, 0.01);
}

TEST(DeepSpeedsDocumentation, TheHostHoldsSixteenBytesAndWeightsTwoMore) {
  // 63.72 and 71.69 GB for a node of eight ranks, with half as much again to be safe.
  const double optimizer = 8 * estimate(three_billion(), zero(Sharding::zero3, Offload::optimizer))->host / kTestGiB;
  const double all = 8 * estimate(three_billion(), zero(Sharding::zero3, Offload::all))->host / kTestGiB;
  EXPECT_NEAR(1.5 * optimizer, 63.72, 0.1);
  EXPECT_NEAR(1.5 * all, 71.69, 0.1);
}

TEST(Offload, FsdpMovesAllThatItStores) {
  Settings settings = zero(Sharding::fsdp2, Offload::optimizer);
  settings.framework = Framework::torchtitan;
  settings.precision = Precision::mixed;
  const Estimate estimated = *estimate(three_billion(), settings);
  EXPECT_EQ(estimated.moments[0].at(Use::weights), 0);
  EXPECT_NEAR(estimated.host, 16 * 2851e6 / 8, 1e6);
}

Settings alone(OptimizerStep step, Precision precision) {
  Settings settings;
  settings.step = step;
  settings.precision = precision;
  settings.sequence = 1;
  return settings;
}

double bytes_at_step(const Settings& settings) {
  const ModelFigures model = figures_of(llama3_8b());
  return estimate(model, settings)->moments[3].total() / model.total;
}

TEST(OptimizerStep, TemporariesAreThoseOfTorchsCode) {
  EXPECT_NEAR(bytes_at_step(alone(OptimizerStep::fused, Precision::bf16)), 8, 0.01);
  EXPECT_NEAR(bytes_at_step(alone(OptimizerStep::foreach, Precision::bf16)), 10, 0.01);
  EXPECT_NEAR(bytes_at_step(alone(OptimizerStep::foreach_twice, Precision::bf16)), 12, 0.01);
  Settings states_of_8_bits = alone(OptimizerStep::foreach, Precision::bf16);
  states_of_8_bits.optimizer = Optimizer::adamw_8bit;
  EXPECT_LT(bytes_at_step(states_of_8_bits), 7.5) << "bitsandbytes has kernels of its own";
}

TEST(OptimizerStep, AutocastsCopiesAreGoneByThen) {
  const Settings settings = alone(OptimizerStep::foreach, Precision::mixed);
  EXPECT_NEAR(bytes_at_step(settings), 20, 0.01);
  const ModelFigures model = figures_of(llama3_8b());
  const Estimate estimated = *estimate(model, settings);
  EXPECT_NEAR(estimated.moments[0].at(Use::weights) / model.total, 6, 0.01) << "forward: 4 and 2";
  EXPECT_LT(estimated.moments[1].at(Use::weights) / model.total, 4.4) << "recomputed layers are cast again";
  Settings kept = settings;
  kept.recompute = Recompute::none;
  EXPECT_NEAR(estimate(model, kept)->moments[1].at(Use::weights) / model.total, 6, 0.01);
}

TEST(OptimizerStep, TrainedCopiesOfEmbeddingsHaveTemporariesToo) {
  Settings settings;
  settings.task = Task::adapters;
  settings.adapters.embeddings_trained = true;
  settings.sequence = 1;
  const ModelFigures model = figures_of(llama3_8b());
  const auto temporaries = [&](OptimizerStep step) {
    settings.step = step;
    return estimate(model, settings)->moments[3].at(Use::optimizer_temporaries);
  };
  EXPECT_EQ(temporaries(OptimizerStep::fused), 0);
  EXPECT_GE(temporaries(OptimizerStep::foreach), 2 * model.embedding);
  EXPECT_NEAR(temporaries(OptimizerStep::foreach_twice), 2 * temporaries(OptimizerStep::foreach), 1);
}

}  // namespace
}  // namespace gpuwarden::planning
