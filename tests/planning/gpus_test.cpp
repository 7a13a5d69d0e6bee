// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/gpus.hpp"

#include <gtest/gtest.h>

#include "gpuwarden/knowledge/gpu_models.hpp"

namespace gpuwarden::planning {
namespace {

std::string named(std::string_view text) {
  const auto group = gpus_named(text);
  return group ? std::to_string(group->count) + " " + group->name : group.error().message;
}

TEST(GpusNamed, TakesCountsAndNamesAsPeopleWriteThem) {
  EXPECT_EQ(named("8xh100"), "8 NVIDIA H100 80GB HBM3");
  EXPECT_EQ(named("h200"), "1 NVIDIA H200");
  EXPECT_EQ(named("4 x a100-40gb"), "4 NVIDIA A100-SXM4-40GB");
  EXPECT_EQ(named("4xa100"), "4 NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(named("2 * rtx 4090"), "2 NVIDIA GeForce RTX 4090");
  EXPECT_EQ(named("2xrtx3090"), "2 NVIDIA GeForce RTX 3090");
  EXPECT_EQ(named("16 L40S"), "16 NVIDIA L40S");
  EXPECT_EQ(named("8xH100 PCIe"), "8 NVIDIA H100 PCIe");
  EXPECT_EQ(named("t4"), "1 Tesla T4");
  EXPECT_EQ(named("NVIDIA A100-SXM4-80GB"), "1 NVIDIA A100-SXM4-80GB");
}

TEST(GpusNamed, TakesWhatOtherProgramsWrite) {
  EXPECT_EQ(named("h100:8"), "8 NVIDIA H100 80GB HBM3");
  EXPECT_EQ(named("H100x8"), "8 NVIDIA H100 80GB HBM3");
  EXPECT_EQ(named("A100-80GB:4"), "4 NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(named("H100-SXM"), "1 NVIDIA H100 80GB HBM3");
  EXPECT_EQ(named("8xH100-SXM5-80GB"), "8 NVIDIA H100 80GB HBM3");
  EXPECT_EQ(named("8x HGX B200"), "8 NVIDIA B200");
  EXPECT_EQ(named("rtx4090:2"), "2 NVIDIA GeForce RTX 4090");
  EXPECT_FALSE(gpus_named("h100:0"));
  EXPECT_FALSE(gpus_named("hgx"));
}

TEST(GpusNamed, TakesTheNamesThatCompatTakes) {
  EXPECT_EQ(named("V100 32GB"), "1 Tesla V100-SXM2-32GB");
  EXPECT_EQ(named("2xH100 NVL"), "2 NVIDIA H100 NVL");
  EXPECT_EQ(named("4090"), "1 NVIDIA GeForce RTX 4090");
  EXPECT_EQ(named("NVIDIA RTX 4090"), "1 NVIDIA GeForce RTX 4090") << "not the 4090 D, which has these words too";
  EXPECT_EQ(named("gh200"), "1 NVIDIA GH200 480GB");
  EXPECT_EQ(named("GH200 480GB"), "1 NVIDIA GH200 480GB") << "the number in its name is not the GPU's memory";
  EXPECT_EQ(named("a100-sxm:4"), "4 NVIDIA A100-SXM4-80GB");
}

TEST(GpusNamed, AnotherMakersGpuIsRefusedByTheMakersName) {
  for (const char* text : {"MI300X", "8xMI300X", "MI300X:8"}) {
    const auto group = gpus_named(text);
    ASSERT_FALSE(group) << text;
    EXPECT_EQ(group.error().code, ErrorCode::not_found);
    EXPECT_EQ(group.error().message, "gpuwarden judges NVIDIA GPUs only; MI300X is AMD's");
  }
}

TEST(GpusNamed, ANameThatIsNotKnownIsToldAsItWasWritten) {
  for (const std::string name : {"rtx9999", "RTX9999", "gtx1630", "GTX 1630x", "voodoo:8", "voodoox4"}) {
    const auto group = gpus_named(name);
    ASSERT_FALSE(group) << name;
    EXPECT_EQ(group.error().message, "no GPU model '" + name + "' is known");
  }
  EXPECT_EQ(named("rtx4090x2"), "2 NVIDIA GeForce RTX 4090") << "only the series' own x is no sign";
}

TEST(GpusNamed, ExportVariantsHaveTheMemoryOfWhatTheyDeriveFrom) {
  EXPECT_EQ(gpus_named("a800-80gb")->usable, gpus_named("a100-80gb")->usable);
  EXPECT_EQ(gpus_named("h800")->usable, gpus_named("h100")->usable);
  EXPECT_EQ(gpus_named("h800")->bf16_tflops, gpus_named("h100")->bf16_tflops);
  EXPECT_LT(gpus_named("h800")->nvlink_gb_s, gpus_named("h100")->nvlink_gb_s);
  EXPECT_LT(gpus_named("h20")->bf16_tflops, gpus_named("h100")->bf16_tflops / 6);
}

TEST(GpusNamed, UsableMemoryIsLessThanWhatTheMakerPrints) {
  const auto a100 = gpus_named("a100-80gb");
  ASSERT_TRUE(a100) << a100.error().message;
  EXPECT_TRUE(a100->usable_measured);
  EXPECT_NEAR(static_cast<double>(a100->usable.value) / (1ULL << 30U), 79.15, 0.01);
  EXPECT_EQ(a100->bf16_tflops, 312);
  EXPECT_FALSE(a100->source.empty());
  for (const auto& model : knowledge::gpu_models()) {
    const auto group = gpus_named(model.name);
    ASSERT_TRUE(group) << model.name;
    EXPECT_EQ(group->name, model.name) << "another row was found first";
    EXPECT_LT(static_cast<double>(group->usable.value), model.memory_gb * (1ULL << 30U)) << model.name;
    EXPECT_GT(static_cast<double>(group->usable.value), 0.9 * model.memory_gb * (1ULL << 30U)) << model.name;
  }
}

TEST(GpusNamed, RefusesCountsAndModelsThatCannotBe) {
  for (const char* text : {"", "0xh100", "99999999999xh100", "8x", "8xvoodoo", "x", "-1xh100", "a100-17gb"}) {
    EXPECT_FALSE(gpus_named(text)) << text;
  }
}

facts::GpuRecord record(std::string name, Bytes total) {
  facts::GpuRecord result;
  result.gpu.name = std::move(name);
  result.sample.memory_total = total;
  return result;
}

TEST(GpusOf, TakesTheKindWithTheMostMemoryTogether) {
  facts::Snapshot snapshot;
  snapshot.gpus = {record("NVIDIA L4", 23034_MiB), record("NVIDIA H100 80GB HBM3", 81559_MiB),
                   record("NVIDIA H100 80GB HBM3", 81559_MiB), record("NVIDIA L4", 23034_MiB)};
  snapshot.gpus[1].sample.memory_reserved = snapshot.gpus[2].sample.memory_reserved = 551_MiB;
  const auto group = gpus_of(snapshot);
  ASSERT_TRUE(group) << group.error().message;
  EXPECT_EQ(group->name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(group->count, 2U);
  EXPECT_EQ(group->usable, 81008_MiB);
  EXPECT_EQ(group->bf16_tflops, 989.4);
}

TEST(GpusOf, AGpuThatIsNotKnownHasMemoryButNoSpeed) {
  facts::Snapshot snapshot;
  snapshot.gpus = {record("NVIDIA X9000", 1000_MiB)};
  const auto group = gpus_of(snapshot);
  ASSERT_TRUE(group);
  EXPECT_EQ(group->usable, 1000_MiB);
  EXPECT_EQ(group->bf16_tflops, 0);
}

TEST(GpusOf, AGpuThatIsDividedIsNotCounted) {
  facts::Snapshot snapshot;
  snapshot.gpus = {record("NVIDIA H100 80GB HBM3", 81559_MiB), record("NVIDIA H100 80GB HBM3", 81559_MiB),
                   record("NVIDIA H100 80GB HBM3", 81559_MiB)};
  snapshot.gpus[0].gpu.mig_enabled = false;
  snapshot.gpus[1].gpu.mig_enabled = true;
  EXPECT_EQ(gpus_of(snapshot)->count, 2U);
  for (auto& gpu : snapshot.gpus) gpu.gpu.mig_enabled = true;
  EXPECT_EQ(gpus_of(snapshot).error().code, ErrorCode::unsatisfied);
  EXPECT_NE(gpus_of(snapshot).error().message.find("MIG is on"), std::string::npos);
}

TEST(GpusOf, AModelThatIsNamedWithoutItsMemoryHasTheCatalogues) {
  facts::Snapshot snapshot;
  snapshot.gpus = {record("NVIDIA H100 80GB HBM3", 1_MiB), record("NVIDIA H100 80GB HBM3", 1_MiB)};
  for (auto& gpu : snapshot.gpus) gpu.sample.memory_total.reset();
  const auto group = gpus_of(snapshot);
  ASSERT_TRUE(group) << group.error().message;
  EXPECT_EQ(group->count, 2U);
  EXPECT_EQ(group->usable, gpus_named("h100")->usable);
  snapshot.gpus[0].gpu.name = snapshot.gpus[1].gpu.name = "NVIDIA X9000";
  ASSERT_FALSE(gpus_of(snapshot)) << "nobody knows its memory";
  EXPECT_EQ(gpus_of(snapshot).error().message, "how much memory NVIDIA X9000 has is neither reported nor known");
}

TEST(GpusLeftUnsaid, TellsOfGpusThatAreDownDividedOrInUse) {
  facts::Snapshot snapshot;
  for (std::uint32_t i = 0; i < 6; ++i) {
    snapshot.gpus.push_back(record("NVIDIA H100 80GB HBM3", 81559_MiB));
    snapshot.gpus.back().gpu.index = GpuIndex(i);
    snapshot.gpus.back().sample.memory_used = 500_MiB;
  }
  snapshot.gpus[1].state = facts::GpuState::lost;
  snapshot.gpus[1].cause = "it fell off the bus";
  snapshot.gpus[2].gpu.mig_enabled = true;
  snapshot.gpus[3].sample.memory_used = 61_GiB;
  snapshot.gpus[4].state = facts::GpuState::not_answering;
  snapshot.gpus[5].gpu.name = "NVIDIA L4";
  snapshot.gpus[5].state = facts::GpuState::lost;
  const auto group = gpus_of(snapshot);
  ASSERT_TRUE(group);
  EXPECT_EQ(group->count, 2U);
  const auto sentences = gpus_left_unsaid(snapshot, *group);
  ASSERT_EQ(sentences.size(), 4U);
  EXPECT_EQ(sentences[0], "GPU 1 is not counted: it fell off the bus");
  EXPECT_EQ(sentences[1], "GPU 2 is not counted: MIG divides it");
  EXPECT_NE(sentences[2].find("GPU 3 is counted as free, though 61"), std::string::npos) << sentences[2];
  EXPECT_EQ(sentences[3], "GPU 4 is not counted: not_answering");
  EXPECT_TRUE(gpus_left_unsaid({}, *group).empty());
}

TEST(GpusOf, WithoutAGpuThatAnswersThereIsNoGroup) {
  facts::Snapshot snapshot;
  EXPECT_EQ(gpus_of(snapshot).error().code, ErrorCode::unsatisfied);
  snapshot.gpus = {record("NVIDIA L4", 23034_MiB)};
  snapshot.gpus[0].state = facts::GpuState::lost;
  EXPECT_FALSE(gpus_of(snapshot));
}

}  // namespace
}  // namespace gpuwarden::planning
