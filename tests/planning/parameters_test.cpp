// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/parameters.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/config.hpp"
#include "support/corpus.hpp"

namespace gpuwarden::planning {
namespace {

ModelShape shape(std::string_view family, std::string_view config) {
  auto read = read_config(config, "config.json", family);
  EXPECT_TRUE(read) << (read ? "" : read.error().message);
  return read ? *read : ModelShape{};
}

std::uint64_t total(std::string_view family, std::string_view config) {
  return count_parameters(shape(family, config)).total;
}

struct Published {
  const char* what;
  const char* family;
  const char* config;
  std::uint64_t total;
};

// Counts as the model cards and `safetensors` indices give them.
const Published kPublished[] = {
    {"Qwen1.5-MoE-A2.7B", "qwen2_moe",
     R"({"hidden_size":2048,"num_hidden_layers":24,"num_attention_heads":16,"num_key_value_heads":16,
         "intermediate_size":5632,"moe_intermediate_size":1408,"shared_expert_intermediate_size":5632,
         "num_experts":60,"num_experts_per_tok":4,"decoder_sparse_step":1,"vocab_size":151936,
         "tie_word_embeddings":false,"max_position_embeddings":8192})",
     14315784192},
    {"Qwen-7B", "qwen",
     R"({"hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"kv_channels":128,
         "intermediate_size":22016,"vocab_size":151936,"no_bias":true,"tie_word_embeddings":false,"seq_length":8192})",
     7721324544},
    {"Qwen-1.8B", "qwen",
     R"({"hidden_size":2048,"num_hidden_layers":24,"num_attention_heads":16,"intermediate_size":11008,
         "vocab_size":151936,"tie_word_embeddings":false})",
     1836828672},
    {"santacoder", "gpt_bigcode",
     R"({"n_embd":2048,"n_layer":24,"n_head":16,"n_inner":8192,"n_positions":2048,"vocab_size":49280,
         "multi_query":true})",
     1124886528},
    {"starcoder", "gpt_bigcode",
     R"({"n_embd":6144,"n_layer":40,"n_head":48,"n_inner":24576,"n_positions":8192,"vocab_size":49152})", 15517456384},
    {"falcon-7b", "falcon",
     R"({"hidden_size":4544,"num_hidden_layers":32,"num_attention_heads":71,"num_kv_heads":71,"multi_query":true,
         "new_decoder_architecture":false,"parallel_attn":true,"bias":false,"alibi":false,"vocab_size":65024})",
     6921720704},
    {"falcon-7b, only the heads of keys and values known", "falcon",
     R"({"hidden_size":4544,"num_hidden_layers":32,"num_attention_heads":71,"num_kv_heads":1,"vocab_size":65024})",
     6921720704},
    {"falcon-180B", "falcon",
     R"({"hidden_size":14848,"num_hidden_layers":80,"num_attention_heads":232,"num_kv_heads":8,"multi_query":true,
         "new_decoder_architecture":true,"bias":false,"vocab_size":65024,"tie_word_embeddings":false})",
     179522565120},
    {"mpt-7b", "mpt",
     R"({"d_model":4096,"n_layers":32,"n_heads":32,"expansion_ratio":4,"max_seq_len":2048,"no_bias":true,
         "learned_pos_emb":true,"attn_config":{"alibi":true},"vocab_size":50432})",
     6649286656},
    {"opt-350m", "opt",
     R"({"hidden_size":1024,"num_hidden_layers":24,"num_attention_heads":16,"ffn_dim":4096,"vocab_size":50272,
         "max_position_embeddings":2048,"word_embed_proj_dim":512,"do_layer_norm_before":false})",
     331196416},
    {"opt-125m", "opt",
     R"({"hidden_size":768,"num_hidden_layers":12,"num_attention_heads":12,"ffn_dim":3072,"vocab_size":50272,
         "max_position_embeddings":2048})",
     125239296},
    {"gpt-j-6b", "gptj", R"({"n_embd":4096,"n_layer":28,"n_head":16,"n_positions":2048,"vocab_size":50400,
         "tie_word_embeddings":false})",
     6050882784},
    {"gpt-neo-125m", "gpt_neo",
     R"({"hidden_size":768,"num_layers":12,"num_heads":12,"max_position_embeddings":2048,"vocab_size":50257,
         "intermediate_size":null})",
     125198592},
    {"chatglm3-6b", "chatglm",
     R"({"hidden_size":4096,"num_layers":28,"num_attention_heads":32,"kv_channels":128,"ffn_hidden_size":13696,
         "multi_query_attention":true,"multi_query_group_num":2,"add_qkv_bias":true,"add_bias_linear":false,
         "padded_vocab_size":65024,"seq_length":8192})",
     6243584000},
    {"starcoder2-3b", "starcoder2",
     R"({"hidden_size":3072,"num_hidden_layers":30,"num_attention_heads":24,"num_key_value_heads":2,
         "intermediate_size":12288,"vocab_size":49152,"use_bias":true})",
     3030371328},
    {"stablelm-3b-4e1t", "stablelm_epoch",
     R"({"hidden_size":2560,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":32,
         "intermediate_size":6912,"vocab_size":50304,"tie_word_embeddings":false})",
     2795443200},
    {"OLMo-2-1124-7B", "olmo2",
     R"({"hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":32,
         "intermediate_size":11008,"vocab_size":100352,"tie_word_embeddings":false})",
     7298617344},
    {"OLMoE-1B-7B", "olmoe",
     R"({"hidden_size":2048,"num_hidden_layers":16,"num_attention_heads":16,"num_key_value_heads":16,
         "intermediate_size":1024,"num_experts":64,"num_experts_per_tok":8,"vocab_size":50304,
         "tie_word_embeddings":false})",
     6919161856},
    {"c4ai-command-r-v01", "cohere",
     R"({"hidden_size":8192,"num_hidden_layers":40,"num_attention_heads":64,"num_key_value_heads":64,
         "intermediate_size":22528,"vocab_size":256000})",
     34980831232},
    {"gpt-oss-20b", "gpt_oss",
     R"({"hidden_size":2880,"num_hidden_layers":24,"num_attention_heads":64,"num_key_value_heads":8,"head_dim":64,
         "intermediate_size":2880,"num_local_experts":32,"num_experts_per_tok":4,"vocab_size":201088,
         "attention_bias":true,"tie_word_embeddings":false})",
     20914757184},
    {"Phi-3.5-MoE-instruct", "phimoe",
     R"({"hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,
         "intermediate_size":6400,"num_local_experts":16,"num_experts_per_tok":2,"vocab_size":32064,
         "attention_bias":true,"lm_head_bias":true,"tie_word_embeddings":false})",
     41873153344},
    {"Phi-4-mini-instruct", "phi3",
     R"({"hidden_size":3072,"num_hidden_layers":32,"num_attention_heads":24,"num_key_value_heads":8,
         "intermediate_size":8192,"vocab_size":200064,"tie_word_embeddings":true})",
     3836021760},
    {"roberta-base", "roberta",
     R"({"hidden_size":768,"num_hidden_layers":12,"num_attention_heads":12,"intermediate_size":3072,
         "vocab_size":50265,"max_position_embeddings":514,"type_vocab_size":1})",
     124645632},
    {"distilbert-base-uncased", "distilbert",
     R"({"dim":768,"n_layers":6,"n_heads":12,"hidden_dim":3072,"vocab_size":30522,"max_position_embeddings":512})",
     66362880},
    {"flan-t5-xl", "t5",
     R"({"d_model":2048,"d_kv":64,"d_ff":5120,"num_layers":24,"num_decoder_layers":24,"num_heads":32,
         "feed_forward_proj":"gated-gelu","vocab_size":32128,"tie_word_embeddings":false})",
     2849757184},
    {"vit-base-patch16-224 with its head", "vit",
     R"({"hidden_size":768,"num_hidden_layers":12,"num_attention_heads":12,"intermediate_size":3072,"image_size":224,
         "patch_size":16,"num_channels":3})",
     85798656},
};

