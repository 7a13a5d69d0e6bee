// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/gpu_uses.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpuwarden/knowledge/gpu_models.hpp"

namespace gpuwarden::knowledge {
namespace {

TEST(GpuUses, EveryModelIsGoodForSomethingThatASourceSays) {
  for (const GpuModel& model : gpu_models()) {
    const GpuUse* use = find_gpu_use(model.name);
    ASSERT_NE(use, nullptr) << model.name;
    EXPECT_FALSE(use->good_for.empty()) << model.name;
    EXPECT_FALSE(use->source.empty()) << model.name;
  }
}

TEST(GpuUses, AProductIsFoundByTheBeginningOfItsNameAtAWordsEnd) {
  EXPECT_THAT(find_gpu_use("NVIDIA H200")->good_for, ::testing::HasSubstr("long contexts"));
  EXPECT_EQ(find_gpu_use("NVIDIA H20-3e"), find_gpu_use("H20"));
  EXPECT_NE(find_gpu_use("NVIDIA H20"), find_gpu_use("NVIDIA H200"));
  EXPECT_EQ(find_gpu_use("Tesla T4"), find_gpu_use("NVIDIA T4"));
  EXPECT_NE(find_gpu_use("NVIDIA L4"), find_gpu_use("NVIDIA L40S"));
  EXPECT_EQ(find_gpu_use("NVIDIA GeForce GTX 980"), find_gpu_use("Quadro P2000")) << "a series, by its first digit";
  EXPECT_NE(find_gpu_use("NVIDIA GeForce GTX 980"), find_gpu_use("NVIDIA GeForce RTX 5090"));
  EXPECT_EQ(find_gpu_use("Voodoo 2"), nullptr);
}

TEST(GpuUses, AnExportModelSaysWhatItDerivesFrom) {
  EXPECT_THAT(find_gpu_use("NVIDIA H800")->derived_from, ::testing::HasSubstr("an H100"));
  EXPECT_THAT(find_gpu_use("NVIDIA A800 80GB PCIe")->derived_from, ::testing::HasSubstr("an A100"));
  EXPECT_THAT(find_gpu_use("NVIDIA H20")->derived_from, ::testing::HasSubstr("an H100"));
  EXPECT_THAT(find_gpu_use("NVIDIA H800")->good_for, ::testing::HasSubstr("no HPC"));
  EXPECT_THAT(find_gpu_use("NVIDIA L20")->derived_from, ::testing::HasSubstr("an L40S"));
  EXPECT_THAT(find_gpu_use("NVIDIA L2")->derived_from, ::testing::HasSubstr("an L4 "));
  EXPECT_THAT(find_gpu_use("NVIDIA H100 PCIe")->derived_from, ::testing::IsEmpty());
}

}  // namespace
}  // namespace gpuwarden::knowledge
