// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/config.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <tuple>

#include "gpuwarden/planning/parameters.hpp"

namespace gpuwarden::planning {
namespace {

using ::testing::HasSubstr;

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
  EXPECT_THAT(error.message, HasSubstr("unknown architecture 'mamba9'"));
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
  EXPECT_THAT(error_of("[1, 2]").message, HasSubstr("not an object"));
  EXPECT_THAT(error_of("model: llama").message, HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of(std::string(100'000, '[')).message, HasSubstr("nested deeper"));
  EXPECT_THAT(error_of("{\"a\":\"\xff\"}").message, HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of(std::string(kLargestConfig + 1, ' ')).message, HasSubstr("bytes"));
}

ModelShape quantized(std::string_view config) {
  const auto model =
      read_config(with(kLlama, R"("vocab_size")", fmt::format(R"("quantization_config": {}, "vocab_size")", config)),
                  "config.json");
  EXPECT_TRUE(model) << config << (model ? "" : model.error().message);
  return model.value_or(ModelShape{});
}

TEST(ReadQuantization, TakesEveryMethodsOwnWayOfSayingIt) {
  struct Case {
    std::string_view config;
    std::string_view name;
    std::uint32_t bits;
  };
  constexpr Case kCases[] = {
      {R"({"quant_method":"gptq","bits":4,"group_size":128})", "gptq", 4},
      {R"({"quant_method":"AWQ","w_bit":4})", "awq", 4},
      {R"({"quant_method":"bitsandbytes","load_in_4bit":true,"load_in_8bit":false})", "bitsandbytes", 4},
      {R"({"quant_method":"bitsandbytes","load_in_8bit":true})", "bitsandbytes", 8},
      {R"({"quant_method":"compressed-tensors","config_groups":{"group_0":{"weights":{"num_bits":8,"type":"float"}}}})",
       "compressed-tensors fp8", 8},
      {R"({"quant_method":"compressed-tensors","config_groups":{"group_0":{"weights":{"num_bits":4,"type":"int"}}}})",
       "compressed-tensors int4", 4},
      {R"({"quant_method":"compressed-tensors","config_groups":{"W8":{"weights":{"num_bits":8,"type":"int"}}}})",
       "compressed-tensors int8", 8},
      {R"({"quant_method":"hqq","quant_config":{"weight_quant_params":{"nbits":4,"group_size":64}}})", "hqq", 4},
      {R"({"quant_method":"hqq","quant_config":{"self_attn.q_proj":{"weight_quant_params":{"nbits":8}}}})", "hqq", 8},
      {R"({"quant_method":"torchao","quant_type":"int4_weight_only"})", "torchao int4", 4},
      {R"({"quant_method":"torchao","quant_type":{"default":{"_type":"Float8WeightOnlyConfig","_data":{}}}})",
       "torchao fp8", 8},
      {R"({"quant_method":"torchao","quant_type":{"default":{"_type":"Int8DynamicActivationInt4WeightConfig"}}})",
       "torchao int4", 4},
      {R"({"quant_method":"torchao","quant_type":"int8_dynamic_activation_int8_weight"})", "torchao int8", 8},
      {R"({"quant_method":"modelopt","quant_algo":"W4A8_AWQ"})", "modelopt int4", 4},
      {R"({"quant_method":"modelopt","quant_algo":"FP8"})", "modelopt fp8", 8},
      {R"({"quant_method":"quanto","weights":"int8"})", "quanto int8", 8},
      {R"({"quant_method":"mxfp4"})", "mxfp4", 4},
      {R"({"quant_method":"fbgemm_fp8"})", "fbgemm_fp8", 8}};
  for (const Case& one : kCases) {
    const ModelShape model = quantized(one.config);
    EXPECT_EQ(model.quantization, one.name) << one.config;
    EXPECT_EQ(model.quantization_bits, one.bits) << one.config;
    EXPECT_TRUE(model.notes.empty()) << one.config << model.notes.front();
  }
}

TEST(ReadQuantization, WhatIsCountedAsSomethingElseIsSaid) {
  struct Case {
    std::string_view config;
    std::uint32_t bits;
    std::string_view note;
  };
  constexpr Case kCases[] = {
      {R"({"quant_method":"gptq","bits":2})", 4, "weights of 2 bits are counted as 4-bit ones"},
      {R"({"quant_method":"gptq","bits":3})", 4, "weights of 3 bits are counted as 4-bit ones"},
      {R"({"quant_method":"xyz","bits":4})", 4,
       "unknown quantization method 'xyz': its weights are counted as 4-bit ones"},
      {R"({"quant_method":"xyz"})", 0, "(xyz) does not say how wide the weights are: they are counted in 16 bit"},
      {R"({"quant_method":"compressed-tensors"})", 0, "counted in 16 bit"},
      {R"({"quant_method":"modelopt","quant_algo":"MIXED_PRECISION","config_groups":{
           "group_0":{"weights":{"num_bits":8,"type":"float"}},"group_1":{"weights":{"num_bits":4,"type":"float"}}}})",
       8, "some matrices have 8 bits, others 4: all are counted as 8-bit ones"},
      {R"({"quant_method":"gptq","bits":9})", 0, "weights of 9 bits are counted as 16-bit ones"},
      {R"({})", 0, "(no quant_method)"}};
  for (const Case& one : kCases) {
    const ModelShape model = quantized(one.config);
    EXPECT_EQ(model.quantization_bits, one.bits) << one.config;
    ASSERT_EQ(model.notes.size(), 1U) << one.config;
    EXPECT_THAT(model.notes.front(), HasSubstr(std::string(one.note)));
  }
}

TEST(ReadQuantization, ExpertsAloneArePackedWhereAllOfAttentionIsSpared) {
  const auto experts_alone = [](const std::string& ignored) {
    const std::string text = fmt::format(
        R"({{"model_type": "mixtral", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4,
            "num_attention_heads": 4, "vocab_size": 100, "num_local_experts": 8, "num_experts_per_tok": 2,
            "quantization_config": {{"quant_method": "awq", "bits": 4, "modules_to_not_convert": [{}]}}}})",
        ignored);
    const auto model = read_config(text, "config.json");
    EXPECT_TRUE(model) << ignored << (model ? "" : model.error().message);
    return model && model->quantized_experts_only;
  };
  EXPECT_TRUE(experts_alone(R"("lm_head", "self_attn")"));
  EXPECT_TRUE(experts_alone(R"("re:.*self_attn.*")"));
  EXPECT_TRUE(experts_alone(R"("model.layers.*.self_attn")"));
  constexpr const char* kLayer = R"("model.layers.{0}.self_attn.q_proj", "model.layers.{0}.self_attn.o_proj")";
  const auto layers = [&](std::size_t count) {
    std::vector<std::string> named;
    for (std::size_t layer = 0; layer < count; ++layer) named.push_back(fmt::format(fmt::runtime(kLayer), layer));
    return fmt::format("{}", fmt::join(named, ", "));
  };
  EXPECT_TRUE(experts_alone(layers(4)));
  EXPECT_TRUE(experts_alone(layers(3)));
  EXPECT_FALSE(experts_alone(layers(2))) << "half of the layers are packed";
  EXPECT_TRUE(experts_alone(R"("model.layers.0.linear_attn*", "model.layers.1.linear_attn*", "model.l.2.self_attn*")"));
  EXPECT_FALSE(experts_alone(R"("model.layers.0.self_attn.q*", "model.layers.1.self_attn.q*", "x.2.self_attn.q*")"));
  EXPECT_FALSE(experts_alone(R"("re:.*self_attn.kv_b_proj")"));
  EXPECT_FALSE(experts_alone(R"("model.layers.0.self_attn")"));
  EXPECT_FALSE(experts_alone(R"("re:vision_tower.*self_attn.*")"));
  EXPECT_FALSE(experts_alone(R"("lm_head", "re:.*mlp.gate$")"));
}

