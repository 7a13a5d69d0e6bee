// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/workload.hpp"

#include <fmt/format.h>

#include "gpuwarden/planning/answer.hpp"
#include "gpuwarden/planning/catalog.hpp"
#include "gpuwarden/planning/parameters.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::planning {
namespace {

using gpuwarden::testing::FailsWith;
using gpuwarden::testing::IsOk;
using ::testing::Contains;
using ::testing::HasSubstr;

ModelShape model(const char* name) { return find_model(name).value(); }

TEST(SettingsFor, EveryTaskHasSettingsThatCheckOut) {
  for (const std::string_view task : task_names()) {
    const auto settings = settings_for(model("llama-3.1-8b"), task);
    ASSERT_THAT(settings, IsOk()) << task;
    EXPECT_THAT(check(*settings), IsOk()) << task;
    EXPECT_EQ(settings->micro_batch, 1U) << task;
  }
}

TEST(SettingsFor, ATaskBringsItsPrecisionAndQuantization) {
  const ModelShape llama = model("llama-3.1-8b");
  EXPECT_EQ(settings_for(llama, "train"), settings_for(llama, "finetune"));
  EXPECT_EQ(settings_for(llama, "train")->precision, Precision::mixed_low);
  EXPECT_EQ(settings_for(llama, "pretrain")->precision, Precision::mixed);
  EXPECT_EQ(settings_for(llama, "inference")->precision, Precision::bf16);
  EXPECT_EQ(settings_for(llama, "lora")->quantization, Quantization::none);
  EXPECT_EQ(settings_for(llama, "qlora")->quantization, Quantization::nf4_double);
  EXPECT_TRUE(settings_for(llama, "qlora")->fp32_residual);
  EXPECT_EQ(settings_for(llama, "serve")->task, Task::serving);
}

TEST(SettingsFor, CaseAndUnderscoresDoNotMatterButUnknownWordsDo) {
  EXPECT_EQ(settings_for(model("gpt2"), " LoRA "), settings_for(model("gpt2"), "lora"));
  EXPECT_THAT(settings_for(model("gpt2"), "dance"), FailsWith(ErrorCode::invalid_argument, HasSubstr("'dance'")));
  EXPECT_THAT(settings_for(model("gpt2"), "dance").error().hint, HasSubstr("train, pretrain"));
  EXPECT_FALSE(settings_for(model("gpt2"), "").has_value());
}

TEST(SettingsFor, TheModelBringsWhatItIsStoredInAndHowLongItReads) {
  EXPECT_EQ(settings_for(model("gpt-oss-20b"), "serve")->quantization, Quantization::mxfp4);
  EXPECT_EQ(settings_for(model("gpt-oss-20b"), "lora")->quantization, Quantization::none) << "made 16-bit first";
  EXPECT_EQ(settings_for(model("deepseek-v3"), "inference")->quantization, Quantization::fp8);
  EXPECT_EQ(settings_for(model("deepseek-v3"), "train")->quantization, Quantization::none);
  EXPECT_EQ(settings_for(model("t5-small"), "train")->attention, Attention::eager);
  EXPECT_EQ(settings_for(model("gpt2"), "train")->sequence, 1024U) << "learned positions";
  EXPECT_EQ(settings_for(model("llama-3.1-8b"), "train")->sequence, 2048U);
  ModelShape image = model("gpt2");
  image.kind = ModelKind::vision_encoder;
  image.image = {.image = 224, .patch = 16};
  EXPECT_EQ(settings_for(image, "train")->sequence, 197U);
}

TEST(SettingsFor, WhatGeneratesNothingIsNotServed) {
  EXPECT_THAT(settings_for(model("bert-base"), "serve"), FailsWith(ErrorCode::invalid_argument, HasSubstr("KV cache")));
  EXPECT_THAT(settings_for(model("bert-base"), "inference"), IsOk());
  EXPECT_THAT(settings_for(model("t5-small"), "serve"), IsOk());
}

TEST(AdaptersFor, TargetsAreTheModelsOwnModules) {
  const ModelShape llama = model("llama-2-7b");
  const auto usual = adapters_for(llama, 8);
  ASSERT_THAT(usual, IsOk());
  EXPECT_EQ(usual->stated_parameters, 4194304U) << "PEFT's count for rank 8 on q_proj and v_proj";
  EXPECT_TRUE(usual->targets.query && usual->targets.value);
  EXPECT_FALSE(usual->targets.key || usual->targets.up);
  const auto all = adapters_for(llama, 8, {"all-linear"});
  EXPECT_TRUE(all->targets.gate && all->targets.up && all->targets.down && all->targets.output && all->targets.key);
  EXPECT_GT(all->stated_parameters, usual->stated_parameters);
  const auto joint = adapters_for(model("gpt2"), 8);
  EXPECT_TRUE(joint->targets.joint_qkv);
  EXPECT_FALSE(joint->targets.query || joint->targets.value);
  EXPECT_THAT(adapters_for(llama, 8, {"c_attn"}), FailsWith(ErrorCode::invalid_argument, HasSubstr("c_attn")));
}

TEST(WorkloadOfSize, HoldsWeightsOfThatSizeIn16Bit) {
  const auto work = workload_of_size(Bytes(14'000'000'000));
  ASSERT_THAT(work, IsOk());
  EXPECT_TRUE(work->model.estimated);
  EXPECT_EQ(work->settings.task, Task::inference);
  EXPECT_NEAR(static_cast<double>(count_parameters(work->model).total), 7e9, 7e7);
  EXPECT_THAT(workload_of_size(Bytes(100)), FailsWith(ErrorCode::invalid_argument, HasSubstr("1e6 to 1e14")));
  EXPECT_THAT(workload_of_size(Bytes(~0ULL)), FailsWith(ErrorCode::invalid_argument, HasSubstr("1e6 to 1e14")));
}

TEST(Spread, DataParallelRanksAreWhatTheOtherAxesLeave) {
  Settings settings;
  settings.parallel.tensor = 2;
  settings.parallel.pipeline = 2;
  EXPECT_TRUE(spread(settings, 8));
  EXPECT_EQ(settings.parallel.data, 2U);
  EXPECT_EQ(settings.parallel.gpus(), 8U);
  EXPECT_FALSE(spread(settings, 6));
  EXPECT_FALSE(spread(settings, 2));
  EXPECT_FALSE(spread(settings, 0));
  EXPECT_EQ(settings.parallel.data, 2U) << "left as it was";
}

Result<Workload> served_by(const char* engine, const char* share) {
  Words words("--");
  words.set("task", {"serve"});
  words.set("engine", {engine});
  words.set("mem-fraction-static", {share});
  return workload_from(model("llama-3.1-8b"), words, "");
}

TEST(StaticShare, IsSGLangsAlone) {
  const auto work = served_by("sglang", "0.8");
  ASSERT_THAT(work, IsOk());
  EXPECT_EQ(share_taken(*work), 0.8);
  EXPECT_EQ(share_words(*work), "--mem-fraction-static 0.8");
  EXPECT_EQ(share_words({}), "90% utilization");
  EXPECT_THAT(served_by("vllm", "0.8"), FailsWith(ErrorCode::invalid_argument, HasSubstr("only SGLang has it")));
  EXPECT_FALSE(served_by("sglang", "1.8"));
}

TEST(DraftModel, LiesBesideTheModelOnEachGpu) {
  Workload work{.model = model("llama-3.1-8b"), .settings = *settings_for(model("llama-3.1-8b"), "serve")};
  work.settings.sequence = 8192;
  ASSERT_THAT(add_draft(model("llama-3.2-1b"), work), IsOk());
  // 1.24 B parameters in 16 bit; 16 layers of 8 heads of 64, keys and values in 16 bit.
  const double beside = work.beside.bytes(8192);
  EXPECT_NEAR(beside, 2.0 * 1.236e9 + 8192.0 * 32768, 5e7);
  EXPECT_NEAR(work.beside.bytes(16384) - beside, 8192.0 * 32768, 1);
  const auto gpus = gpus_named("rtx4090");
  Workload alone = work;
  alone.beside = {};
  const auto with = answer({.work = work, .gpus = *gpus});
  const auto without = answer({.work = alone, .gpus = *gpus});
  ASSERT_TRUE(with && without);
  EXPECT_NEAR(without->pool->cache - with->pool->cache, beside, 1e6);
  EXPECT_NEAR(without->pool->cache_high - with->pool->cache_high, beside, 1e6);
  EXPECT_THAT(with->notes, Contains(HasSubstr("meta-llama/Llama-3.2-1B is counted beside it")));
  work.settings.task = Task::inference;
  EXPECT_FALSE(add_draft(model("llama-3.2-1b"), work));
}

TEST(DraftModel, ItsCacheIsAsLongAsTheModels) {
  Words words("--");
  words.set("task", {"serve"});
  words.set("engine", {"llama.cpp"});
  auto work = *workload_from(model("llama-3.1-8b"), words, "");
  const auto gpus = gpus_named("rtx4090");
  const auto alone = answer({.work = work, .gpus = *gpus});
  ASSERT_THAT(add_draft(model("llama-3.2-1b"), work), IsOk());
  const auto with = answer({.work = work, .gpus = *gpus});
  ASSERT_TRUE(alone && with);
  EXPECT_TRUE(with->fits);
  const std::uint32_t tokens = with->best().settings.sequence;
  // A token takes 128 KiB of the model's cache and 32 KiB of the draft's, from what its weights leave of the GPU.
  const double left = 131072.0 * alone->best().settings.sequence - work.beside.fixed;
  EXPECT_NEAR(tokens, left / (131072 + 32768), 64);
  EXPECT_THAT(with->notes, Contains(HasSubstr(fmt::format("of cache for {} tokens", tokens))));
}

TEST(DraftModel, OneThatLeavesNothingOfTheGpuIsSaidToBeTheReason) {
  const auto reason = [](const char* draft) {
    Workload work{.model = model("llama-3.1-8b"), .settings = *settings_for(model("llama-3.1-8b"), "serve")};
    EXPECT_THAT(add_draft(model(draft), work), IsOk());
    const auto told = answer({.work = work, .gpus = *gpus_named("rtx4090")});
    return told && !told->fits ? told->search.reason : "";
  };
  EXPECT_THAT(reason("qwen3-32b"), HasSubstr("the draft model Qwen/Qwen3-32B alone needs 61."));
  EXPECT_THAT(reason("qwen3-32b"), HasSubstr("of each GPU, which has 23.6 GiB"));
  EXPECT_THAT(reason("qwen3-8b"), HasSubstr("GiB that the draft model leaves"));
}

TEST(DraftModel, LayersThatLookNoFurtherThanTheirWindowKeepNoMore) {
  Workload work{.model = model("gemma-3-27b"), .settings = *settings_for(model("gemma-3-27b"), "serve")};
  ASSERT_THAT(add_draft(model("gemma-3-1b"), work), IsOk());
  const auto grown = [&](std::uint32_t from, std::uint32_t to) {
    return work.beside.bytes(to) - work.beside.bytes(from);
  };
  EXPECT_GT(grown(0, 512), 2 * grown(512, 1024));
  EXPECT_NEAR(grown(512, 1024), grown(1024, 1536), 1);
}

}  // namespace
}  // namespace gpuwarden::planning
