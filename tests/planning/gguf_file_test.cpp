// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/gguf_file.hpp"

#include <sstream>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/planning/catalog.hpp"
#include "gpuwarden/planning/gguf.hpp"
#include "gpuwarden/planning/parameters.hpp"
#include "support/corpus.hpp"
#include "support/gguf.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::planning {
namespace {

using namespace gpuwarden::testing;
using ::testing::HasSubstr;

Result<GgufHeader> read_bytes(const std::string& bytes, std::uint64_t more = 0) {
  std::istringstream stream(bytes);
  return read_gguf(stream, bytes.size() + more, "x.gguf");
}

Result<GgufHeader> read_file_of(const GgufFile& file) { return read_bytes(file.head(), file.data_bytes()); }

ModelShape shape_in(const GgufFile& file) {
  const auto header = read_file_of(file);
  EXPECT_THAT(header, IsOk());
  auto model = model_of(*header, "x.gguf");
  EXPECT_THAT(model, IsOk());
  return model.value_or(ModelShape{});
}

constexpr std::uint32_t kF32 = 0;
constexpr std::uint32_t kQ4K = 12;
constexpr std::uint32_t kLaterFormat = 200;

/// A table of tokens and an output, beside the sizes that every head has.
GgufFile file_with(std::string_view architecture, std::uint32_t hidden, std::uint32_t layers, std::uint32_t vocab) {
  GgufFile file(architecture);
  const std::uint64_t table = std::uint64_t{hidden} * vocab / 256 * 144;
  file.own("embedding_length", hidden).own("block_count", layers).own("context_length", 131'072);
  file.tensor("token_embd.weight", {hidden, vocab}, kQ4K, table);
  file.tensor("output.weight", {hidden, vocab}, kQ4K, table);
  return file;
}

TEST(GgufFile, WhatPyPIsWriterWroteIsRead) {
  const auto bytes = read_file(source_folder() / "fuzz/corpus/gguf/qwen3moe.gguf");
  ASSERT_THAT(bytes, IsOk());
  const auto header = read_bytes(*bytes);
  ASSERT_THAT(header, IsOk());
  EXPECT_EQ(header->text("general.architecture"), "qwen3moe");
  EXPECT_EQ(header->number("qwen3moe.expert_count"), 4);
  EXPECT_EQ(header->lengths.at("tokenizer.ggml.tokens"), 40U);
  EXPECT_EQ(header->tensors.size(), 20U);
  const auto model = model_of(*header, "x.gguf");
  ASSERT_THAT(model, IsOk());
  EXPECT_EQ(model->family, "qwen3_moe");
  EXPECT_EQ(model->quantization, "Q4_0");
  EXPECT_EQ(model->experts.experts, 4U);
  EXPECT_EQ(model->experts.intermediate, 64U);
  EXPECT_EQ(model->kv_heads * model->head_dim, 16U);
  EXPECT_TRUE(model->tied_embeddings);
  // Four matrices of 64 x 32 three times, 18 bytes for 32 weights.
  EXPECT_EQ(model->file->experts[1], 3 * 4 * 64 * 32 / 32 * 18);
  EXPECT_EQ(model->file->embedding, 40 * 18);
  EXPECT_EQ(model->file->copied, 40 * 18);
}

TEST(GgufFile, CutAnywhereItIsRefused) {
  const auto bytes = read_file(source_folder() / "fuzz/corpus/gguf/qwen3moe.gguf");
  ASSERT_THAT(bytes, IsOk());
  for (std::size_t length = 0; length < bytes->size(); length += length < 3000 ? 1 : 997)
    EXPECT_EQ(read_bytes(bytes->substr(0, length)).error().code, ErrorCode::corrupt) << length;
  EXPECT_THAT(read_bytes(bytes->substr(0, bytes->size() - 100)).error().message, HasSubstr("is not complete"));
}

TEST(GgufFile, OtherFilesAreToldApart) {
  EXPECT_THAT(read_bytes("PK\x03\x04 a zip's head").error().message, HasSubstr("is not a GGUF file"));
  EXPECT_THAT(read_bytes("").error().message, HasSubstr("is not a GGUF file"));
  EXPECT_THAT(read_bytes(std::string("GGUF\x01\0\0\0", 8)).error().message, HasSubstr("version 1"));
  EXPECT_THAT(read_bytes(std::string("GGUF\0\0\0\x03", 8)).error().message, HasSubstr("big-endian"));
  EXPECT_THAT(read_bytes(std::string("GGUF\x03\0\0\0", 8) + std::string(16, '\xff')).error().message,
              HasSubstr("entries"));
}

TEST(GgufFile, ATensorOfALaterFormatReachesToTheNext) {
  GgufFile file = file_with("llama", 256, 1, 256);
  file.own("attention.head_count", 4).tensor("blk.0.ffn_up.weight", {256, 256}, kLaterFormat, 9984);
  file.tensor("output_norm.weight", {256}, kF32, 1024);
  const auto header = read_file_of(file);
  ASSERT_THAT(header, IsOk());
  EXPECT_EQ(header->tensors[2].bytes, 9984U);
  EXPECT_EQ(header->tensors[3].bytes, 1024U);
}

TEST(GgufModel, AdaptersTowersAndLaterPartsAreNoModels) {
  GgufFile adapters = file_with("llama", 256, 1, 256);
  adapters.text("general.type", "adapter");
  EXPECT_THAT(model_of(*read_file_of(adapters), "x").error().message, HasSubstr("adapters alone"));
  EXPECT_THAT(model_of(*read_file_of(GgufFile("clip")), "x").error().message, HasSubstr("images or sound"));
  EXPECT_THAT(model_of(*read_file_of(GgufFile("")), "x").error().hint, HasSubstr("00001-of"));
  EXPECT_THAT(model_of(*read_file_of(GgufFile("llama")), "x").error().message,
              HasSubstr("no embedding_length, block_count, token_embd.weight"));
}

/// What a cache and a split need of a model, as a line.
std::string memory_of(const ModelShape& model) {
  std::ostringstream text;
  text << model.layers << " layers, " << kv_layers(model) << " with " << kv_elements_per_layer(model) << ", "
       << model.sliding_layers << " of a window of " << model.sliding_window << ", " << expert_layers(model)
       << " with experts, states " << linear_state_bytes(model);
  return text.str();
}

/// The head that convert_hf_to_gguf.py writes for a model of the catalogue.
GgufFile head_of(const ModelShape& model, std::string_view architecture) {
  GgufFile file = file_with(architecture, model.hidden, model.layers, model.vocab);
  file.own("attention.head_count", model.heads).own("attention.head_count_kv", model.kv_heads);
  file.own("attention.key_length", model.head_dim).own("attention.value_length", model.head_dim);
  file.own("feed_forward_length", std::max(1U, model.intermediate));
  if (model.experts.experts == 0) return file;
  file.own("expert_count", model.experts.experts).own("expert_used_count", model.experts.experts_per_token);
  file.own("expert_feed_forward_length", model.experts.intermediate);
  file.own("leading_dense_block_count", model.experts.dense_layers);
  return file;
}

TEST(GgufModel, HasTheSizesOfTheModelThatItWasMadeOf) {
  struct Row {
    const char* name;
    const char* architecture;
  };
  for (const Row& row : {Row{"llama-3.1-8b", "llama"}, Row{"qwen2.5-7b", "qwen2"}, Row{"qwen3-30b-a3b", "qwen3moe"},
                         Row{"mixtral-8x7b", "llama"}, Row{"glm-4.5-air", "glm4moe"}}) {
    const ModelShape model = *find_model(row.name);
    EXPECT_EQ(memory_of(shape_in(head_of(model, row.architecture))), memory_of(model)) << row.name;
  }
  for (const Row& row : {Row{"gemma-2-9b", "gemma2"}, Row{"gemma-3-12b", "gemma3"}, Row{"gpt-oss-20b", "gpt-oss"}}) {
    const ModelShape model = *find_model(row.name);
    GgufFile file = head_of(model, row.architecture);
    file.own("attention.sliding_window", model.sliding_window);
    EXPECT_EQ(memory_of(shape_in(file)), memory_of(model)) << row.name;
  }
}

TEST(GgufModel, CompressedKeysAreThoseOfFilesThatSaySo) {
  const ModelShape model = *find_model("deepseek-v3");
  GgufFile file = head_of(model, "deepseek2");
  file.own("attention.kv_lora_rank", model.latent.kv_rank).own("attention.q_lora_rank", model.latent.query_rank);
  file.own("rope.dimension_count", model.latent.rope_dim);
  const ModelShape before = shape_in(file);
  EXPECT_EQ(kv_elements_per_layer(before), 2 * key_width(before)) << "files from before April 2025";
  file.own("attention.key_length_mla", model.latent.nope_dim + model.latent.rope_dim);
  file.own("attention.value_length_mla", model.latent.value_dim);
  EXPECT_EQ(memory_of(shape_in(file)), memory_of(model));
}

TEST(GgufModel, LayersWithoutKeysHaveAState) {
  const ModelShape model = *find_model("qwen3-next-80b-a3b");
  const LinearAttention& own = model.linear_attention;
  GgufFile file = head_of(model, "qwen3next");
  file.own("full_attention_interval", 4).own("ssm.conv_kernel", own.kernel).own("ssm.state_size", own.key_dim);
  file.own("ssm.group_count", own.key_heads).own("ssm.time_step_rank", own.value_heads);
  file.own("ssm.inner_size", own.value_heads * own.value_dim);
  EXPECT_EQ(memory_of(shape_in(file)), memory_of(model));

  // Of a hybrid with Mamba's layers the head says which have keys.
  GgufFile hybrid = file_with("nemotron_h", 256, 4, 256);
  hybrid.own("attention.head_count", {0, 0, 8, 0}).own("attention.head_count_kv", {0, 0, 2, 0});
  hybrid.own("ssm.conv_kernel", 4).own("ssm.state_size", 128).own("ssm.group_count", 8);
  hybrid.own("ssm.inner_size", 512).own("ssm.time_step_rank", 8);
  const ModelShape shape = shape_in(hybrid);
  EXPECT_EQ(kv_layers(shape), 1U);
  EXPECT_EQ(shape.kv_heads, 2U);
  EXPECT_GE(linear_state_bytes(shape), 3 * 4.0 * 128 * 512);
  EXPECT_THAT(shape.notes, ::testing::Contains(HasSubstr("nemotron_h is not among the known families")));
}

TEST(GgufModel, APatternInTheHeadSaysWhichLayersSlide) {
  GgufFile file = file_with("gemma4", 256, 6, 256);
  file.own("attention.head_count", 8).own("attention.sliding_window", 512);
  file.own("attention.sliding_window_pattern", {1, 1, 1, 1, 1, 0});
  EXPECT_EQ(shape_in(file).sliding_layers, 5U);
  GgufFile every = file_with("mistral3", 256, 6, 256);
  every.own("attention.head_count", 8).own("attention.sliding_window", 4096);
  EXPECT_EQ(shape_in(every).sliding_layers, 0U) << "as llama.cpp computes them";
}

TEST(GgufModel, NumbersThatAreNoneDoNoHarm) {
  for (const char* key : {"attention.sliding_window_pattern", "attention.sliding_window", "attention.head_count_kv",
                          "nextn_predict_layers", "expert_count", "context_length", "full_attention_interval"}) {
    GgufFile file = file_with("gemma3", 256, 6, 256);
    file.own("attention.head_count", 8).own("attention.sliding_window", 512);
    EXPECT_EQ(shape_in(file.not_a_number(key)).layers, 6U) << key;
  }
}

TEST(GgufModel, DraftingLayersAreLeftOut) {
  GgufFile file = file_with("glm4moe", 256, 3, 256);
  file.own("attention.head_count", 8).own("nextn_predict_layers", 1);
  for (const char* name : {"blk.0.attn_q.weight", "blk.1.attn_q.weight", "blk.2.attn_q.weight"})
    file.tensor(name, {256, 256}, kQ4K, 36'864);
  const ModelShape model = shape_in(file);
  EXPECT_EQ(model.layers, 2U);
  EXPECT_EQ(model.file->layers, (std::vector<double>{36'864, 36'864}));
}

TEST(GgufModel, IsPlannedByItsOwnTensorsUnlessAnotherMixIsAsked) {
  GgufFile file = file_with("llama", 4096, 2, 32'000);
  file.own("attention.head_count", 32).own("feed_forward_length", 11'008).number("general.file_type", 15);
  file.tensor("blk.0.ffn_up.weight", {4096, 11'008}, kQ4K, 25'362'432);
  const ModelShape model = shape_in(file);
  Settings settings{.task = Task::serving, .quantization = Quantization::q4_k_m};
  EXPECT_TRUE(is_own_file(model, settings));
  EXPECT_EQ(file_weights(model, settings).layers, (std::vector<double>{25'362'432, 0}));
  EXPECT_EQ(count_parameters(model).total, 2ULL * 4096 * 32'000 + 4096 * 11'008);
  settings.quantization = Quantization::q8_0;
  EXPECT_FALSE(is_own_file(model, settings));
  EXPECT_GT(file_weights(model, settings).layers[1], 1e8);
}

TEST(GgufModel, WithoutAFileTypeTheNearestMixIsTaken) {
  GgufFile packed = file_with("llama", 256, 1, 1024);
  packed.own("attention.head_count", 4);
  const FileMix* const mix = mix_named(shape_in(packed).quantization.value_or(""));
  ASSERT_NE(mix, nullptr);
  EXPECT_EQ(bytes_per_element(mix->base), 0.5625) << "that of Q4_K, of which both tensors are";
  GgufFile whole("llama");
  whole.own("embedding_length", 256).own("block_count", 1).own("attention.head_count", 4);
  whole.tensor("token_embd.weight", {256, 100}, 1, 51'200);
  EXPECT_EQ(shape_in(whole).quantization, std::nullopt);
}

}  // namespace
}  // namespace gpuwarden::planning