TEST(ReadQuantization, SixteenBitsNeedNoNote) {
  const ModelShape model = quantized(R"({"quant_method":"gptq","bits":16})");
  EXPECT_EQ(model.quantization_bits, 0U);
  EXPECT_TRUE(model.notes.empty());
}

TEST(ReadQuantization, StandsBesideTheInnerObjectOrInIt) {
  const auto nested = [](std::string_view outer, std::string_view inner) {
    const std::string text = fmt::format(
        R"({{"model_type": "llava", "text_config": {{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
            "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100{}}}{}}})",
        inner, outer);
    const auto model = read_config(text, "x");
    return model ? static_cast<int>(model->quantization_bits) : -1;
  };
  constexpr std::string_view kGptq = R"(, "quantization_config": {"quant_method": "gptq", "bits": 4})";
  constexpr std::string_view kBytes = R"(, "quantization_config": {"quant_method": "gptq", "bits": 8})";
  EXPECT_EQ(nested("", ""), 0);
  EXPECT_EQ(nested(kGptq, ""), 4);
  EXPECT_EQ(nested("", kGptq), 4);
  EXPECT_EQ(nested(kGptq, kBytes), 8) << "the inner one is the language model's own";
}

TEST(ReadQuantization, WhatIsNoObjectIsAnError) {
  for (const char* value : {R"("gptq")", "4", "[]", "true"}) {
    const Error error =
        error_of(with(kLlama, R"("vocab_size")", fmt::format(R"("quantization_config": {}, "vocab_size")", value)));
    EXPECT_THAT(error.message, HasSubstr("quantization_config is not an object")) << value;
  }
  EXPECT_TRUE(read_config(with(kLlama, R"("vocab_size")", R"("quantization_config": null, "vocab_size")"), "c"));
  EXPECT_THAT(error_of(with(kLlama, R"("vocab_size")",
                            R"("quantization_config": {"quant_method":"gptq","bits":"4"}, "vocab_size")"))
                  .message,
              HasSubstr("quantization_config.bits"));
}

