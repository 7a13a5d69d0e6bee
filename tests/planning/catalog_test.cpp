// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/catalog.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "gpuwarden/knowledge/model_catalog.hpp"
#include "gpuwarden/planning/catalog_list.hpp"
#include "gpuwarden/planning/parameters.hpp"

namespace gpuwarden::planning {
namespace {

TEST(Catalog, EveryRowIsReadAndHasASource) {
  EXPECT_GE(knowledge::model_catalog().size(), 120U);
  for (const auto& row : knowledge::model_catalog()) {
    const auto model = find_model(row.name);
    ASSERT_TRUE(model) << row.name << ": " << model.error().message;
    EXPECT_EQ(model->name, row.name) << "another row was found first";
    EXPECT_FALSE(row.source.empty()) << row.name;
  }
}

TEST(Catalog, IsListedWithSizesAndAsJson) {
  const auto entries = list_catalog();
  ASSERT_TRUE(entries.has_value());
  EXPECT_EQ(entries->size(), catalog_names().size());
  const auto json = to_json(*entries);
  EXPECT_EQ(json["schema"], 1);
  ASSERT_EQ(json["models"].size(), entries->size());
  for (std::size_t i = 0; i < entries->size(); ++i) {
    EXPECT_EQ(json["models"][i]["name"], (*entries)[i].name);
    EXPECT_EQ(json["models"][i]["parameters"], (*entries)[i].parameters);
    EXPECT_GT((*entries)[i].parameters, 0U) << (*entries)[i].name;
  }
}

TEST(Catalog, CountsAreThePublishedOnes) {
  std::size_t published = 0;
  for (const auto& row : knowledge::model_catalog()) {
    if (row.parameters == 0) continue;
    ++published;
    EXPECT_EQ(count_parameters(find_model(row.name).value()).total, row.parameters) << row.name;
  }
  EXPECT_GE(published, 80U);
}

TEST(Catalog, FindsModelsAsPeopleWriteThem) {
  const auto named = [](std::string_view text) { return find_model(text).value_or(ModelShape{}).name; };
  EXPECT_EQ(named("meta-llama/Llama-3.1-8B"), "meta-llama/Llama-3.1-8B");
  EXPECT_EQ(named("llama-3.1-8b"), "meta-llama/Llama-3.1-8B");
  EXPECT_EQ(named("Llama 3.1 8B Instruct"), "meta-llama/Llama-3.1-8B");
  EXPECT_EQ(named("unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit"), "meta-llama/Llama-3.1-8B");
  EXPECT_EQ(named("Mistral-7B-v0.1-GPTQ"), "mistralai/Mistral-7B-v0.1");
  EXPECT_EQ(named("qwen-7b-chat"), "Qwen/Qwen-7B");
  EXPECT_EQ(named("Mixtral-8x7B-Instruct-v0.1"), "mistralai/Mixtral-8x7B-v0.1");
  EXPECT_EQ(named("gpt2"), "openai-community/gpt2");
  EXPECT_EQ(named("bert-large-uncased"), "google-bert/bert-large-uncased");
}

TEST(Catalog, AnUnknownNameIsToldWithThoseLikeIt) {
  const auto model = find_model("llama-3.1-9b");
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::not_found);
  EXPECT_NE(model.error().message.find("llama-3.1-9b"), std::string::npos);
  EXPECT_NE(model.error().hint.find("Llama-3.1-8B"), std::string::npos);
  // No llama has that number: those of its family, the nearest first.
  const std::string family = find_model("llama-9").error().hint;
  EXPECT_NE(family.find("known: huggyllama/llama-7b, "), std::string::npos) << family;
  EXPECT_EQ(std::ranges::count(family.substr(family.find("known: ")), ','), 4) << family;
  EXPECT_FALSE(find_model(""));
  EXPECT_FALSE(find_model("///"));
  EXPECT_FALSE(find_model(std::string(100'000, 'x')));
}

TEST(Catalog, QuantisedNamesHaveTheirModelsShapeAndTheirOwnBits) {
  const struct {
    const char* name;
    const char* model;
    const char* stored;
    std::uint32_t bits;
  } cases[] = {{"Qwen/Qwen3-8B-AWQ", "Qwen/Qwen3-8B", "awq", 4},
               {"Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "Qwen/Qwen2.5-7B", "int4", 4},
               {"Qwen2.5-7B-Instruct-GPTQ-Int8", "Qwen/Qwen2.5-7B", "int8", 8},
               {"Qwen/Qwen3-8B-FP8", "Qwen/Qwen3-8B", "fp8", 8},
               {"cpatonn/Qwen3-8B-AWQ-4bit", "Qwen/Qwen3-8B", "awq", 4},
               {"Qwen3-8B-4bit-AWQ", "Qwen/Qwen3-8B", "awq", 4},
               {"Qwen3-8B-AWQ-8bit", "Qwen/Qwen3-8B", "int8", 8},
               {"Qwen3-8B-GPTQ-8bit", "Qwen/Qwen3-8B", "int8", 8},
               {"TheBloke/Mistral-7B-Instruct-v0.2-AWQ", "unsloth/Mistral-7B-v0.2", "awq", 4},
               {"unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit", "meta-llama/Llama-3.1-8B", "bitsandbytes", 4},
               {"nvidia/Llama-3.1-8B-Instruct-NVFP4", "meta-llama/Llama-3.1-8B", "nvfp4", 4},
               {"Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", "Qwen/Qwen3-30B-A3B", "fp8", 8}};
  for (const auto& one : cases) {
    const auto model = find_model(one.name);
    ASSERT_TRUE(model) << one.name;
    EXPECT_EQ(model->name, one.model) << one.name;
    EXPECT_EQ(model->quantization, one.stored) << one.name;
    EXPECT_EQ(model->quantization_bits, one.bits) << one.name;
    EXPECT_FALSE(model->notes.empty()) << one.name;
  }
}

TEST(Catalog, NamesOfUnpackedCheckpointsHaveSixteenBits) {
  for (const char* name :
       {"unsloth/gpt-oss-20b-BF16", "unsloth/DeepSeek-R1-0528-BF16", "DeepSeek-R1-FP16", "deepseek-r1.F16"}) {
    const auto model = find_model(name);
    ASSERT_TRUE(model) << name;
    EXPECT_EQ(model->quantization, std::nullopt) << name;
    EXPECT_EQ(model->quantization_bits, 0U) << name;
    EXPECT_THAT(model->notes, ::testing::Contains(::testing::HasSubstr("here in 16"))) << name;
  }
  EXPECT_TRUE(find_model("gpt-oss-20b").value().quantization.has_value());
  EXPECT_EQ(find_model("unsloth/Meta-Llama-3.1-8B-Instruct-bf16-bnb-4bit").value().quantization_bits, 4U);
}

TEST(Catalog, ReleasesThatDifferInWindowVocabularyOrOutputAreRowsOfTheirOwn) {
  const auto model = [](const char* name) { return find_model(name).value(); };
  for (const char* name : {"mistralai/Mistral-7B-Instruct-v0.2", "mistralai/Mistral-7B-Instruct-v0.3",
                           "unsloth/mistral-7b-instruct-v0.3-bnb-4bit"}) {
    EXPECT_EQ(model(name).sliding_layers, 0U) << name;
    EXPECT_EQ(model(name).max_positions, 32'768U) << name;
  }
  EXPECT_EQ(model("mistralai/Mistral-7B-Instruct-v0.3").vocab, 32'768U);
  EXPECT_EQ(model("mistralai/Mistral-7B-Instruct-v0.1").sliding_window, 4096U);
  EXPECT_EQ(model("mistral-7b").sliding_window, 4096U);
  EXPECT_EQ(model("microsoft/Phi-3.5-mini-instruct").sliding_window, 262'144U);
  EXPECT_EQ(model("microsoft/Phi-3-mini-128k-instruct").max_positions, 131'072U);
  EXPECT_EQ(model("microsoft/Phi-3-mini-4k-instruct").sliding_window, 2047U);
  EXPECT_EQ(model("mistralai/Mixtral-8x22B-Instruct-v0.1").vocab, 32'768U);
  EXPECT_FALSE(model("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B").tied_embeddings);
  EXPECT_EQ(model("Phi-4-reasoning").max_positions, 32'768U);
}

TEST(Catalog, WordsOfTrainingMayStandWithinAName) {
  const std::pair<const char*, const char*> cases[] = {
      {"internlm/internlm2-chat-7b", "internlm/internlm2-7b"},
      {"ibm-granite/granite-8b-code-instruct-4k", "ibm-granite/granite-8b-code-base-4k"},
      {"TinyLlama/TinyLlama-1.1B-Chat-v1.0", "TinyLlama/TinyLlama-1.1B"},
      {"mistralai/Mistral-7B-Instruct-v0.3", "mistralai/Mistral-7B-v0.3"}};
  for (const auto& [name, known] : cases) {
    const auto model = find_model(name);
    ASSERT_TRUE(model) << name;
    EXPECT_EQ(model->name, known);
  }
  EXPECT_FALSE(find_model("mistralai/Mistral-7B-Instruct-v0.9"));
}

TEST(Catalog, TheContextOfAnotherReleaseIsNotTakenForItsOwn) {
  EXPECT_EQ(find_model("Qwen/Qwen3-4B").value().max_positions, 40'960U);
  EXPECT_EQ(find_model("Qwen/Qwen3-4B").value().kin_positions, 0U);
  for (const char* name : {"Qwen/Qwen3-14B-2607", "Qwen/Qwen2.5-7B-Instruct-2607", "Hermes-4-70B"}) {
    EXPECT_EQ(find_model(name).value().max_positions, 0U) << name;
    EXPECT_GE(find_model(name).value().kin_positions, 40'960U) << name;
  }
  EXPECT_EQ(find_model("mistral-nemo-12b").value().max_positions, 128'000U) << "a size is no release";
  EXPECT_EQ(find_model("Qwen/Qwen3-8B-AWQ").value().max_positions, 40'960U);
  EXPECT_EQ(find_model("Llama-2-13b-chat-hf").value().max_positions, 4096U);
}

TEST(Catalog, ACheckpointHasTheWindowThatAWordOfItsNameSays) {
  const auto window = [](const char* name) { return find_model(name).value().max_positions; };
  EXPECT_EQ(window("Qwen/Qwen2.5-7B"), 131'072U);
  EXPECT_EQ(window("Qwen/Qwen2.5-7B-Instruct"), 32'768U);
  EXPECT_EQ(window("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4"), 32'768U);
  EXPECT_EQ(window("Qwen/Qwen2.5-Math-7B-Instruct"), 4096U) << "the least";
  EXPECT_EQ(window("Qwen/Qwen2.5-0.5B-Instruct"), 32'768U);
  EXPECT_EQ(window("mistralai/Mistral-Nemo-Base-2407"), 128'000U);
  EXPECT_EQ(window("mistralai/Mistral-Nemo-Instruct-2407"), 131'072U);
  EXPECT_EQ(window("codellama/CodeLlama-70b-Instruct-hf"), 4096U);
  EXPECT_EQ(window("Qwen/Qwen3-Coder-30B-A3B-Instruct"), 262'144U);
  for (const char* name :
       {"Qwen/Qwen3-4B-Instruct-2507", "stelterlab/Qwen3-30B-A3B-Instruct-2507-AWQ",
        "Qwen3-235B-A22B-Thinking-2507-FP8", "kimi-k2-instruct-0905", "moonshotai/Kimi-K2.6", "nvidia/Kimi-K2.6-NVFP4"})
    EXPECT_EQ(window(name), 262'144U) << name;
  for (const char* name : {"MiniMaxAI/MiniMax-M2", "MiniMaxAI/MiniMax-M2.1"}) EXPECT_EQ(window(name), 196'608U) << name;
  for (const char* name : {"DeepSeek-V3.1", "deepseek-ai/DeepSeek-V3-0324", "deepseek-ai/DeepSeek-R1-0528"})
    EXPECT_EQ(window(name), 163'840U) << name;
  for (const char* name : {"Llama-3.3-70B-Instruct", "DeepSeek-R1-0528-Qwen3-8B", "DeepSeek-R1-Distill-Qwen-14B"})
    EXPECT_EQ(window(name), 131'072U) << name;
  EXPECT_EQ(window("zai-org/GLM-4.6-FP8"), 202'752U);
  EXPECT_EQ(window("01-ai/Yi-1.5-34B-Chat"), 4096U);
}

TEST(Catalog, ATagOfOllamasIsReadAsANameAndASize) {
  const std::pair<const char*, const char*> cases[] = {{"deepseek-r1:32b", "Qwen/Qwen2.5-32B"},
                                                       {"deepseek-r1:70b", "deepseek-ai/DeepSeek-R1-Distill-Llama-70B"},
                                                       {"qwen3:32b", "Qwen/Qwen3-32B"},
                                                       {"llama3.1:8b", "meta-llama/Llama-3.1-8B"},
                                                       {"llama3.3:70b", "meta-llama/Llama-3.1-70B"},
                                                       {"gemma3:27b", "google/gemma-3-27b-it"},
                                                       {"Qwen3:30b-a3b", "Qwen/Qwen3-30B-A3B"},
                                                       {"phi4:latest", "microsoft/phi-4"}};
  for (const auto& [tag, known] : cases) {
    const auto model = find_model(tag);
    ASSERT_TRUE(model) << tag << ": " << model.error().message;
    EXPECT_EQ(model->name, known);
    EXPECT_EQ(model->quantization, "Q4_K_M");
    EXPECT_TRUE(model->tag && model->assumed_mix);
  }
  const auto stored = [](const char* tag) {
    const auto model = find_model(tag);
    EXPECT_TRUE(model && model->tag && !model->assumed_mix) << tag;
    return model ? model->quantization.value_or("16 bit") : "";
  };
  EXPECT_EQ(stored("llama3.1:70b-instruct-q4_K_M"), "Q4_K_M");
  EXPECT_EQ(stored("llama3.1:8b-instruct-q8_0"), "Q8_0");
  EXPECT_EQ(stored("qwen3:32b-fp16"), "16 bit");
  EXPECT_EQ(stored("gpt-oss:20b"), "MXFP4");
  EXPECT_EQ(stored("gemma3:27b-it-qat"), "Q4_0");
  EXPECT_FALSE(find_model("qwen3:33b"));
  EXPECT_FALSE(find_model(":32b"));
}

TEST(Catalog, FilesOfLlamaCppKeepWhatWasPublishedInMxfp4) {
  for (const char* name : {"ggml-org/gpt-oss-20b-GGUF", "gpt-oss-20b-mxfp4.gguf", "unsloth/gpt-oss-120b-GGUF"}) {
    const auto model = find_model(name);
    ASSERT_TRUE(model) << name << ": " << model.error().message;
    EXPECT_EQ(model->quantization, "MXFP4") << name;
    EXPECT_TRUE(model->mxfp4_experts && !model->assumed_mix) << name;
  }
  EXPECT_TRUE(find_model("gpt-oss-20b-Q4_K_M.gguf")->mxfp4_experts);
  EXPECT_FALSE(find_model("-GGUF"));
  EXPECT_FALSE(find_model(".gguf"));
}

TEST(Catalog, ANameOfAFileSaysTheModelAndItsMix) {
  struct Case {
    const char* name;
    const char* model;
    const char* mix;
  };
  constexpr Case kCases[] = {{"Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", "meta-llama/Llama-3.1-8B", "Q4_K_M"},
                             {"/models/llama-2-7b.Q5_K_S.gguf", "meta-llama/Llama-2-7b-hf", "Q5_K_S"},
                             {"Mistral-7B-Instruct-v0.3.i1-IQ2_XXS.gguf", "mistralai/Mistral-7B-v0.3", "IQ2_XXS"},
                             {"Llama-3.3-70B-Instruct-Q8_0-00001-of-00002.gguf", "meta-llama/Llama-3.1-70B", "Q8_0"},
                             {"bartowski/Qwen2.5-32B-Instruct-GGUF:IQ4_XS", "Qwen/Qwen2.5-32B", "IQ4_XS"},
                             {"hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF:Q6_K_L", "meta-llama/Llama-3.2-3B", "Q6_K_L"},
                             {"bartowski/google_gemma-3-4b-it-GGUF", "google/gemma-3-4b-it", "Q4_K_M"},
                             {"google/gemma-3-27b-it-qat-q4_0-gguf", "google/gemma-3-27b-it", "Q4_0"},
                             {"Qwen3-8B-Q4_K.gguf", "Qwen/Qwen3-8B", "Q4_K_M"},
                             {"mixtral-8x7b-instruct-v0.1.Q3_K_L.gguf", "mistralai/Mixtral-8x7B-v0.1", "Q3_K_L"},
                             {"qwen3-8b-q4_0", "Qwen/Qwen3-8B", "Q4_0"}};
  for (const auto& [name, known, mix] : kCases) {
    const auto model = find_model(name);
    ASSERT_TRUE(model) << name << ": " << model.error().message;
    EXPECT_EQ(model->name, known) << name;
    EXPECT_EQ(model->quantization, mix) << name;
    EXPECT_TRUE(model->gguf && !model->tag && model->dynamic_mix.empty()) << name;
    EXPECT_EQ(model->assumed_mix, std::string_view(name).ends_with("it-GGUF")) << name;
  }
  EXPECT_EQ(find_model("Qwen3-8B-F16.gguf")->quantization, std::nullopt);
  EXPECT_FALSE(find_model("Qwen3-8B-FP8")->gguf);
  EXPECT_FALSE(find_model("Qwen3-8B-Q9_K.gguf")) << "no such width";
}

TEST(Catalog, AMixThatNoRuleGivesIsPlannedByTheNearestAndSaysSo) {
  const auto model = find_model("unsloth/Qwen3-30B-A3B-GGUF:UD-Q4_K_XL");
  ASSERT_TRUE(model);
  EXPECT_EQ(model->quantization, "Q4_K_M");
  EXPECT_EQ(model->dynamic_mix, "UD-Q4_K_XL");
  EXPECT_EQ(find_model("Qwen3-8B-UD-IQ2_M.gguf")->quantization, "IQ2_M");
  EXPECT_EQ(find_model("Qwen3-8B-UD-IQ2_M.gguf")->dynamic_mix, "UD-IQ2_M");
  EXPECT_EQ(find_model("Qwen3-8B-Q3_K_XL.gguf")->quantization, "Q3_K_XL") << "bartowski's";
}

TEST(Catalog, ARepositorysNameIsAnsweredWithItsConfigsPlace) {
  const auto hint = [](const char* name) { return find_model(name).error().hint; };
  EXPECT_THAT(hint("acme/Secret-9X"), ::testing::HasSubstr("https://huggingface.co/acme/Secret-9X/tree/main"));
  EXPECT_THAT(hint("acme/Secret-9X"), ::testing::HasSubstr("once its terms are accepted"));
  EXPECT_THAT(hint("secret-9x"), ::testing::Not(::testing::HasSubstr("https")));
  EXPECT_THAT(hint("a b/<c>"), ::testing::Not(::testing::HasSubstr("https")));
}

TEST(Catalog, DatedNamesHaveTheirModelsShapeWithANote) {
  const std::pair<const char*, const char*> cases[] = {{"Qwen3-235B-A22B-Instruct-2507", "Qwen/Qwen3-235B-A22B"},
                                                       {"deepseek-ai/DeepSeek-V3-0324", "deepseek-ai/DeepSeek-V3"},
                                                       {"deepseek-ai/DeepSeek-R1-0528", "deepseek-ai/DeepSeek-R1"}};
  for (const auto& [name, known] : cases) {
    const auto model = find_model(name);
    ASSERT_TRUE(model) << name;
    EXPECT_EQ(model->name, known);
    EXPECT_FALSE(model->notes.empty()) << name;
  }
}

TEST(Catalog, AnAliasOfAnotherReleaseSaysByWhichShapeItIsPlanned) {
  const auto notes = [](const char* name) { return find_model(name).value().notes; };
  for (const char* name :
       {"mistralai/Devstral-Small-2507", "deepseek-ai/DeepSeek-V3.1", "mistralai/Mistral-Small-3.2-24B-Instruct-2506"})
    EXPECT_THAT(notes(name), ::testing::Contains(::testing::HasSubstr("is planned with the shape of"))) << name;
  for (const char* name : {"llama-3.1-8b", "meta-llama/Llama-3.1-8B-Instruct", "qwen2.5-7b", "gpt2"})
    EXPECT_THAT(notes(name), ::testing::Not(::testing::Contains(::testing::HasSubstr("the shape of")))) << name;
}

TEST(Catalog, NamesOfOtherFormatsAreTakenApartToo) {
  const std::pair<const char*, const char*> cases[] = {{"RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "int4"},
                                                       {"nvidia/Llama-3.1-8B-Instruct-FP4", "nvfp4"},
                                                       {"RedHatAI/Llama-3.3-70B-Instruct-NVFP4A16", "nvfp4"},
                                                       {"mobiuslabsgmbh/Llama-3.1-8b-instruct_4bit-HQQ", "hqq"},
                                                       {"RedHatAI/Mistral-Small-3.2-24B-Instruct-2506-FP8", "fp8"},
                                                       {"Qwen/Qwen3-Next-80B-A3B-Instruct-FP8", "fp8"}};
  for (const auto& [name, stored] : cases) {
    const auto model = find_model(name);
    ASSERT_TRUE(model) << name << ": " << model.error().message;
    EXPECT_EQ(model->quantization, stored) << name;
  }
}

TEST(Catalog, ModelsOf2025HaveTheirShapes) {
  const std::pair<const char*, const char*> cases[] = {
      {"Qwen3-Coder-30B-A3B-Instruct", "Qwen/Qwen3-30B-A3B"},
      {"Qwen3-Next-80B-A3B-Thinking", "Qwen/Qwen3-Next-80B-A3B-Instruct"},
      {"Mistral-Small-3.2-24B-Instruct-2506", "mistralai/Mistral-Small-3.1-24B-Base-2503"},
      {"Devstral-Small-2507", "mistralai/Devstral-Small-2505"},
      {"mistralai/Magistral-Small-2506", "mistralai/Magistral-Small-2506"},
      {"Ministral-8B-Instruct-2410", "mistralai/Ministral-8B-Instruct-2410"},
      {"GLM-4.5-Air-FP8", "zai-org/GLM-4.5-Air"},
      {"zai-org/GLM-4.6", "zai-org/GLM-4.5"},
      {"moonshotai/Kimi-K2-Instruct-0905", "moonshotai/Kimi-K2-Instruct"},
      {"arcee-ai/AFM-4.5B-Base", "arcee-ai/AFM-4.5B"},
      {"Qwen/Qwen2.5-VL-72B-Instruct-AWQ", "Qwen/Qwen2.5-VL-72B-Instruct"},
      {"Llama-4-Maverick-17B-128E-Instruct", "meta-llama/Llama-4-Maverick-17B-128E"},
      {"microsoft/Phi-4-multimodal-instruct", "microsoft/Phi-4-multimodal-instruct"},
      {"Phi-4-reasoning-plus", "microsoft/Phi-4-reasoning"},
      {"google/gemma-3n-E2B-it", "google/gemma-3n-E2B"},
      {"google/gemma-3-270m-it", "google/gemma-3-270m"},
      {"allenai/Olmo-3-7B-Think", "allenai/Olmo-3-1025-7B"},
      {"ByteDance-Seed/Seed-OSS-36B-Base", "ByteDance-Seed/Seed-OSS-36B-Instruct"}};
  for (const auto& [name, known] : cases) {
    const auto model = find_model(name);
    ASSERT_TRUE(model) << name << ": " << model.error().message;
    EXPECT_EQ(model->name, known) << name;
  }
}

TEST(Catalog, ModelsOf2026HaveTheirShapes) {
  const std::pair<const char*, const char*> cases[] = {
      {"qwen3.5-27b", "Qwen/Qwen3.5-27B"},
      {"Qwen/Qwen3.5-397B-A17B-FP8", "Qwen/Qwen3.5-397B-A17B"},
      {"Qwen3.6-35B-A3B", "Qwen/Qwen3.6-35B-A3B"},
      {"Qwen/Qwen3-VL-8B-Thinking", "Qwen/Qwen3-VL-8B-Instruct"},
      {"qwen3-vl-30b-a3b", "Qwen/Qwen3-VL-30B-A3B-Instruct"},
      {"Qwen/Qwen3-VL-235B-A22B-Instruct-AWQ", "Qwen/Qwen3-VL-235B-A22B-Instruct"},
      {"deepseek-ai/DeepSeek-V3.2-Exp", "deepseek-ai/DeepSeek-V3.2"},
      {"nvidia/DeepSeek-V3.2-NVFP4", "deepseek-ai/DeepSeek-V3.2"},
      {"glm-5", "zai-org/GLM-5"},
      {"zai-org/GLM-5.2-FP8", "zai-org/GLM-5.2"},
      {"MiniMax-M2", "MiniMaxAI/MiniMax-M2.5"},
      {"MiniMaxAI/MiniMax-M2.7", "MiniMaxAI/MiniMax-M2.7"},
      {"XiaomiMiMo/MiMo-7B-RL", "XiaomiMiMo/MiMo-7B-Base"},
      {"kimi-k2.5", "moonshotai/Kimi-K2.5"},
      {"moonshotai/Kimi-K2.6", "moonshotai/Kimi-K2.5"},
      {"NousResearch/Hermes-4-70B", "meta-llama/Llama-3.1-70B"},
      {"cognitivecomputations/Dolphin3.0-Mistral-24B", "mistralai/Mistral-Small-24B-Base-2501"}};
  for (const auto& [name, known] : cases) {
    const auto model = find_model(name);
    ASSERT_TRUE(model) << name << ": " << model.error().message;
    EXPECT_EQ(model->name, known) << name;
  }
  EXPECT_EQ(find_model("GLM-5.2")->max_positions, 1'048'576U);
  EXPECT_EQ(find_model("GLM-5.2")->indexer.layers, 21U);
  EXPECT_TRUE(find_model("kimi-k2.5")->quantized_experts_only);
}

TEST(Catalog, Gemma3nHasEmbeddingsForEachLayer) {
  // By hand from modeling_gemma3n.py: two tables, AltUp, LAuReL and the per-layer gates of 35 layers.
  EXPECT_EQ(count_parameters(*find_model("gemma-3n-E4B")).total, 6'866'696'688U);
  const auto model = *find_model("gemma-3n-E4B");
  EXPECT_EQ(kv_layers(model), 20U) << "15 layers use earlier layers' keys and values";
  EXPECT_EQ(model.sliding_layers, 28U);
}

TEST(Catalog, LinearAttentionKeepsAStateInThePlaceOfACache) {
  const auto model = *find_model("Qwen3-Next-80B-A3B-Instruct");
  EXPECT_EQ(kv_layers(model), 12U);
  // 36 layers of 32 heads of 128 x 128 in fp32, and four tokens of the convolution's 8,192 channels in 16 bit.
  EXPECT_EQ(linear_state_bytes(model), 36 * (32 * 128 * 128 * 4.0 + 8192 * 4 * 2));
  EXPECT_EQ(linear_state_bytes(*find_model("llama-3.1-8b")), 0);
}

TEST(Catalog, NamesOfFilesOfAnyWidthAreRefused) {
  const auto model = find_model("turboderp/Llama-3.1-8B-Instruct-exl3");
  ASSERT_FALSE(model);
  EXPECT_NE(model.error().hint.find("--quantization"), std::string::npos);
}

TEST(Catalog, APartOfANameIsToldWithThoseThatHoldIt) {
  const auto model = find_model("llama3");
  ASSERT_FALSE(model);
  EXPECT_NE(model.error().hint.find("Llama-3"), std::string::npos) << model.error().hint;
  EXPECT_EQ(model.error().hint.find("huggyllama"), std::string::npos) << model.error().hint;
}

TEST(Catalog, AFineTuneThatNamesItsModelHasItsShapeWithANote) {
  const auto names = std::to_array<std::pair<const char*, const char*>>(
      {{"NousResearch/Hermes-3-Llama-3.1-8B", "meta-llama/Llama-3.1-8B"},
       {"teknium/OpenHermes-2.5-Mistral-7B", "mistralai/Mistral-7B-v0.1"},
       {"cognitivecomputations/dolphin-2.9.2-qwen2-7b", "Qwen/Qwen2-7B"},
       {"NousResearch/Nous-Hermes-2-SOLAR-10.7B", "upstage/SOLAR-10.7B-v1.0"},
       {"someone/Tiger-Llama-3.1-8B-AWQ", "meta-llama/Llama-3.1-8B"}});
  for (const auto& [asked, known] : names) {
    const auto model = find_model(asked);
    ASSERT_TRUE(model) << asked;
    EXPECT_EQ(model->name, known) << asked;
    EXPECT_FALSE(model->notes.empty()) << asked;
  }
  EXPECT_EQ(find_model("someone/Tiger-Llama-3.1-8B-AWQ")->quantization_bits, 4U);
  // Other inputs, heads, widths, contexts, merges, generations and sizes: no shape is better than a wrong one.
  for (const char* other :
       {"ICTNLP/Llama-3.1-8B-Omni", "AIDC-AI/Ovis1.6-Gemma2-9B", "mlabonne/Beyonder-4x7B",
        "someone/Franken-Llama-3.1-8B-12B", "Skywork/Skywork-Reward-Llama-3.1-8B", "ibm-fms/llama-3-8b-accelerator",
        "ISTA-DASLab/Llama-2-7b-AQLM-2Bit-1x16-hf", "someone/Hermes-3-Llama-3.1-8B-quantized.w4a16",
        "someone/Wolf-Llama-3.1-8B-4.0bpw", "nvidia/Llama-3.1-8B-UltraLong-1M-Instruct",
        "deepcogito/cogito-v1-preview-qwen-14B", "princeton-nlp/Sheared-LLaMA-1.3B", "someone/my-llama-6.5B",
        "someone/Llama-3-18B", "someone/pythia-28b", "someone/Qwen2.5-15B"})
    EXPECT_FALSE(find_model(other)) << other;
}

TEST(FindModel, GemmasWithAVisionTowerHaveItsRows) {
  const ParameterCount count = count_parameters(*find_model("gemma-3-27b-it"));
  EXPECT_EQ(count.total, 27'432'406'640U);
  EXPECT_EQ(count.total - count.towers, 27'009'346'304U);
  for (const char* name : {"gemma-3-4b-it", "gemma-3-12b-it", "gemma-3-27b-it"})
    EXPECT_EQ(find_model(name)->vocab, 262'208U) << name;
}

}  // namespace
}  // namespace gpuwarden::planning
