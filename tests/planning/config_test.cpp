// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/config.hpp"

#include <gtest/gtest.h>

#include "gpuwarden/planning/parameters.hpp"

namespace gpuwarden::planning {
namespace {

using testing::HasSubstr;

constexpr std::string_view kLlama = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
  "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
  "max_position_embeddings": 131072, "rope_scaling": {"factor": 8.0, "rope_type": "llama3"}, "hidden_act": "silu",
  "attention_bias": false, "mlp_bias": false, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "rms_norm_eps": 1e-05, "eos_token_id": [128001, 128008], "attention_dropout": 0.0})";

std::string with(std::string_view json, std::string_view from, std::string_view to) {
  std::string text(json);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

Error error_of(std::string_view json, std::string_view family = {}) {
  const auto model = read_config(json, "config.json", family);
  EXPECT_FALSE(model) << json.substr(0, 200);
  return model ? Error{} : model.error();
}

TEST(ReadConfig, TakesEveryPartOfALlama) {
  const auto model = read_config(kLlama, "config.json");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->family, "llama");
  EXPECT_EQ(model->kind, ModelKind::decoder);
  EXPECT_EQ(model->kv_heads, 8U);
  EXPECT_EQ(model->head_dim, 128U);
  EXPECT_EQ(model->max_positions, 131072U);
  EXPECT_EQ(model->stored_type, DataType::bfloat16);
  EXPECT_FALSE(model->tied_embeddings);
  EXPECT_FALSE(model->dropout);
  EXPECT_EQ(model->source, "config.json");
  EXPECT_EQ(count_parameters(*model).total, 8030261248U);
}

TEST(ReadConfig, TheArchitectureNamesTheFamilyWhereTheTypeDoesNot) {
  const auto model = read_config(with(kLlama, R"("model_type": "llama",)", ""), "config.json");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->family, "llama");
}

TEST(ReadConfig, AttentionBiasAddsToAllFourMatrices) {
  const auto model =
      read_config(with(kLlama, R"("attention_bias": false)", R"("attention_bias": true)"), "config.json");
  ASSERT_TRUE(model);
  EXPECT_EQ(count_parameters(*model).total, 8030261248U + 32U * (4096 + 2 * 1024 + 4096));
}

TEST(ReadConfig, ATextModelInsideAMultimodalOneIsReadAndSaidToBe) {
  const auto model = read_config(
      R"({"model_type":"gemma3","architectures":["Gemma3ForConditionalGeneration"],"vision_config":{"hidden_size":1152},
          "text_config":{"model_type":"gemma3_text","hidden_size":2560,"intermediate_size":10240,
          "num_hidden_layers":34,"sliding_window":1024}})",
      "config.json");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->family, "gemma3");
  EXPECT_EQ(model->sliding_layers, 29U) << "every sixth layer sees all";
  EXPECT_EQ(model->heads, 8U) << "the class's default, which published files leave out";
  ASSERT_EQ(model->notes.size(), 1U);
  EXPECT_THAT(model->notes[0], HasSubstr("vision"));
}

TEST(ReadConfig, SlidingWindowsAreThoseOfTheFamily) {
  const auto layers = [](std::string_view json, std::string_view family) {
    const auto model = read_config(json, "config.json", family);
    EXPECT_TRUE(model) << (model ? "" : model.error().message);
    return model ? model->sliding_layers : 999;
  };
  const std::string window = with(kLlama, R"("vocab_size")", R"("sliding_window": 4096, "vocab_size")");
  EXPECT_EQ(layers(window, "mistral"), 32U);
  EXPECT_EQ(layers(window, "gemma2"), 16U);
  EXPECT_EQ(layers(window, "qwen2"), 0U) << "use_sliding_window is not set";
  const std::string sliding =
      with(window, R"("vocab_size")", R"("use_sliding_window": true, "max_window_layers": 28, "vocab_size")");
  EXPECT_EQ(layers(sliding, "qwen2"), 4U);
  EXPECT_EQ(
      layers(with(window, R"("vocab_size")", R"("layer_types": ["sliding_attention", "full_attention"], "vocab_size")"),
             "gemma3"),
      1U);
}