TEST(Parameters, CountsAreThePublishedOnes) {
  for (const Published& model : kPublished) EXPECT_EQ(total(model.family, model.config), model.total) << model.what;
}

/// One line of a CSV file with quoted fields (RFC 4180).
std::vector<std::string> csv_fields(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += line[++i];
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += line[i];
    }
  }
  return fields;
}

TEST(Parameters, EveryRowOfTheCorpusIsCountedExactly) {
  const auto text = read_file(gpuwarden::testing::corpus() / "planner/params.csv");
  ASSERT_TRUE(text) << text.error().message;
  std::size_t rows = 0;
  for (const auto line : split(*text, '\n')) {
    const auto fields = csv_fields(std::string(line));
    if (fields.size() < 8 || fields[0] == "model") continue;
    ++rows;
    const auto model = read_config(fields[7], fields[0], fields[1]);
    ASSERT_TRUE(model) << model.error().message;
    const ParameterCount count = count_parameters(*model);
    EXPECT_EQ(std::to_string(count.total), fields[2]) << fields[0];
    EXPECT_EQ(fields[3].empty() ? "" : std::to_string(count.active), fields[3]) << fields[0];
  }
  EXPECT_GT(rows, 20U);
}

constexpr std::string_view kLlama2 = R"({"hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,
    "intermediate_size":11008,"vocab_size":32000,"tie_word_embeddings":false})";

