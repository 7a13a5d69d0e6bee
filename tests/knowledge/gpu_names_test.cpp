// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/gpu_names.hpp"
#include "knowledge/known.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace gpuwarden::knowledge {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string first(std::string_view name) {
  const auto models = models_named(known(), name);
  return models.empty() ? "" : std::string(models[0]->name);
}

TEST(GpuNames, FindsModelsByWordsOfTheirNames) {
  const auto h100 = models_named(known(), "h100");
  EXPECT_GE(h100.size(), 4U);
  EXPECT_EQ(h100[0]->name, "NVIDIA H100 80GB HBM3") << "who says H100 means the 80 GB one";
  EXPECT_EQ(first("NVIDIA H100"), "NVIDIA H100") << "the name that is just this comes first";
  EXPECT_EQ(first("rtx 5090"), "NVIDIA GeForce RTX 5090");
  EXPECT_EQ(models_named(known(), "L4").size(), 1U);
  EXPECT_EQ(first("T4"), "Tesla T4");
  EXPECT_TRUE(models_named(known(), "Voodoo").empty());
  const auto large = models_named(known(), "V100 32GB");
  ASSERT_FALSE(large.empty());
  for (const auto* model : large) EXPECT_EQ(model->memory_gb, 32) << model->name;
}

TEST(GpuNames, TakesWhatPeopleType) {
  for (const auto& [name, model] : {std::pair("V100 32GB", "Tesla V100-SXM2-32GB"),
                                    std::pair("v100-16gb", "Tesla V100-SXM2-16GB"),
                                    std::pair("H100 NVL", "NVIDIA H100 NVL"),
                                    std::pair("H100 PCIe", "NVIDIA H100 PCIe"),
                                    std::pair("H100 94GB SXM5", "NVIDIA H100"),
                                    std::pair("h100-80gb", "NVIDIA H100 80GB HBM3"),
                                    std::pair("a100", "NVIDIA A100-SXM4-80GB"),
                                    std::pair("a100 sxm", "NVIDIA A100-SXM4-80GB"),
                                    std::pair("A100 80GB PCIe", "NVIDIA A100 80GB PCIe"),
                                    std::pair("RTX 4090", "NVIDIA GeForce RTX 4090"),
                                    std::pair("NVIDIA RTX 4090", "NVIDIA GeForce RTX 4090"),
                                    std::pair("4090", "NVIDIA GeForce RTX 4090"),
                                    std::pair("4090d", "NVIDIA GeForce RTX 4090 D"),
                                    std::pair("rtx3090ti", "NVIDIA GeForce RTX 3090 Ti"),
                                    std::pair("4070TiSuper", "NVIDIA GeForce RTX 4070 Ti SUPER"),
                                    std::pair("geforce 3080", "NVIDIA GeForce RTX 3080"),
                                    std::pair("rtxa6000", "NVIDIA RTX A6000"),
                                    std::pair("A6000", "NVIDIA RTX A6000"),
                                    std::pair("6000 ada", "NVIDIA RTX 6000 Ada Generation"),
                                    std::pair("gh200", "NVIDIA GH200 480GB"),
                                    std::pair("GH200 144GB", "NVIDIA GH200 144G HBM3e"),
                                    std::pair("GB200 NVL72", "NVIDIA GB200"),
                                    std::pair("h200 141gb", "NVIDIA H200"),
                                    std::pair("T1000 8GB", "NVIDIA T1000 8GB"),
                                    std::pair("DGX Spark", "NVIDIA GB10"),
                                    std::pair("dgx h100", "NVIDIA H100 80GB HBM3"),
                                    std::pair("Orin", "Orin (nvgpu)"),
                                    std::pair("NVIDIA Jetson AGX Orin", "Orin (nvgpu)"),
                                    std::pair("Jetson Thor", "NVIDIA Thor")})
    EXPECT_EQ(first(name), model) << name;
}

TEST(GpuNames, EveryModelIsFoundByItsOwnName) {
  for (const GpuModel& model : known().models()) EXPECT_EQ(first(model.name), model.name);
}

