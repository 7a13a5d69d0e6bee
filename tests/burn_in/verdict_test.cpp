// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/burn_in/verdict.hpp"

#include <gtest/gtest.h>

namespace gpuwarden::burn_in {
namespace {

facts::BurnInRun measured(double value, std::optional<double> least) {
  facts::BurnInFigure figure;
  figure.value = value;
  figure.least = least;
  facts::BurnInGpu gpu;
  gpu.figures = {figure};
  facts::BurnInRun run;
  run.gpus = {gpu};
  return run;
}

TEST(BurnInVerdict, FiguresAreHeldAgainstTheLeastThatIsExpected) {
  EXPECT_EQ(verdict_of(measured(90, 80)), Verdict::sound);
  EXPECT_EQ(verdict_of(measured(80, 80)), Verdict::sound);
  EXPECT_EQ(verdict_of(measured(79, 80)), Verdict::faulty);
  EXPECT_EQ(verdict_of(measured(1, std::nullopt)), Verdict::sound) << "nothing is known to expect";
}

TEST(BurnInVerdict, WhatIsWrongOrBrokenOffIsFaulty) {
  auto wrong = measured(90, 80);
  wrong.gpus[0].wrong_results = 1;
  EXPECT_EQ(verdict_of(wrong), Verdict::faulty);
  auto broken = measured(90, 80);
  broken.gpus[0].failed = "CUDA_ERROR_ECC_UNCORRECTABLE";
  EXPECT_EQ(verdict_of(broken), Verdict::faulty);
  auto pair = measured(90, 80);
  pair.pairs.push_back({});
  EXPECT_EQ(verdict_of(pair), Verdict::sound) << "a pair that was not measured";
  pair.pairs[0].figure = measured(1, 2).gpus[0].figures[0];
  EXPECT_EQ(verdict_of(pair), Verdict::faulty);
}

TEST(BurnInVerdict, NothingMeasuredIsNoGoodNews) {
  facts::BurnInRun nothing;
  EXPECT_EQ(verdict_of(nothing), Verdict::faulty);
  nothing.not_possible = "no CUDA driver";
  EXPECT_EQ(verdict_of(nothing), Verdict::not_possible);
  auto failed = measured(90, 80);
  failed.failed = "CUDA does not start";
  EXPECT_EQ(verdict_of(failed), Verdict::not_possible);
}

}  // namespace
}  // namespace gpuwarden::burn_in
