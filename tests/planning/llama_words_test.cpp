// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpuwarden/planning/catalog.hpp"
#include "gpuwarden/planning/gguf.hpp"
#include "gpuwarden/planning/words.hpp"

namespace gpuwarden::planning {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Said = std::vector<std::pair<const char*, const char*>>;

Result<Workload> served(const char* model, const Said& said) {
  Words words("--");
  for (const auto& [name, value] : said) words.set(name, {value});
  return workload_from(find_model(model).value(), words, "train");
}

TEST(LlamaWords, AFileIsServedByLlamaCppUnlessMoreIsSaid) {
  const auto file = served("Qwen3-8B-Q4_K_M.gguf", {});
  ASSERT_TRUE(file);
  EXPECT_EQ(file->settings.task, Task::serving);
  EXPECT_EQ(file->engine, Engine::llama_cpp);
  EXPECT_EQ(file->settings.quantization, Quantization::q4_k_m);
  EXPECT_TRUE(file->settings.split);
  EXPECT_EQ(served("qwen3:8b", {})->engine, Engine::ollama);
  EXPECT_EQ(served("qwen3:8b", {})->length, Length::usual);
  ModelShape told = find_model("qwen3:8b").value();
  told.num_ctx = 16'384;
  const auto by_itself = workload_from(told, Words("--"), "train");
  EXPECT_EQ(by_itself->settings.sequence, 16'384U);
  EXPECT_EQ(by_itself->length, Length::given);
  told.num_ctx = 1'000'000;
  EXPECT_EQ(workload_from(told, Words("--"), "train")->settings.sequence, 40'960U) << "the model's window at most";
  EXPECT_EQ(served("qwen3-8b", {{"quantization", "Q4_K_M"}})->engine, Engine::llama_cpp);
  EXPECT_EQ(served("qwen3-8b", {{"quantization", "int4"}})->settings.task, Task::full_training);
  const auto vllm = served("Qwen3-8B-Q4_K_M.gguf", {{"task", "serve"}, {"engine", "vllm"}});
  EXPECT_EQ(vllm->engine, Engine::vllm);
  EXPECT_FALSE(vllm->settings.split);
  EXPECT_EQ(served("Qwen3-8B-Q8_0.gguf", {{"engine", "vllm"}, {"quantization", "gguf"}})->settings.quantization,
            Quantization::q8_0);
  EXPECT_FALSE(served("qwen3-8b", {{"task", "serve"}, {"quantization", "gguf"}})) << "of which width?";
}

TEST(LlamaWords, WhatIsTakenForGrantedIsTold) {
  EXPECT_THAT(served("Qwen/Qwen3-8B-GGUF", {})->notes, Contains(HasSubstr("the name says no width: Q4_K_M is taken")));
  const auto named = served("Qwen/Qwen3-8B-GGUF", {{"quantization", "q8_0"}, {"sequence", "4096"}});
  EXPECT_EQ(named->settings.quantization, Quantization::q8_0);
  EXPECT_THAT(named->notes, IsEmpty());
  EXPECT_THAT(served("Qwen3-8B-UD-Q4_K_XL.gguf", {})->notes, Contains(HasSubstr("UD-Q4_K_XL is not known exactly")));
  EXPECT_THAT(served("Qwen3-8B-Q4_K_M.gguf", {{"sequence", "32768"}, {"max-requests", "4"}})->notes,
              Contains(HasSubstr("4 requests at a time share the cache of 32768 tokens: 8192 each")));
}

TEST(LlamaWords, OllamasRequestsHaveACacheEach) {
  const auto four = served("qwen3:8b", {{"sequence", "8192"}, {"max-requests", "4"}});
  ASSERT_TRUE(four);
  EXPECT_EQ(four->settings.micro_batch, 4U);
  EXPECT_THAT(four->notes, Contains(HasSubstr("each of the 4 requests at a time (OLLAMA_NUM_PARALLEL) has a cache")));
  for (const auto& [option, value] : Said{{"split-mode", "row"}, {"tensor-split", "3,1"}, {"cache-type-v", "q8_0"}}) {
    const auto refused = served("qwen3:8b", {{option, value}});
    ASSERT_FALSE(refused) << option;
    EXPECT_THAT(refused.error().message, HasSubstr("ollama has no such setting")) << option;
  }
}

TEST(LlamaWords, TypesThatLlamaCppHasNotAreRefused) {
  EXPECT_THAT(served("Qwen3-8B-Q4_K_M.gguf", {{"kv-cache", "fp8"}}).error().message, HasSubstr("has no such type"));
  EXPECT_EQ(served("qwen3-8b", {{"task", "serve"}, {"kv-cache", "fp8"}})->settings.kv_bytes, 1) << "vLLM has it";
  EXPECT_FALSE(served("gpt-oss-20b-GGUF", {{"cpu-moe-layers", "auto"}}));
  EXPECT_FALSE(served("gpt-oss-20b-GGUF", {{"cpu-moe-layers", "-1"}}));
}

TEST(LlamaWords, AWholeFileKeepsExpertsInMxfp4) {
  const auto whole = served("unsloth/gpt-oss-20b-GGUF:F16", {});
  ASSERT_TRUE(whole);
  // "gpt-oss-20b-F16.gguf, 13.8 GB" (huggingface.co/unsloth/gpt-oss-20b-GGUF, from memory); all in 16 bit it were 42
  // GB.
  EXPECT_NEAR(file_weights(whole->model, whole->settings).file() / 1e9, 13.8, 0.3);
}

TEST(LlamaWords, AFileIsNotTrained) {
  const auto lora = served("Qwen3-8B-Q4_K_M.gguf", {{"task", "lora"}});
  ASSERT_TRUE(lora);
  EXPECT_EQ(lora->settings.quantization, Quantization::none);
  EXPECT_THAT(lora->notes, Contains(HasSubstr("nothing is trained beside a GGUF file's weights")));
}

TEST(LlamaWords, TheCachesTypesHaveTheBytesOfTheirBlocks) {
  const auto bytes = [](const Said& said) { return served("Qwen3-8B-Q4_K_M.gguf", said)->settings.kv_bytes; };
  EXPECT_EQ(bytes({}), 2);
  EXPECT_EQ(bytes({{"kv-cache", "q8_0"}}), 34.0 / 32);
  EXPECT_EQ(bytes({{"cache-type-k", "q8_0"}, {"cache-type-v", "q8_0"}}), 34.0 / 32);
  EXPECT_EQ(bytes({{"cache-type-k", "q8_0"}, {"cache-type-v", "q4_0"}}), (34.0 + 18) / 64);
  EXPECT_EQ(bytes({{"cache-type-k", "q4_0"}}), (18.0 / 32 + 2) / 2) << "values stay in 16 bit";
  EXPECT_EQ(bytes({{"cache-type-v", "f32"}}), 3);
  // Latent attention has no values of its own.
  EXPECT_EQ(served("deepseek-v2-lite-Q8_0.gguf", {{"cache-type-k", "q8_0"}})->settings.kv_bytes, 34.0 / 32);
  EXPECT_FALSE(served("Qwen3-8B-Q4_K_M.gguf", {{"cache-type-k", "q3_0"}}));
}

TEST(LlamaWords, ValuesInBlocksTakeFlashAttention) {
  const auto refused = served("Qwen3-8B-Q4_K_M.gguf", {{"attention", "eager"}, {"cache-type-v", "q8_0"}});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("only with flash attention"));
  EXPECT_FALSE(served("Qwen3-8B-Q4_K_M.gguf", {{"attention", "eager"}, {"kv-cache", "q4_0"}}));
  EXPECT_TRUE(served("Qwen3-8B-Q4_K_M.gguf", {{"attention", "eager"}, {"cache-type-k", "q8_0"}}));
  EXPECT_TRUE(served("Qwen3-8B-Q4_K_M.gguf", {{"attention", "eager"}, {"cache-type-v", "f16"}}));
}

TEST(LlamaWords, SayHowGpusShareLayers) {
  const auto split = [](const Said& said) { return served("Qwen3-8B-Q4_K_M.gguf", said)->settings.split.value(); };
  EXPECT_EQ(split({}), LayerSplit{});
  EXPECT_EQ(split({{"tensor-split", "3,1"}}).shares, (std::vector<double>{3, 1}));
  EXPECT_EQ(split({{"tensor-split", "0.6/0.4"}}).shares, (std::vector<double>{0.6, 0.4}));
  EXPECT_EQ(split({{"split-mode", "row"}}).mode, LayerSplit::Mode::row);
  EXPECT_EQ(split({{"gpu-layers", "20"}}).gpu_layers, 20U);
  EXPECT_EQ(split({{"gpu-layers", "0"}}).gpu_layers, 0U);
  for (const char* all : {"99", "all", "auto", "-1", "37"})
    EXPECT_EQ(split({{"gpu-layers", all}}).gpu_layers, std::nullopt) << all;
  EXPECT_EQ(split({{"batched-tokens", "2048"}}).tokens, 2048U);
  EXPECT_EQ(served("gpt-oss-20b-mxfp4.gguf", {{"cpu-moe-layers", "all"}})->settings.split->host_experts, 24U);
}

TEST(LlamaWords, RefuseWhatLlamaCppHasNotAndOthersHaveNot) {
  const auto message = [](const char* model, const Said& said) {
    const auto given = served(model, said);
    return given ? "" : given.error().message;
  };
  EXPECT_THAT(message("Qwen3-8B-Q4_K_M.gguf", {{"tensor-parallel", "2"}}), HasSubstr("no such parallelism"));
  EXPECT_THAT(message("Qwen3-8B-Q4_K_M.gguf", {{"split-mode", "tensor"}}), HasSubstr("unknown value 'tensor'"));
  EXPECT_THAT(message("Qwen3-8B-Q4_K_M.gguf", {{"tensor-split", "0,0"}}), HasSubstr("not a list of shares"));
  EXPECT_THAT(message("Qwen3-8B-Q4_K_M.gguf", {{"tensor-split", "a,b"}}), HasSubstr("not a list of shares"));
  EXPECT_THAT(message("Qwen3-8B-Q4_K_M.gguf", {{"gpu-layers", "many"}}), HasSubstr("not a number of layers"));
  EXPECT_THAT(message("Qwen3-8B-Q4_K_M.gguf", {{"cpu-moe-layers", "4"}}), HasSubstr("has no experts"));
  const auto vllm = [&](const char* option, const char* value) {
    return message("qwen3-8b", {{"task", "serve"}, {option, value}});
  };
  EXPECT_THAT(vllm("cache-type-k", "q8_0"), HasSubstr("only llama.cpp has it"));
  EXPECT_THAT(vllm("tensor-split", "3,1"), HasSubstr("only llama.cpp has it"));
  EXPECT_THAT(vllm("gpu-layers", "12"), HasSubstr("only llama.cpp has it"));
  EXPECT_EQ(vllm("gpu-layers", "99"), "") << "all of them, as vLLM has them";
  EXPECT_THAT(vllm("kv-cache", "q8_0"), HasSubstr("only llama.cpp stores its cache"));
  const auto unknown = served("qwen3-8b", {{"quantization", "Q9_K"}});
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().hint, HasSubstr("of GGUF files Q8_0, Q6_K"));
}

}  // namespace
}  // namespace gpuwarden::planning