TEST(ReadConfig, LatentAttentionAndExpertsOfDeepSeekV3) {
  const auto model = read_config(
      R"({"model_type":"deepseek_v3","hidden_size":7168,"intermediate_size":18432,"moe_intermediate_size":2048,
          "num_hidden_layers":61,"first_k_dense_replace":3,"num_attention_heads":128,"num_key_value_heads":128,
          "n_routed_experts":256,"n_shared_experts":1,"num_experts_per_tok":8,"moe_layer_freq":1,
          "topk_method":"noaux_tc","scoring_func":"sigmoid","q_lora_rank":1536,"kv_lora_rank":512,
          "qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"vocab_size":129280,
          "num_nextn_predict_layers":1,"tie_word_embeddings":false,"attention_bias":false,
          "quantization_config":{"quant_method":"fp8","fmt":"e4m3","weight_block_size":[128,128]}})",
      "config.json");
  ASSERT_TRUE(model) << model.error().message;
  const ParameterCount count = count_parameters(*model);
  EXPECT_EQ(count.total, 671026419200U);
  EXPECT_EQ(count.active, 37552282624U);
  EXPECT_EQ(kv_elements_per_layer(*model) * 61 * 2, 70272U);
  EXPECT_EQ(model->quantization, "fp8");
  EXPECT_EQ(model->quantization_bits, 8U);
  EXPECT_EQ(model->notes.size(), 1U) << "the layers for multi-token prediction";
}

TEST(ReadConfig, ATruncatedFileIsToldWithItsPlace) {
  const Error error = error_of(std::string_view(kLlama).substr(0, 120));
  EXPECT_EQ(error.code, ErrorCode::corrupt);
  EXPECT_THAT(error.message, HasSubstr("config.json:3:"));
  EXPECT_THAT(error.message, HasSubstr("ends in the middle"));
}

TEST(ReadConfig, EveryCutOffConfigIsAnError) {
  for (std::size_t size = 0; size < kLlama.size(); ++size) {
    EXPECT_FALSE(read_config(kLlama.substr(0, size), "config.json")) << size;
  }
}

TEST(ReadConfig, TextsFractionsAndNegativesForNumbersAreNamed) {
  for (const char* value : {R"("32")", "-32", "32.5", "true", "[32]", "{}", "0", "1e300", "99999999999999999999"}) {
    const Error error =
        error_of(with(kLlama, R"("num_hidden_layers": 32)", std::string(R"("num_hidden_layers": )") + value));
    EXPECT_EQ(error.code, ErrorCode::invalid_argument) << value;
    EXPECT_THAT(error.message, HasSubstr("num_hidden_layers")) << value;
  }
  const Error error = error_of(with(kLlama, R"("hidden_size": 4096)", R"("hidden_size": "4096")"));
  EXPECT_EQ(error.message,
            R"(config.json: hidden_size is the text "4096", a whole number from 1 to 16777216 was expected)");
}

TEST(ReadConfig, WholeNumbersMayBeWrittenWithAPoint) {
  EXPECT_TRUE(read_config(with(kLlama, R"("hidden_size": 4096)", R"("hidden_size": 4096.0)"), "config.json"));
}

TEST(ReadConfig, NullMeansLeftOut) {
  const auto model =
      read_config(with(kLlama, R"("num_key_value_heads": 8)", R"("num_key_value_heads": null)"), "config.json");
  ASSERT_TRUE(model);
  EXPECT_EQ(model->kv_heads, 32U);
}

TEST(ReadConfig, AllMissingFieldsAreNamedAtOnce) {
  const Error error = error_of(R"({"model_type":"llama","hidden_size":4096})");
  EXPECT_THAT(error.message, HasSubstr("num_hidden_layers, num_attention_heads, intermediate_size, vocab_size"));
}

TEST(ReadConfig, AnUnknownArchitectureIsToldWithTheFieldsThatOneNeeds) {
  const Error error = error_of(with(kLlama, R"("model_type": "llama")", R"("model_type": "mamba9")")
                                   .replace(4, 37, R"("architectures": ["Mamba9ForCausalLM"])"));
  EXPECT_THAT(error.message, HasSubstr("'mamba9' is not known"));
  EXPECT_THAT(error.hint, HasSubstr("num_attention_heads"));
  EXPECT_THAT(error.hint, HasSubstr("llama"));
  EXPECT_THAT(error_of(R"({"hidden_size":64})").message, HasSubstr("neither model_type nor architectures"));
  EXPECT_THAT(error_of("{}", "mamba9").message, HasSubstr("mamba9"));
}

TEST(ReadConfig, DiffusionModelsAreRefusedAsWhatTheyAre) {
  for (const char* json : {R"({"_class_name":"UNet2DConditionModel","_diffusers_version":"0.6.0","sample_size":64})",
                           R"({"_class_name":"FluxTransformer2DModel","num_layers":19,"num_attention_heads":24})",
                           R"({"down_block_types":["DownBlock2D"],"layers_per_block":2})"}) {
    EXPECT_THAT(error_of(json).message, HasSubstr("diffusion")) << json;
  }
}

