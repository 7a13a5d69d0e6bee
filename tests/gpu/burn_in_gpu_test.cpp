// SPDX-License-Identifier: Apache-2.0
// The burn-in test on the GPUs of this machine.
#include <gtest/gtest.h>

#include "gpuwarden/burn_in/burn_in.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"
#include "gpuwarden/probe/nvml_reader.hpp"

namespace gpuwarden {
namespace {

TEST(RealBurnIn, AnIdleGpuPassesEveryTest) {
  const auto snapshot = probe::read_snapshot({}, {.detail = probe::Detail::full});
  if (snapshot.problem || snapshot.gpus.empty()) GTEST_SKIP() << "no GPU answers on this machine";
  burn_in::Options options;
  options.memory_share = 0.5;
  const auto run = burn_in::run(snapshot, knowledge::Knowledge::built_in(), options);
  if (run.not_possible) GTEST_SKIP() << *run.not_possible;
  EXPECT_EQ(run.failed, std::nullopt);
  int tested = 0;
  for (const auto& gpu : run.gpus) {
    if (gpu.not_possible) continue;
    ++tested;
    EXPECT_EQ(gpu.failed, std::nullopt) << gpu.name;
    EXPECT_EQ(gpu.wrong_results, 0U) << gpu.name;
    ASSERT_TRUE(gpu.memory) << gpu.name;
    EXPECT_TRUE(gpu.memory->complete) << gpu.name;
    EXPECT_EQ(gpu.memory->mismatches, 0U) << gpu.name;
    EXPECT_GE(gpu.figures.size(), 4U) << gpu.name;
    for (const auto& figure : gpu.figures) {
      EXPECT_GT(figure.value, 0) << figure.id;
      // Nothing is faster than what is published; a clock that stands still would seem to be.
      if (figure.expected) {
        EXPECT_LT(figure.value, *figure.expected * 1.3) << gpu.name << ": " << figure.id;
      }
    }
  }
  if (tested == 0) GTEST_SKIP() << "all GPUs are in use";
}

}  // namespace
}  // namespace gpuwarden
