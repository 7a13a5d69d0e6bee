// SPDX-License-Identifier: Apache-2.0
// Families of 2026: counts worked out by hand from transformers' modelling files, held against the Hub's.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
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

ModelShape shape_in(std::string_view json) {
  auto model = read_config(json, "config.json");
  EXPECT_TRUE(model) << (model ? "" : model.error().message);
  return model.value_or(ModelShape{});
}

std::string changed(std::string_view json, std::string_view from, std::string_view to) {
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
  const ModelShape model = shape_in(kDeepSeek32);
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
  const ModelShape model = shape_in(kDeepSeek32);
  EXPECT_EQ(cache_of(model, 2), 61 * (576 * 2 + 128 + 4));
  EXPECT_EQ(cache_of(model, 2, 8), cache_of(model, 2)) << "every rank has all of it";
  // 512 in fp8, four scales of fp32, 64 in 16 bit.
  EXPECT_EQ(cache_of(model, 1), 61 * (656 + 132));
}

TEST(DeepSeek32, DeepSeek3HasNoIndexer) {
  const ModelShape model = shape_in(changed(kDeepSeek32, "deepseek_v32", "deepseek_v3"));
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
  const ParameterCount count = count_parameters(shape_in(kGlm5));
  EXPECT_EQ(count.total, 743'911'218'432U);
  EXPECT_EQ(with_prediction(count, count.attention / 78), 753'864'139'008U);
  EXPECT_EQ(cache_of(shape_in(kGlm5), 2), 78 * (576 * 2 + 132));
}

TEST(Glm5, LayersThatShareAChoiceHaveNoIndexerAndNoCacheOfIt) {
  const auto indexers = [](std::string_view more) {
    return shape_in(changed(kGlm5, R"("index_topk")", std::string(more) + R"("index_topk")")).indexer.layers;
  };
  EXPECT_EQ(indexers(""), 78U);
  constexpr std::string_view kEachFourth = R"("index_topk_freq": 4, "index_skip_topk_offset": 3, )";
  EXPECT_EQ(indexers(kEachFourth), 21U) << "0, 1, 2, 6, 10 ... 74";
  EXPECT_EQ(indexers(R"("index_topk_freq": 4, )"), 21U) << "0, 1, 5, 9 ... 77";
  EXPECT_EQ(indexers(R"("index_topk_pattern": "FFSSF", )"), 3U);
  EXPECT_EQ(indexers(R"("indexer_types": ["full", "shared", "full"], "index_topk_freq": 4, )"), 2U);
  // GLM-5.2: as the Hub counts, where the layer for multi-token prediction has an indexer.
  const ModelShape model = shape_in(changed(kGlm5, R"("index_topk")", std::string(kEachFourth) + R"("index_topk")"));
  const ParameterCount count = count_parameters(model);
  constexpr std::uint64_t kIndexer = 2048 * 32 * 128 + 6144 * 128 + 6144 * 32;
  EXPECT_EQ(with_prediction(count, (count.attention - 21 * kIndexer) / 78 + kIndexer), 753'329'940'480U);
  EXPECT_EQ(cache_of(model, 2), 78 * 576 * 2 + 21 * 132);
}

TEST(Glm5, SparseAttentionWithoutCompressedKeysIsRefused) {
  const auto model = read_config(changed(kGlm5, R"("kv_lora_rank": 512, )", ""), "config.json");
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message, HasSubstr("kv_lora_rank"));
}

/// Qwen3.5's wrapper, the sizes of the language model left open.
std::string qwen35(std::string_view type, std::string_view text, std::uint32_t hidden) {
  return fmt::format(
      R"({{"model_type": "{0}", "architectures": ["Qwen3_5ForConditionalGeneration"], "tie_word_embeddings": false,
        "text_config": {{"model_type": "{0}_text", "hidden_size": {2}, "head_dim": 256, "attn_output_gate": true,
          "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
          "linear_num_key_heads": 16, "linear_value_head_dim": 128, "max_position_embeddings": 262144,
          "mlp_only_layers": [], "mtp_num_hidden_layers": 1, "vocab_size": 248320, {1}}},
        "vision_config": {{"model_type": "{0}", "deepstack_visual_indexes": [], "depth": 27, "hidden_size": 1152,
          "in_channels": 3, "intermediate_size": 4304, "num_heads": 16, "num_position_embeddings": 2304,
          "out_hidden_size": {2}, "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2}}}})",
      type, text, hidden);
}

constexpr std::string_view kQwen35_27B = R"("intermediate_size": 17408, "linear_num_value_heads": 48,
  "num_attention_heads": 24, "num_key_value_heads": 4, "num_hidden_layers": 64)";
constexpr std::string_view kQwen35_35B = R"("linear_num_value_heads": 32, "moe_intermediate_size": 512,
  "num_attention_heads": 16, "num_experts": 256, "num_experts_per_tok": 8, "num_hidden_layers": 40,
  "num_key_value_heads": 2, "shared_expert_intermediate_size": 512)";

TEST(Qwen35, CountsAsTheHubDoes) {
  const ModelShape model = shape_in(qwen35("qwen3_5", kQwen35_27B, 5120));
  const ParameterCount count = count_parameters(model);
  // 48 layers of linear attention: 5120 x (2 x 2048 + 2 x 6144) for queries, keys, values and gates, two of 5120 x 48,
  // a convolution of 4 over 10,240 channels, 2 x 48 numbers, a norm of 128 and 6144 x 5120 back; 16 of attention: 5120
  // x 2 x 6144 for queries and gates, 2 x 5120 x 1024, 6144 x 5120 back, two norms of 256.
  constexpr std::uint64_t kLinear =
      5120 * (2 * 2048 + 2 * 6144) + 2 * 5120 * 48 + 4 * 10'240 + 2 * 48 + 128 + 6144 * 5120;
  constexpr std::uint64_t kFull = 5120 * 2 * 6144 + 2 * 5120 * 1024 + 6144 * 5120 + 2 * 256;
  constexpr std::uint64_t kLayer = 3 * 5120 * 17'408 + 2 * 5120;
  EXPECT_EQ(count.total - count.towers, 48 * kLinear + 16 * kFull + 64 * kLayer + 5120 + 2 * 248'320ULL * 5120);
  EXPECT_EQ(count.total - count.towers, 26'895'998'464U);
  EXPECT_EQ(count.towers, 460'730'096U);
  // The Hub counts 27,781,427,952: with the layer for multi-token prediction, which has a projection of two widths and
  // three norms.
  EXPECT_EQ(count.total + kFull + kLayer + 2 * 5120 * 5120 + 3 * 5120, 27'781'427'952U);
  EXPECT_THAT(model.notes, Contains(HasSubstr("multi-token prediction")));
  EXPECT_THAT(model.notes, Contains(HasSubstr("towers for images and sound are counted: 0.46 B")));
}

TEST(Qwen35, ModelsOfExpertsNeedNoOtherMlp) {
  const ModelShape model = shape_in(qwen35("qwen3_5_moe", kQwen35_35B, 2048));
  const ParameterCount count = count_parameters(model);
  EXPECT_EQ(count.total - count.towers, 34'660'610'688U);
  EXPECT_EQ(count.towers, 446'571'248U);
  EXPECT_EQ(count.mlp, 0U);
  // As the Hub counts: with a layer of 256 experts, a shared one, its gate and the router, and of attention.
  constexpr std::uint64_t kLayer = 257 * 3 * 2048 * 512 + 2048 + 2048 * 256 + 2 * 2048;
  constexpr std::uint64_t kFull = 2048 * 2 * 4096 + 2 * 2048 * 512 + 4096 * 2048 + 2 * 256;
  EXPECT_EQ(count.total + kFull + kLayer + 2 * 2048 * 2048 + 3 * 2048, 35'951'822'704U);
  EXPECT_NEAR(static_cast<double>(count.active - count.towers), 3.5e9, 0.1e9) << "A3B, embedding and head whole";
  const auto missing =
      read_config(qwen35("qwen3_5", R"("num_attention_heads": 16, "num_hidden_layers": 40)", 2048), "config.json");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("intermediate_size"));
}

TEST(Qwen35, EveryFourthLayerHasACacheAndTheOthersAState) {
  const ModelShape model = shape_in(qwen35("qwen3_5", kQwen35_27B, 5120));
  EXPECT_EQ(cache_of(model, 2), 16 * 2 * 4 * 256 * 2);
  // 48 heads of 128 x 128 in fp32, and four tokens of the convolution's channels in 16 bit.
  EXPECT_EQ(linear_state_bytes(model), 48 * (48 * 128 * 128 * 4.0 + 10'240 * 4 * 2));
}

TEST(Qwen35, AdaptersOfAllMatricesFindTheInputsApart) {
  const ModelShape model = shape_in(qwen35("qwen3_5", kQwen35_27B, 5120));
  EXPECT_EQ(lora_parameters(model, 1, {"in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a"}).value(),
            48U * (5120 + 10'240 + 5120 + 6144 + 2 * (5120 + 48)));
  EXPECT_FALSE(lora_parameters(model, 1, {"in_proj_qkvz"}));
}

TEST(VisionTower, OfQwen3VlIsTheHubsWithDeepStack) {
  // Qwen3-VL-8B-Instruct: 8,767,123,696 in all, of which the language model has Qwen3 8B's 8,190,735,360.
  constexpr std::string_view kVl = R"({"model_type": "qwen3_vl", "tie_word_embeddings": false,
    "text_config": {"model_type": "qwen3_vl_text", "hidden_size": 4096, "intermediate_size": 12288, "head_dim": 128,
      "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 151936},
    "vision_config": {"model_type": "qwen3_vl", "deepstack_visual_indexes": [8, 16, 24], "depth": 27,
      "hidden_size": 1152, "in_channels": 3, "intermediate_size": 4304, "num_heads": 16,
      "num_position_embeddings": 2304, "out_hidden_size": 4096, "patch_size": 16, "spatial_merge_size": 2,
      "temporal_patch_size": 2}})";
  const ParameterCount count = count_parameters(shape_in(kVl));
  EXPECT_EQ(count.total, 8'767'123'696U);
  EXPECT_EQ(count.total - count.towers, 8'190'735'360U);
  // Tied outside of the language model: Qwen3 8B without its head.
  EXPECT_EQ(count_parameters(shape_in(changed(kVl, "false", "true"))).head, 0U);
  for (const std::string& unknown :
       {changed(kVl, R"("depth": 27)", R"("width": 27)"), changed(kVl, R"("depth": 27)", R"("depth": "x")"),
        changed(kVl, R"("vision_config": {"model_type": "qwen3_vl")", R"("vision_config": {"model_type": "siglip")")}) {
    const ModelShape model = shape_in(unknown);
    EXPECT_EQ(model.tower_parameters, 0U);
    EXPECT_THAT(model.notes, Contains("only the language model is counted, not the vision tower"));
  }
}

TEST(VisionTower, OfKimiK25IsCountedFromItsConfig) {
  constexpr std::string_view kKimi = R"({"model_type": "kimi_k25", "text_config": {"model_type": "kimi_k2",
      "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_hidden_layers": 61,
      "first_k_dense_replace": 1, "num_attention_heads": 64, "num_key_value_heads": 64, "n_routed_experts": 384,
      "n_shared_experts": 1, "num_experts_per_tok": 8, "topk_method": "noaux_tc", "q_lora_rank": 1536,
      "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 163840},
    "vision_config": {"init_pos_emb_height": 64, "init_pos_emb_time": 4, "init_pos_emb_width": 64,
      "merge_kernel_size": [2, 2], "mm_hidden_size": 1152, "mm_projector_type": "patchmerger", "patch_size": 14,
      "vt_hidden_size": 1152, "vt_intermediate_size": 4304, "vt_num_attention_heads": 16,
      "vt_num_hidden_layers": 27}})";
  const ModelShape model = shape_in(kKimi);
  const ParameterCount count = count_parameters(model);
  // 3 x 14 x 14 x 1152 with biases, 64 x 64 positions, 27 layers, a norm; then a norm, 4608 x 4608 and 4608 x 7168.
  constexpr std::uint64_t kLayer = 4 * 1152 + 1152 * 3 * 1152 + 3 * 1152 + 1152 * 1152 + 1152 +  //
                                   2 * 1152 * 4304 + 4304 + 1152;
  EXPECT_EQ(count.towers, 588 * 1152 + 1152 + 4096 * 1152 + 27 * kLayer + 2 * 1152 + 2 * 1152 + 4608 * 4608 + 4608 +
                              4608 * 7168 + 7168);
  // Kimi K2 as it is in the catalogue: the Hub counts 1,026,408,235,864.
  EXPECT_EQ(count.total - count.towers, 1'026'408'232'448U);
  EXPECT_THAT(model.notes, Not(Contains(HasSubstr("only the language model"))));
}

constexpr std::string_view kMiniMax = R"({"model_type": "minimax_m2", "architectures": ["MiniMaxM2ForCausalLM"],
  "num_hidden_layers": 62, "hidden_size": 3072, "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128,
  "intermediate_size": 1536, "vocab_size": 200064, "num_experts_per_tok": 8, "num_local_experts": 256,
  "max_position_embeddings": 196608, "rotary_dim": 64, "tie_word_embeddings": false, "use_qk_norm": true,
  "qk_norm_type": "per_layer", "use_routing_bias": true, "use_mtp": true, "num_mtp_modules": 3,
  "shared_intermediate_size": 0, "scoring_func": "sigmoid"})";

TEST(MiniMaxM2, CountsAsTheHubDoes) {
  const ModelShape model = shape_in(kMiniMax);
  const ParameterCount count = count_parameters(model);
  // In each of 62 layers 3072 x 6144 twice, 3072 x 1024 twice, norms over 6144 and 1024, 256 experts of 3 x 3072 x
  // 1536, a router with one number for each, two norms.
  EXPECT_EQ(count.total, 228'689'764'864U);
  EXPECT_EQ(count.norms, 62 * (6144 + 1024 + 2 * 3072) + 3072U);
  EXPECT_NEAR(static_cast<double>(count.active), 11.03e9, 0.01e9);
  EXPECT_EQ(cache_of(model, 2), 62 * 2 * 8 * 128 * 2);
  EXPECT_TRUE(model.notes.empty());
}

TEST(MiniMaxM2, SwitchesThatTheFileHasAreFollowed) {
  const auto total = [](std::string_view from, std::string_view to) {
    return count_parameters(shape_in(changed(kMiniMax, from, to))).total;
  };
  EXPECT_EQ(total(R"("use_qk_norm": true)", R"("use_qk_norm": false)"), 228'689'764'864U - 62 * 7168);
  EXPECT_EQ(total(R"("use_routing_bias": true)", R"("use_routing_bias": false)"), 228'689'764'864U - 62 * 256);
  EXPECT_EQ(total(R"("shared_intermediate_size": 0)", R"("shared_intermediate_size": 1536)"),
            228'689'764'864U + 62ULL * 3 * 3072 * 1536);
  EXPECT_FALSE(read_config(changed(kMiniMax, "per_layer", "per_head"), "config.json"));
}

TEST(MiMo, IsQwen2WithoutTheLayerForMultiTokenPrediction) {
  const ModelShape model = shape_in(R"({"model_type": "mimo", "architectures": ["MiMoForCausalLM"],
    "num_hidden_layers": 36, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
    "head_dim": 128, "intermediate_size": 11008, "vocab_size": 151680, "max_position_embeddings": 32768,
    "attention_bias": true, "sliding_window": 32768, "max_window_layers": 32, "use_sliding_window": false,
    "num_nextn_predict_layers": 1, "tie_word_embeddings": false})");
  const ParameterCount count = count_parameters(model);
  constexpr std::uint64_t kLayer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 4096 + 2 * 1024 + 3 * 4096 * 11'008 + 2 * 4096;
  EXPECT_EQ(count.total, 36 * kLayer + 4096 + 2 * 151'680ULL * 4096);
  // Files of 15.67 GB in 16 bit on the Hub: with a layer, a projection of two widths and three norms.
  EXPECT_EQ(count.total + kLayer + 2 * 4096 * 4096 + 3 * 4096, 7'833'409'536U);
  EXPECT_EQ(cache_of(model, 2), 36 * 2 * 8 * 128 * 2);
  EXPECT_EQ(model.sliding_layers, 0U);
  EXPECT_THAT(model.notes, Contains(HasSubstr("multi-token prediction")));
}

TEST(NewerFamilies, ArchitecturesThatAreNotKnownStayRefused) {
  for (const char* type : {"deepseek_v4", "kimi_linear", "step3p7", "nemotron_h", "gemma4_text", "minimax_m3",
                           "mimo_v2_flash", "nemotron-nas"}) {
    const auto model = read_config(changed(kMiniMax, R"("minimax_m2", "architectures": ["MiniMaxM2ForCausalLM"])",
                                           fmt::format(R"("{}", "architectures": ["X"])", type)),
                                   "config.json");
    ASSERT_FALSE(model) << type;
    EXPECT_THAT(model.error().message, HasSubstr(fmt::format("unknown architecture '{}'", type)));
  }
}

}  // namespace
}  // namespace gpuwarden::planning
