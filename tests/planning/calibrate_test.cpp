// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/calibrate.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "planning/shapes.hpp"

namespace gpuwarden::planning {
namespace {

using ::testing::HasSubstr;
using testing::kTestGiB;

MeasuredPeak peak(std::uint32_t batch, double bytes) { return {batch, Bytes(static_cast<std::uint64_t>(bytes))}; }

Settings lora() {
  Settings settings;
  settings.task = Task::adapters;
  settings.sequence = 4096;
  return settings;
}

TEST(Calibrate, TwoPointsGiveTheLineOfMeasuredRuns) {
  // fms-acceleration, Llama 3 8B, LoRA, Liger: 24.9059e9 and 33.5677e9 bytes at 4 and 8; 50.8912e9 at 16.
  const ModelFigures model = figures_of(testing::llama3_8b());
  Settings settings = lora();
  settings.loss = LossKernel::fused_linear;
  const std::array points{peak(4, 24.9059e9), peak(8, 33.5677e9)};
  const Calibration line = *calibrate(model, settings, points);
  settings.micro_batch = 16;
  EXPECT_NEAR(calibrated(model, settings, line)->allocated / 50.8912e9, 1, 0.001);
  EXPECT_FALSE(line.branch_changes_at);
  EXPECT_LE(calibrated(model, settings, line)->uncertainty, 0.03);
}

TEST(Calibrate, TellsWhereAnotherMomentBecomesThePeak) {
  // Full training on one GPU peaks in the optimizer's step until the logits overtake it.
  const ModelFigures model = figures_of(testing::mistral_7b());
  Settings settings = lora();
  settings.task = Task::full_training;
  const std::array points{peak(1, 72.43e9), peak(2, 72.43e9)};
  const Calibration flat = *calibrate(model, settings, points);
  ASSERT_TRUE(flat.branch_changes_at);
  EXPECT_GT(*flat.branch_changes_at, 4U);
  settings.micro_batch = *flat.branch_changes_at + 8;
  EXPECT_GT(calibrated(model, settings, flat)->allocated, 73e9);
  EXPECT_TRUE(flat.note.contains("optimizer_step"));
}

TEST(Calibrate, AThirdPointShowsThatTheBranchChanged) {
  const ModelFigures model = figures_of(testing::mistral_7b());
  Settings settings = lora();
  settings.task = Task::full_training;
  const std::array points{peak(1, 72.4e9), peak(2, 72.4e9), peak(16, 77.1e9)};
  EXPECT_TRUE(calibrate(model, settings, points)->branch_changed);
}

TEST(Calibrate, TwoPointsOnDifferentBranchesGiveTheEquationsSlope) {
  // Full training of Mistral 7B: the optimizer's step at 1, the logits at 16 (the test above finds where they meet).
  const ModelFigures model = figures_of(testing::mistral_7b());
  Settings settings = lora();
  settings.task = Task::full_training;
  const auto at = [&](std::uint32_t batch) {
    settings.micro_batch = batch;
    return *estimate(model, settings);
  };
  const Estimate first = at(1);
  const Estimate last = at(64);
  ASSERT_NE(first.peak_moment().kind, last.peak_moment().kind);
  const double grown = at(65).allocated - last.allocated;
  const std::array points{peak(1, first.allocated), peak(64, last.allocated)};
  const Calibration line = *calibrate(model, settings, points);
  EXPECT_TRUE(line.branch_changed);
  EXPECT_NEAR(line.per_sample / grown, 1, 1e-6);
  EXPECT_GT(line.per_sample, 1.05 * (last.allocated - first.allocated) / 63) << "a line across the bend is too flat";
  EXPECT_TRUE(line.note.contains("optimizer_step")) << line.note;
  const double truth = at(128).allocated;
  EXPECT_NEAR(calibrated(model, settings, line)->allocated / truth, 1, 1e-6);
  settings.micro_batch = 2;
  EXPECT_NEAR(calibrated(model, settings, line)->allocated / first.allocated, 1, 1e-6);
}

TEST(Calibrate, AMeasuredMicroBatchHasTheMeasuredPeak) {
  // Peaks that the equations put on different moments: the line of the last one does not run through the first.
  const ModelFigures model = figures_of(testing::llama3_8b());
  Settings settings = lora();
  settings.task = Task::full_training;
  settings.parallel = {.data = 8, .sharding = Sharding::fsdp2};
  for (const auto& points : {std::vector{peak(1, 20 * kTestGiB), peak(2, 25 * kTestGiB)},
                             std::vector{peak(1, 20 * kTestGiB), peak(4, 26 * kTestGiB), peak(16, 60 * kTestGiB)}}) {
    const auto line = calibrate(model, settings, points);
    ASSERT_TRUE(line) << line.error().message;
    for (const MeasuredPeak& point : points) {
      settings.micro_batch = point.micro_batch;
      EXPECT_DOUBLE_EQ(calibrated(model, settings, *line)->allocated, static_cast<double>(point.peak.value));
    }
    // Convex: between two measured ones it is no more than their chord, and no less than the smaller.
    for (settings.micro_batch = 1; settings.micro_batch <= points.back().micro_batch; ++settings.micro_batch) {
      const double here = calibrated(model, settings, *line)->allocated;
      EXPECT_GE(here, static_cast<double>(points.front().peak.value));
      EXPECT_LE(here, static_cast<double>(points.back().peak.value));
    }
  }
}

TEST(Calibrate, TheRecomputationIsTheOneThatGrowsAsMeasured) {
  const ModelFigures model = figures_of(testing::llama3_8b());
  Settings settings = lora();
  settings.task = Task::full_training;
  settings.sequence = 2048;
  settings.framework = Framework::torchtitan;
  settings.parallel = {.data = 8, .sharding = Sharding::fsdp2};
  for (const Recompute truth : {Recompute::none, Recompute::selective, Recompute::full}) {
    Settings measured = settings;
    measured.recompute = truth;
    std::vector<MeasuredPeak> points;
    for (const std::uint32_t batch : {2U, 4U}) {
      measured.micro_batch = batch;
      points.push_back(peak(batch, 1.04 * estimate(model, measured)->allocated));
    }
    EXPECT_EQ(*nearest_recomputation(model, settings, points), truth) << to_string(truth);
  }
  const std::array one{peak(1, 1e10)};
  EXPECT_FALSE(nearest_recomputation(model, settings, one));
}

TEST(Calibrate, RefusesPeaksThatLeaveLessThanTheWeights) {
  const ModelFigures model = figures_of(testing::llama3_8b());
  Settings settings = lora();
  settings.recompute = Recompute::none;
  const auto refused = [&](std::vector<MeasuredPeak> points) {
    const auto line = calibrate(model, settings, points);
    return line ? "taken: " + line->note : line.error().message;
  };
  EXPECT_THAT(refused({peak(1, 1e6), peak(2, 2e6)}),
              HasSubstr("0.00 GiB, is less than the weights alone take on each GPU"));
  EXPECT_THAT(refused({peak(1, 20 * kTestGiB), peak(2, 40 * kTestGiB)}), HasSubstr("leave 0.00 GiB"));
  EXPECT_THAT(refused({peak(1, 20 * kTestGiB), peak(2, 25 * kTestGiB), peak(3, 40 * kTestGiB)}),
              HasSubstr("leave -5.00 GiB"));
  EXPECT_THAT(refused({peak(1, 25 * kTestGiB), peak(2, 33 * kTestGiB)}), HasSubstr("taken"));
  EXPECT_THAT(refused({peak(1, 25 * kTestGiB), peak(2, 33 * kTestGiB), peak(3, 34 * kTestGiB)}),
              HasSubstr("no step's growth falls"));
}

TEST(Calibrate, AComputedGrowthLeavesTheWeights) {
  // Full training: the optimizer's step at 1, the logits at 128, where the equations' growth would leave too little.
  const ModelFigures model = figures_of(testing::mistral_7b());
  Settings settings = lora();
  settings.task = Task::full_training;
  settings.micro_batch = 128;
  const Estimate there = *estimate(model, settings);
  ASSERT_NE(there.peak_moment().kind, MomentKind::optimizer_step);
  const std::array points{peak(1, 72.4e9), peak(128, 0.6 * there.allocated)};
  const auto line = calibrate(model, settings, points);
  ASSERT_TRUE(line) << line.error().message;
  EXPECT_TRUE(line->slope_from_equations);
  EXPECT_THAT(line->note, HasSubstr("less what the weights need"));
  EXPECT_GE(line->fixed, 13e9);
  EXPECT_DOUBLE_EQ(calibrated(model, settings, *line)->allocated, static_cast<double>(points[1].peak.value));
}

TEST(Calibrate, RefusesPointsThatDetermineNothing) {
  const ModelFigures model = figures_of(testing::mistral_7b());
  const auto message = [&](auto... points) {
    const std::array all{points...};
    return calibrate(model, lora(), all).error().message;
  };
  EXPECT_EQ(message(peak(1, 1e9)), "1 measured peaks");
  EXPECT_EQ(message(peak(2, 1e9), peak(2, 2e9)), "micro-batch 2 is given twice");
  EXPECT_EQ(message(peak(2, 1e9), peak(1, 2e9)), "the peak at micro-batch 2 is below that at 1");
  EXPECT_FALSE(message(peak(0, 1e9), peak(1, 2e9)).empty());
}

}  // namespace
}  // namespace gpuwarden::planning