TEST(ReadConfig, SizesThatNoModelHasAreRefused) {
  const std::string layers = with(kLlama, R"("num_hidden_layers": 32)", R"("num_hidden_layers": 10000)");
  const std::string huge = with(layers, R"("intermediate_size": 14336)", R"("intermediate_size": 16777216)");
  EXPECT_THAT(error_of(with(huge, R"("hidden_size": 4096)", R"("hidden_size": 1048576)")).message,
              HasSubstr("no model has"));
  EXPECT_THAT(error_of(with(kLlama, R"("num_attention_heads": 32)", R"("num_attention_heads": 7)")).message,
              HasSubstr("4096 cannot be divided among 7 heads"));
  EXPECT_THAT(error_of(with(kLlama, R"("num_key_value_heads": 8)", R"("num_key_value_heads": 5)")).message,
              HasSubstr("32 attention heads cannot share 5"));
}

TEST(ReadConfig, NoConfigAtAllIsToldShortly) {
  EXPECT_THAT(error_of("").message, HasSubstr("is empty"));
  EXPECT_THAT(error_of("[1, 2]").message, HasSubstr("no object"));
  EXPECT_THAT(error_of("model: llama").message, HasSubstr("no JSON"));
  EXPECT_THAT(error_of(std::string(100'000, '[')).message, HasSubstr("nested deeper"));
  EXPECT_THAT(error_of("{\"a\":\"\xff\"}").message, HasSubstr("no JSON"));
  EXPECT_THAT(error_of(std::string(kLargestConfig + 1, ' ')).message, HasSubstr("bytes"));
}

TEST(KnownFamilies, AreFoundByAliasesAndSpellings) {
  for (const char* name : {"llama3.1", "Qwen2.5", "gpt-neox", "pythia", "deepseek_v3", "GPT_BigCode", "T5"}) {
    EXPECT_TRUE(is_known_family(name)) << name;
  }
  EXPECT_FALSE(is_known_family(""));
  EXPECT_FALSE(is_known_family("mamba"));
  EXPECT_GE(known_families().size(), 35U);
}

TEST(ShapeOfSize, IsALlamaOfThatSizeAndSaysItIsAGuess) {
  for (const double size : {5e6, 125e6, 1.1e9, 7e9, 13e9, 34e9, 70e9, 405e9, 1e12}) {
    const auto model = shape_of_size(size);
    ASSERT_TRUE(model) << size << ": " << model.error().message;
    EXPECT_TRUE(model->estimated);
    EXPECT_FALSE(model->notes.empty());
    EXPECT_NEAR(static_cast<double>(count_parameters(*model).total) / size, 1.0, 0.01) << size;
    EXPECT_EQ(model->hidden % model->heads, 0U) << size;
    EXPECT_EQ(model->heads % model->kv_heads, 0U) << size;
  }
}

TEST(ShapeOfSize, LargeOnesCanBeSharedByEightGpusAndGroupTheirKeys) {
  for (const double size : {7e9, 13e9, 14e9, 32e9, 65e9, 70e9, 180e9, 405e9}) {
    const auto model = shape_of_size(size);
    ASSERT_TRUE(model) << size;
    EXPECT_EQ(model->heads % 8, 0U) << size;
    EXPECT_EQ(model->kv_heads, 8U) << size;
  }
  EXPECT_EQ(shape_of_size(7e9, {.heads = 31})->heads, 31U) << "what is given is kept";
}

TEST(ShapeOfSize, KeepsWhatIsGiven) {
  const auto model = shape_of_size(6.74e9, {.hidden = 4096, .layers = 32, .heads = 32, .kv_heads = 32, .vocab = 32000});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->hidden, 4096U);
  EXPECT_EQ(model->kv_heads, 32U);
  EXPECT_NEAR(model->intermediate, 11008, 20);
}

TEST(ShapeOfSize, RefusesWhatCannotBe) {
  EXPECT_FALSE(shape_of_size(10));
  EXPECT_FALSE(shape_of_size(1e15));
  EXPECT_FALSE(shape_of_size(7e9, {.hidden = 64, .layers = 2}));
  EXPECT_FALSE(shape_of_size(7e9, {.heads = 4099}));
}

TEST(ParseParameters, TakesCountsAsPeopleWriteThem) {
  EXPECT_EQ(parse_parameters("7B").value(), 7e9);
  EXPECT_EQ(parse_parameters(" 1.3b ").value(), 1.3e9);
  EXPECT_EQ(parse_parameters("350M").value(), 350e6);
  EXPECT_EQ(parse_parameters("6738415616").value(), 6738415616.0);
  for (const char* text : {"", "B", "8x7B", "-7B", "7Q", "1e400", "0", "7", "nan", "7 B B"}) {
    EXPECT_FALSE(parse_parameters(text)) << text;
  }
}

}  // namespace
}  // namespace gpuwarden::planning