TEST(Parameters, PartsAddUpToTheTotal) {
  for (const Published& model : kPublished) {
    const ParameterCount count = count_parameters(shape(model.family, model.config));
    EXPECT_EQ(count.embedding + count.head + count.attention + count.mlp + count.experts + count.norms + count.towers,
              count.total)
        << model.what;
    EXPECT_LE(count.active, count.total) << model.what;
    EXPECT_LE(count.linear, count.total) << model.what;
  }
}

TEST(Parameters, ALayerIsOneShareOfAModelWithoutItsTables) {
  const ParameterCount count = count_parameters(shape("llama", kLlama2));
  EXPECT_EQ(count.layer, 202383360U);
  EXPECT_EQ(32 * count.layer + count.embedding + count.head + 4096, count.total);
}

TEST(Parameters, LoraOfTheUsualMatricesIsTheKnownCount) {
  EXPECT_EQ(lora_parameters(shape("llama", kLlama2), 8).value(), 4194304U);
  const ModelShape llama32 = shape("llama", R"({"hidden_size":3072,"num_hidden_layers":28,"num_attention_heads":24,
      "num_key_value_heads":8,"head_dim":128,"intermediate_size":8192,"vocab_size":128256,
      "tie_word_embeddings":true})");
  EXPECT_EQ(lora_parameters(llama32, 32, {"q_proj", "v_proj"}).value(), 9175040U);
}

TEST(Parameters, LoraOfAllMatricesTakesEveryMatrixOfTheLayers) {
  const ModelShape model = shape("llama", kLlama2);
  // 32 layers of 4 matrices of 4096 x 4096 and 3 of 4096 x 11008.
  EXPECT_EQ(lora_parameters(model, 1, {"all-linear"}).value(), 32U * (4 * 8192 + 3 * 15104));
}

TEST(Parameters, LoraOfLatentAttentionTakesMatricesThatItHas) {
  const ModelShape model = shape("deepseek", R"({"hidden_size":2048,"num_hidden_layers":27,"num_attention_heads":16,
      "intermediate_size":10944,"moe_intermediate_size":1408,"n_routed_experts":64,"num_experts_per_tok":6,
      "kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"vocab_size":102400})");
  // 27 layers of 2048 x 16 x 192 and 512 x 16 x 256.
  EXPECT_EQ(lora_parameters(model, 1).value(), 27U * (2048 + 3072 + 512 + 4096));
}

TEST(Parameters, LoraOfAModuleThatIsNotThereNamesThoseThatAre) {
  const auto adapters = lora_parameters(shape("llama", kLlama2), 8, {"c_attn"});
  ASSERT_FALSE(adapters);
  EXPECT_EQ(adapters.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(adapters.error().hint.find("q_proj"), std::string::npos);
}

TEST(Parameters, RoughCountIsNeverFarBelowTheExactOne) {
  for (const Published& model : kPublished) {
    const ModelShape read = shape(model.family, model.config);
    EXPECT_GT(approximate_parameters(read), 0.7 * static_cast<double>(count_parameters(read).total)) << model.what;
  }
}

}  // namespace
}  // namespace gpuwarden::planning
