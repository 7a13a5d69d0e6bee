// SPDX-License-Identifier: Apache-2.0
// Families of 2026: counts worked out by hand from transformers' modelling files, held against the Hub's.
#include <gtest/gtest.h>

#include <string_view>

#include "gpuwarden/planning/config.hpp"
#include "gpuwarden/planning/estimate.hpp"
#include "gpuwarden/planning/parameters.hpp"
#include "planning/equations.hpp"

namespace gpuwarden::planning {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

ModelShape read(std::string_view json) {
  auto model = read_config(json, "config.json");
  EXPECT_TRUE(model) << (model ? "" : model.error().message);
  return model.value_or(ModelShape{});
}

std::string with(std::string_view json, std::string_view from, std::string_view to) {
  std::string text(json);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

double cache_of(const ModelShape& model, double bytes, std::uint32_t tensor = 1) {
  Settings settings{.task = Task::serving};
  settings.kv_bytes = bytes;
  settings.parallel.tensor = tensor;
  return kv_bytes_per_token(figures_of(model), settings);
}

constexpr std::string_view kDeepSeek32 = R"({"model_type": "deepseek_v32", "architectures": ["DeepseekV32ForCausalLM"],
  "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_hidden_layers": 61,
  "first_k_dense_replace": 3, "num_attention_heads": 128, "num_key_value_heads": 128, "n_routed_experts": 256,
  "n_shared_experts": 1, "num_experts_per_tok": 8, "topk_method": "noaux_tc", "scoring_func": "sigmoid",
  "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
  "index_head_dim": 128, "index_n_heads": 64, "index_topk": 2048, "vocab_size": 129280,
  "max_position_embeddings": 163840, "num_nextn_predict_layers": 1, "tie_word_embeddings": false})";

TEST(DeepSeek32, IsDeepSeek3WithAnIndexerInEveryLayer) {
  const ModelShape model = read(kDeepSeek32);
  const ParameterCount count = count_parameters(model);
  // DeepSeek V3's 671,026,419,200, and in each of 61 layers 1536 x 64 x 128 for queries, 7168 x 128 for the key, its
  // norm's 2 x 128, and 7168 x 64 to weigh the heads.
  constexpr std::uint64_t kIndexer = 1536 * 64 * 128 + 7168 * 128 + 2 * 128 + 7168 * 64;
  EXPECT_EQ(count.total, 671'026'419'200U + 61 * kIndexer);
  // The Hub counts 685,355,329,792: with the layer for multi-token prediction (one of the model's, 2 x 7168 x 7168 and
  // three norms), which has an embedding and a head of its own.
  const std::uint64_t layer = (count.experts / 58) + (count.attention / 61) + 2 * 7168 + 1536 + 512 + 2 * 128;
  EXPECT_EQ(count.total + layer + 2 * 7168 * 7168 + 3 * 7168 + 2 * 129'280ULL * 7168, 685'355'329'792U);
  EXPECT_THAT(model.notes, Contains(HasSubstr("multi-token prediction")));
}

TEST(DeepSeek32, CachesTheIndexersKeysInEightBitsBesideTheCompressedOnes) {
  const ModelShape model = read(kDeepSeek32);
  EXPECT_EQ(cache_of(model, 2), 61 * (576 * 2 + 128 + 4));
  EXPECT_EQ(cache_of(model, 2, 8), cache_of(model, 2)) << "every rank has all of it";
  // 512 in fp8, four scales of fp32, 64 in 16 bit.
  EXPECT_EQ(cache_of(model, 1), 61 * (656 + 132));
}

TEST(DeepSeek32, DeepSeek3HasNoIndexer) {
  const ModelShape model = read(with(kDeepSeek32, "deepseek_v32", "deepseek_v3"));
  EXPECT_EQ(count_parameters(model).total, 671'026'419'200U);
  EXPECT_EQ(cache_of(model, 1), 61 * 576);
}

constexpr std::string_view kGlm5 = R"({"model_type": "glm_moe_dsa", "architectures": ["GlmMoeDsaForCausalLM"],
  "hidden_size": 6144, "head_dim": 64, "intermediate_size": 12288, "moe_intermediate_size": 2048,
  "num_hidden_layers": 78, "first_k_dense_replace": 3, "num_attention_heads": 64, "num_key_value_heads": 64,
  "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "topk_method": "noaux_tc",
  "scoring_func": "sigmoid", "q_lora_rank": 2048, "kv_lora_rank": 512, "qk_head_dim": 256, "qk_nope_head_dim": 192,
  "qk_rope_head_dim": 64, "v_head_dim": 256, "index_head_dim": 128, "index_n_heads": 32, "index_topk": 2048,
  "vocab_size": 154880, "max_position_embeddings": 202752, "num_nextn_predict_layers": 1,
  "tie_word_embeddings": false})";

/// With the layer for multi-token prediction, as the Hub counts: one of the model's, 2 x 6144 x 6144 and three norms.
std::uint64_t with_prediction(const ParameterCount& count, std::uint64_t attention) {
  return count.total + count.experts / 75 + attention + 2 * 6144 + 2048 + 512 + 2 * 128 + 2 * 6144 * 6144 + 3 * 6144;
}

TEST(Glm5, CountsAsTheHubDoes) {
  const ParameterCount count = count_parameters(read(kGlm5));
  EXPECT_EQ(count.total, 743'911'218'432U);
  EXPECT_EQ(with_prediction(count, count.attention / 78), 753'864'139'008U);
  EXPECT_EQ(cache_of(read(kGlm5), 2), 78 * (576 * 2 + 132));
}

TEST(Glm5, LayersThatShareAChoiceHaveNoIndexerAndNoCacheOfIt) {
  const auto indexers = [](std::string_view more) {
    return read(with(kGlm5, R"("index_topk")", std::string(more) + R"("index_topk")")).indexer.layers;
  };
  EXPECT_EQ(indexers(""), 78U);
  constexpr std::string_view kEachFourth = R"("index_topk_freq": 4, "index_skip_topk_offset": 3, )";
  EXPECT_EQ(indexers(kEachFourth), 21U) << "0, 1, 2, 6, 10 ... 74";
  EXPECT_EQ(indexers(R"("index_topk_freq": 4, )"), 21U) << "0, 1, 5, 9 ... 77";
  EXPECT_EQ(indexers(R"("index_topk_pattern": "FFSSF", )"), 3U);
  EXPECT_EQ(indexers(R"("indexer_types": ["full", "shared", "full"], "index_topk_freq": 4, )"), 2U);
  // GLM-5.2: as the Hub counts, where the layer for multi-token prediction has an indexer.
  const ModelShape model = read(with(kGlm5, R"("index_topk")", std::string(kEachFourth) + R"("index_topk")"));
  const ParameterCount count = count_parameters(model);
  constexpr std::uint64_t kIndexer = 2048 * 32 * 128 + 6144 * 128 + 6144 * 32;
  EXPECT_EQ(with_prediction(count, (count.attention - 21 * kIndexer) / 78 + kIndexer), 753'329'940'480U);
  EXPECT_EQ(cache_of(model, 2), 78 * 576 * 2 + 21 * 132);
}

TEST(Glm5, SparseAttentionWithoutCompressedKeysIsRefused) {
  const auto model = read_config(with(kGlm5, R"("kv_lora_rank": 512, )", ""), "config.json");
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message, HasSubstr("kv_lora_rank"));
}

}  // namespace
}  // namespace gpuwarden::planning