TEST(GpuNames, WhatNamesNoModelIsNotGuessed) {
  for (const char* name : {"", "x", "nvidia", "80gb", "hgx", "a100-17gb", "rtx9999", "4090x", "L40S-48Q", "Voodoo 2"})
    EXPECT_THAT(first(name), IsEmpty()) << name;
}

TEST(GpuNames, AMemoryThatNoBoardOfTheNameHasMeansNoOtherBoard) {
  for (const char* name : {"RTX 3080 12GB", "rtx3060 8gb", "RTX 5060 16GB", "RTX 4090 48GB"}) {
    EXPECT_THAT(models_named(known(), name), IsEmpty()) << name;
    EXPECT_TRUE(refusal_of_memory(known(), name)) << name;
  }
  const auto refused = refusal_of_memory(known(), "RTX 3080 12GB");
  ASSERT_TRUE(refused);
  EXPECT_THAT(refused->hint, HasSubstr("GeForce RTX 3080 (10 GB), GeForce RTX 3080 Ti (12 GB)"));
  EXPECT_EQ(first("RTX 3080 10GB"), "NVIDIA GeForce RTX 3080");
  EXPECT_EQ(first("RTX 3080 Ti 12GB"), "NVIDIA GeForce RTX 3080 Ti");
  EXPECT_EQ(first("RTX 5060 Ti 16GB"), "NVIDIA GeForce RTX 5060 Ti");
  for (const char* name : {"RTX 3080 12G laptop of mine", "V100 32GB", "RTX 3080", "Voodoo 8GB"})
    EXPECT_FALSE(refusal_of_memory(known(), name)) << name;
}

TEST(GpuNames, AWholeNameMeansNoOtherModel) {
  const GpuModel& card = *models_named(known(), "RTX 4090")[0];
  EXPECT_TRUE(is_whole_name(card, "rtx4090"));
  EXPECT_TRUE(is_whole_name(card, "NVIDIA RTX 4090"));
  EXPECT_FALSE(is_whole_name(*models_named(known(), "A100")[0], "A100")) << "there are several";
}

TEST(GpuNames, OtherMakersGpusAreRefusedByTheirMakersName) {
  for (const auto& [name, maker] :
       {std::pair("MI300X", "AMD"), std::pair("Instinct MI250", "AMD"), std::pair("gfx942", "AMD"),
        std::pair("RX 7900 XTX", "AMD"), std::pair("rx7900xtx", "AMD"), std::pair("Radeon VII", "AMD"),
        std::pair("Intel Data Center GPU Max 1550", "Intel"), std::pair("Arc A770", "Intel"),
        std::pair("gaudi3", "Intel"), std::pair("Apple M2 Ultra", "Apple"), std::pair("TPU v5e", "Google"),
        std::pair("RTX 4090", ""), std::pair("M40", ""), std::pair("rx 4090", ""), std::pair("Voodoo", "")})
    EXPECT_EQ(other_maker_of(name), maker) << name;
  const auto error = refusal_of_other_makers("MI300X");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, ErrorCode::not_found);
  EXPECT_EQ(error->message, "gpuwarden judges NVIDIA GPUs only; MI300X is AMD's");
  EXPECT_FALSE(refusal_of_other_makers("H100"));
  for (const GpuModel& model : known().models()) EXPECT_EQ(other_maker_of(model.name), "") << model.name;
}

TEST(GpuNames, TheNearestIsOfferedAsPeopleWriteIt) {
  EXPECT_EQ(nearest_gpu_name(known(), "RTX 4O90"), "RTX 4090");
  EXPECT_EQ(nearest_gpu_name(known(), "RTX 5080 Ti"), "RTX 5080") << "another variant is nearer than another product";
  EXPECT_THAT(nearest_gpu_name(known(), "h1000"), ::testing::StartsWith("H100"));
  EXPECT_THAT(nearest_gpu_name(known(), std::string(10'000, 'x')), IsEmpty());
}

}  // namespace
}  // namespace gpuwarden::knowledge
