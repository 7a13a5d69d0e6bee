// SPDX-License-Identifier: Apache-2.0
#include "planning/formats.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpuwarden/planning/catalog.hpp"
#include "gpuwarden/planning/config.hpp"
#include "gpuwarden/planning/estimate.hpp"
#include "planning/shapes.hpp"

namespace gpuwarden::planning {
namespace {

double bytes(const ModelShape& model, Quantization kind) { return frozen_bytes(frozen_format(model, kind), 2); }

TEST(WeightFormats, HaveTheBytesThatTheirPackingTakes) {
  const ModelShape model = testing::llama3_8b();
  EXPECT_EQ(bytes(model, Quantization::none), 2);
  EXPECT_EQ(bytes(model, Quantization::nf4), 0.5 + 4.0 / 64);
  EXPECT_DOUBLE_EQ(bytes(model, Quantization::nf4_double), 0.5 + 1.0 / 64 + 4.0 / (64 * 256));
  EXPECT_EQ(bytes(model, Quantization::int4), 0.5 + 2.5 / 128);
  EXPECT_EQ(bytes(model, Quantization::hqq), 0.5 + 4.0 / 64);
  EXPECT_EQ(bytes(model, Quantization::int8), 1 + 3.0 / 128);
  EXPECT_EQ(bytes(model, Quantization::fp8), 1 + 4.0 / (128 * 128));
  EXPECT_EQ(bytes(model, Quantization::mxfp4), 0.5 + 1.0 / 32);
  EXPECT_EQ(bytes(model, Quantization::nvfp4), 0.5 + 1.0 / 16);
}

TEST(WeightFormats, TakeTheGroupThatTheFileNames) {
  ModelShape model = testing::llama3_8b();
  model.quantization = "gptq";
  model.quantization_bits = 4;
  model.quantization_group = 32;
  EXPECT_EQ(bytes(model, Quantization::int4), 0.5 + 2.5 / 32);
  EXPECT_EQ(bytes(model, Quantization::hqq), 0.5 + 4.0 / 64) << "another format than the file's";
  EXPECT_EQ(formula_of(frozen_format(model, Quantization::int4)), "4 bit + 2.5 B for 32");
}

TEST(WeightFormats, SayFromWhichGpuOnTheyAreMultipliedIn) {
  EXPECT_EQ(find_format(Quantization::nf4)->computes_from, 0);
  EXPECT_EQ(find_format(Quantization::int4)->computes_from, 0);
  EXPECT_EQ(find_format(Quantization::fp8)->computes_from, 89);
  EXPECT_EQ(find_format(Quantization::nvfp4)->computes_from, 100);
  EXPECT_EQ(find_format(Quantization::none), nullptr);
}

TEST(WeightFormats, CheckpointsOfWeightsAloneAreOnlyStored) {
  const auto named = [](const char* name) {
    const ModelShape model = *find_model(name);
    return computes_from(model, stored_quantization(model));
  };
  EXPECT_EQ(named("Qwen2.5-7B-Instruct-GPTQ-Int8"), 0);
  EXPECT_EQ(named("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a16"), 0);
  EXPECT_EQ(named("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8"), 75);
  EXPECT_EQ(named("RedHatAI/Llama-3.3-70B-Instruct-NVFP4A16"), 0);
  EXPECT_EQ(named("nvidia/Llama-3.1-8B-Instruct-NVFP4"), 100);
  EXPECT_EQ(computes_from(*find_model("llama-3.1-8b"), Quantization::int8), 75) << "bitsandbytes multiplies in it";

  const auto stored = [](const std::string& quantization) {
    const ModelShape model =
        *read_config(R"({"model_type":"llama","hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":2,
        "num_attention_heads":32,"vocab_size":1000,"quantization_config":)" +
                         quantization + "}",
                     "c");
    return computes_from(model, stored_quantization(model));
  };
  EXPECT_EQ(stored(R"({"quant_method":"gptq","bits":8,"group_size":128})"), 0);
  EXPECT_EQ(stored(R"({"quant_method":"bitsandbytes","load_in_8bit":true})"), 75);
  EXPECT_EQ(stored(R"({"quant_method":"compressed-tensors","config_groups":{"group_0":{"input_activations":null,
      "weights":{"num_bits":8,"type":"int"}}}})"),
            0);
  EXPECT_EQ(stored(R"({"quant_method":"compressed-tensors","config_groups":{"group_0":{
      "input_activations":{"num_bits":8,"type":"int"},"weights":{"num_bits":8,"type":"int"}}}})"),
            75);
  EXPECT_EQ(stored(R"({"quant_method":"compressed-tensors","config_groups":{"group_0":{"input_activations":null,
      "weights":{"num_bits":4,"type":"float","group_size":16}}}})"),
            0);
  EXPECT_EQ(stored(R"({"quant_method":"torchao","quant_type":"int8_weight_only"})"), 0);
}

TEST(WeightFormats, ExpertsAlonePackedLeaveTheRemainderIn16Bit) {
  const ModelShape thinking = *find_model("moonshotai/Kimi-K2-Thinking");
  EXPECT_TRUE(thinking.quantized_experts_only);
  EXPECT_EQ(thinking.quantization_group, 32U);
  const FrozenFormat format = frozen_format(thinking, stored_quantization(thinking));
  EXPECT_TRUE(format.experts_only);
  EXPECT_EQ(frozen_bytes(format, 2), 0.5 + 2.5 / 32);
  EXPECT_FALSE(find_model("moonshotai/Kimi-K2-Instruct")->quantized_experts_only);
}

TEST(WeightFormats, AreReadFromConfigsWithTheirGroups) {
  const auto stored = [](const std::string& quantization) {
    return *read_config(R"({"model_type":"llama","hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":2,
        "num_attention_heads":32,"vocab_size":1000,"quantization_config":)" +
                            quantization + "}",
                        "c");
  };
  const ModelShape hqq = stored(R"({"quant_method":"hqq","quant_config":{"weight_quant_params":{"nbits":4,
      "group_size":128}}})");
  EXPECT_EQ(stored_quantization(hqq), Quantization::hqq);
  EXPECT_EQ(bytes(hqq, Quantization::hqq), 0.5 + 4.0 / 128);
  const ModelShape channel = stored(R"({"quant_method":"gptq","bits":4,"group_size":-1})");
  EXPECT_EQ(channel.quantization_group, 0U);
  EXPECT_EQ(stored_quantization(stored(R"({"quant_method":"modelopt","quant_algo":"NVFP4"})")), Quantization::nvfp4);
}

}  // namespace
}  // namespace gpuwarden::planning