TEST(ReadConfig, AFamilyOfExpertsHasThemWhereTheFileSaysNothing) {
  const auto read = [](std::string_view family, std::string_view extra = "") {
    return read_config(with(with(kLlama, R"("llama", )", fmt::format(R"("{}", )", family)), R"("vocab_size")",
                            fmt::format(R"({}"vocab_size")", extra)),
                       "config.json");
  };
  for (const auto& [family, experts, each] : {std::tuple{"mixtral", 8U, 2U},
                                              {"qwen3_moe", 128U, 8U},
                                              {"qwen2_moe", 60U, 4U},
                                              {"olmoe", 64U, 8U},
                                              {"gpt_oss", 128U, 4U}}) {
    const auto model = read(family);
    ASSERT_TRUE(model) << family << model.error().message;
    EXPECT_EQ(model->experts.experts, experts) << family;
    EXPECT_EQ(model->experts.experts_per_token, each) << family;
    ASSERT_EQ(model->notes.size(), 1U) << family;
    EXPECT_THAT(model->notes.front(), HasSubstr("names no number of experts")) << family;
    const auto named = read(family, R"("num_local_experts": 16, )");
    ASSERT_TRUE(named) << family;
    EXPECT_EQ(named->experts.experts, 16U) << family;
    EXPECT_TRUE(named->notes.empty()) << family;
    const auto none = read(family, R"("num_local_experts": 0, )");
    ASSERT_FALSE(none) << family;
    EXPECT_THAT(none.error().message, HasSubstr("num_local_experts is 0")) << family;
  }
  EXPECT_EQ(read("llama", R"("num_local_experts": 0, )")->experts.experts, 0U) << "a dense family may say so";
}

TEST(ReadConfig, AnInnerModelWithoutSizesHasItsClasss) {
  const auto model = read_config(
      R"({"model_type":"llava","vision_config":{},"text_config":{"model_type":"llama","vocab_size":32064,
          "max_position_embeddings":4096,"torch_dtype":"float16"}})",
      "config.json");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(count_parameters(*model).total, 6738939904U) << "Vicuna 7B with 64 rows more";
  EXPECT_THAT(model->notes.front(), HasSubstr("as transformers' llama class has them"));
  EXPECT_THAT(error_of(R"({"model_type":"llava","text_config":"x"})").message,
              HasSubstr("text_config is not an object"));
}

TEST(ReadConfig, AHeadThatIsNotCountedIsSaid) {
  const auto notes = [](std::string_view json) {
    const auto model = read_config(json, "config.json");
    EXPECT_TRUE(model) << (model ? "" : model.error().message);
    return model && !model->notes.empty() ? model->notes.front() : std::string();
  };
  constexpr std::string_view kBert = R"({"model_type":"bert","architectures":["BertModel"],"hidden_size":768,
    "num_hidden_layers":12,"num_attention_heads":12,"intermediate_size":3072,"vocab_size":30522,
    "max_position_embeddings":512})";
  EXPECT_EQ(notes(kBert), "");
  EXPECT_THAT(notes(with(kBert, "BertModel", "BertForMaskedLM")), HasSubstr("the head of BertForMaskedLM"));
  EXPECT_THAT(notes(with(kLlama, "LlamaForCausalLM", "LlamaForSequenceClassification")),
              HasSubstr("counted with the language model's head, which LlamaForSequenceClassification has not"));
  EXPECT_EQ(notes(kLlama), "");
  constexpr std::string_view kVit = R"({"model_type":"vit","architectures":["ViTForImageClassification"],
    "hidden_size":768,"num_hidden_layers":12,"num_attention_heads":12,"intermediate_size":3072,"image_size":224,
    "patch_size":16})";
  EXPECT_THAT(notes(kVit), HasSubstr("ViTForImageClassification"));
  EXPECT_EQ(notes(with(kVit, R"("patch_size")", R"("id2label":{"0":"a","1":"b"},"patch_size")")), "");
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

TEST(ReadConfig, SizesOfLinearAttentionAndLayerInputsThatNoModelHasAreRefused) {
  const auto sized = [](std::string_view family, std::string_view more) {
    return read_config(fmt::format(R"({{"hidden_size": 4096, "num_hidden_layers": 48, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 1000, {}}})",
                                   more),
                       "c", family);
  };
  EXPECT_TRUE(sized("qwen3_next", R"("linear_num_key_heads": 16)"));
  EXPECT_FALSE(sized("qwen3_next", R"("linear_num_key_heads": 65536, "linear_key_head_dim": 65536)"));
  EXPECT_TRUE(sized("gemma3n", R"("laurel_rank": 64)"));
  EXPECT_FALSE(sized("gemma3n", R"("hidden_size_per_layer_input": 16777216, "vocab_size_per_layer_input": 16777216)"));
}

TEST(ReadConfig, AListOfOneSizeForEachLayerIsThatSize) {
  const auto layered = read_config(R"({"model_type": "gemma3n_text", "hidden_size": 2048, "num_hidden_layers": 3,
      "num_attention_heads": 8, "intermediate_size": [8192, 8192, 8192], "vocab_size": 1000})",
                                   "c");
  ASSERT_TRUE(layered) << layered.error().message;
  EXPECT_EQ(layered->intermediate, 8192U);
}

}  // namespace
}  // namespace gpuwarden::planning
