// SPDX-License-Identifier: Apache-2.0
#include "planning/family_keys.hpp"

#include <algorithm>
#include <string>

#include "planning/family_traits.hpp"

namespace gpuwarden::planning::keys {
namespace {

constexpr std::uint64_t kMostLayers = 10'000;
constexpr std::uint64_t kMostHeads = 65'536;
constexpr std::uint64_t kWidest = std::uint64_t{1} << 24U;

/// Layers whose index (from 0) is not the last of each `pattern` see only the window.
std::uint32_t all_but_each(std::uint32_t layers, std::uint32_t pattern) {
  return pattern == 0 ? layers : layers - layers / pattern;
}

/// How many layers see only the window, where `layer_types` lists them.
void count_sliding(ConfigFields& fields, ModelShape& model, std::uint32_t otherwise) {
  const auto listed = fields.list_count("layer_types", "sliding_attention");
  model.sliding_layers = model.sliding_window == 0 ? 0 : static_cast<std::uint32_t>(listed.value_or(otherwise));
  model.sliding_layers = std::min(model.sliding_layers, model.layers);
}

constexpr std::string_view kPredictionLayers =
    "the layers for multi-token prediction are not counted: engines load them only to draft (speculative decoding), "
    "transformers not at all";

void note_prediction_layers(ConfigFields& fields, ModelShape& model) {
  if (fields.number({"num_nextn_predict_layers", "mtp_num_hidden_layers"}, 0, 64).value_or(0) > 0)
    model.notes.emplace_back(kPredictionLayers);
}

/// Which layers have an indexer of their own: a list or a text of letters says so, else every `index_topk_freq`th from
/// an offset on. Source: configuration_glm_moe_dsa.py; vLLM's deepseek_v2.py builds the same.
std::uint32_t indexer_layers(ConfigFields& fields, std::uint32_t layers) {
  if (const auto listed = fields.list_count("indexer_types", "full")) return static_cast<std::uint32_t>(*listed);
  if (const auto pattern = fields.text({"index_topk_pattern"}))
    return static_cast<std::uint32_t>(std::ranges::count(*pattern, 'F'));
  const auto each = static_cast<std::uint32_t>(fields.number({"index_topk_freq"}, 1, kMostLayers).value_or(1));
  const auto offset = static_cast<std::uint32_t>(fields.number({"index_skip_topk_offset"}, 0, kMostLayers).value_or(2));
  const std::uint32_t first = std::min(layers, offset);
  return first + (layers - first) / each;
}

}  // namespace

void read_llama(ConfigFields& fields, ModelShape& model) {
  fields.take(model.mlp_bias, {"mlp_bias"});
  count_sliding(fields, model, 0);
}

void read_internlm(ConfigFields& fields, ModelShape& model) {
  if (const auto bias = fields.flag({"bias"})) {
    set_qkv_bias(model, *bias);
    model.attention_out_bias = *bias;
  }
}

void read_mistral(ConfigFields& fields, ModelShape& model) { count_sliding(fields, model, model.layers); }

void read_qwen(ConfigFields&, ModelShape& model) {
  // The file counts the gate and the up matrix together.
  model.intermediate /= 2;
}

/// Source: configuration_qwen2.py: layers from max_window_layers on slide, if sliding is on at all.
void read_qwen2(ConfigFields& fields, ModelShape& model) {
  if (!fields.flag({"use_sliding_window"}).value_or(false)) model.sliding_window = 0;
  const auto whole = fields.number({"max_window_layers"}, 0, kMostLayers).value_or(0);
  count_sliding(fields, model, model.layers - std::min<std::uint32_t>(model.layers, static_cast<std::uint32_t>(whole)));
}

/// Modules for multi-token prediction that the file names are in none of the published checkpoints.
void read_minimax_m2(ConfigFields& fields, ModelShape& model) {
  if (!fields.flag({"use_qk_norm"}).value_or(true)) model.qk_norm = QkNorm::none;
  const auto norm = fields.text({"qk_norm_type"});
  if (norm && *norm != "per_layer") fields.complain("qk_norm_type", "is not per_layer: no other is known");
  fields.take(model.experts.balance_bias, {"use_routing_bias"});
  fields.take(model.experts.shared_intermediate, {"shared_intermediate_size"}, 0, kWidest);
}

/// Source: XiaomiMiMo/MiMo-7B-Base's modeling_mimo.py: Qwen2's layers, and behind them those for multi-token
/// prediction, which vLLM's mimo.py leaves to a draft model.
void read_mimo(ConfigFields& fields, ModelShape& model) {
  read_qwen2(fields, model);
  // Qwen2's attention has its biases whatever `attention_bias` says, and none behind it.
  set_qkv_bias(model, true);
  model.attention_out_bias = false;
  if (fields.number({"num_nextn_predict_layers"}, 0, 64).value_or(0) > 0) model.notes.emplace_back(kPredictionLayers);
}

/// Layers without experts, where every `decoder_sparse_step`th has them and some are named.
void read_qwen_moe(ConfigFields& fields, ModelShape& model) {
  read_qwen2(fields, model);
  const auto step = static_cast<std::uint32_t>(fields.number({"decoder_sparse_step"}, 1, kMostLayers).value_or(1));
  const std::size_t named = std::min<std::size_t>(fields.list_size("mlp_only_layers").value_or(0), model.layers);
  model.experts.dense_layers =
      std::min(model.layers, model.layers - model.layers / step + static_cast<std::uint32_t>(named));
  fields.take(model.experts.shared_intermediate, {"shared_expert_intermediate_size"}, 0, kWidest);
}

/// Every fourth layer has ordinary attention, unless `layer_types` says which.
void read_qwen3_next(ConfigFields& fields, ModelShape& model) {
  read_qwen_moe(fields, model);
  LinearAttention& own = model.linear_attention;
  fields.take(own.key_heads, {"linear_num_key_heads"}, 1, kMostHeads);
  fields.take(own.value_heads, {"linear_num_value_heads"}, 1, kMostHeads);
  fields.take(own.key_dim, {"linear_key_head_dim"}, 1, kMostHeads);
  fields.take(own.value_dim, {"linear_value_head_dim"}, 1, kMostHeads);
  fields.take(own.kernel, {"linear_conv_kernel_dim"}, 1, 1024);
  const auto each = fields.number({"full_attention_interval"}, 1, kMostLayers).value_or(4);
  const auto listed = fields.list_count("layer_types", "linear_attention");
  const auto others =
      static_cast<std::uint32_t>(listed.value_or(all_but_each(model.layers, static_cast<std::uint32_t>(each))));
  own.layers = std::min(others, model.layers);
}

void read_qwen3_5(ConfigFields& fields, ModelShape& model) {
  read_qwen3_next(fields, model);
  if (model.experts.experts == 0) model.experts = {};
  fields.take(model.gated_attention, {"attn_output_gate"});
  note_prediction_layers(fields, model);
}

/// Source: configuration_glm4_moe.py; the checkpoints' files count shared experts, not their width.
void read_glm4_moe(ConfigFields& fields, ModelShape& model) {
  if (const auto bias = fields.flag({"attention_bias"})) {
    set_qkv_bias(model, *bias);
    model.attention_out_bias = false;
  }
  if (fields.flag({"use_qk_norm"}).value_or(false)) model.qk_norm = QkNorm::per_head;
  ExpertShape& experts = model.experts;
  fields.take(experts.dense_layers, {"first_k_dense_replace"}, 0, kMostLayers);
  const auto shared = fields.number({"n_shared_experts"}, 0, 1024).value_or(1);
  experts.shared_intermediate =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(shared * experts.intermediate, kWidest));
  note_prediction_layers(fields, model);
}

void read_seed_oss(ConfigFields& fields, ModelShape& model) {
  if (const auto bias = fields.flag({"attention_bias"})) set_qkv_bias(model, *bias);
  model.attention_out_bias = fields.flag({"attention_out_bias"}).value_or(false);
  fields.take(model.mlp_bias, {"mlp_bias"});
}

/// Source: configuration_olmo3.py: every fourth layer sees all.
void read_olmo3(ConfigFields& fields, ModelShape& model) {
  count_sliding(fields, model, all_but_each(model.layers, 4));
}

/// Source: configuration_gemma3n.py: every fifth layer sees all. Published files list intermediate_size by layer.
void read_gemma3n(ConfigFields& fields, ModelShape& model) {
  LayerInputs& own = model.layer_inputs;
  fields.take(own.width, {"hidden_size_per_layer_input"}, 1, kWidest);
  fields.take(own.vocab, {"vocab_size_per_layer_input"}, 1, kWidest);
  fields.take(own.streams, {"altup_num_inputs"}, 1, 64);
  fields.take(own.low_rank, {"laurel_rank"}, 1, kWidest);
  fields.take(own.kv_shared, {"num_kv_shared_layers"}, 0, kMostLayers);
  own.kv_shared = std::min(own.kv_shared, model.layers > 0 ? model.layers - 1 : 0);
  count_sliding(fields, model, all_but_each(model.layers, 5));
}

void read_gemma2(ConfigFields& fields, ModelShape& model) { count_sliding(fields, model, (model.layers + 1) / 2); }

void read_gemma3(ConfigFields& fields, ModelShape& model) {
  const auto pattern = fields.number({"sliding_window_pattern"}, 1, kMostLayers).value_or(6);
  count_sliding(fields, model, all_but_each(model.layers, static_cast<std::uint32_t>(pattern)));
}

void read_cohere(ConfigFields& fields, ModelShape& model) {
  if (fields.flag({"use_qk_norm"}).value_or(false)) model.qk_norm = QkNorm::all_heads;
  const auto pattern = fields.number({"sliding_window_pattern"}, 1, kMostLayers);
  count_sliding(fields, model, pattern ? all_but_each(model.layers, static_cast<std::uint32_t>(*pattern)) : 0);
}

void read_gpt2(ConfigFields&, ModelShape& model) { model.position_rows = model.max_positions; }

void read_gpt_bigcode(ConfigFields& fields, ModelShape& model) {
  read_gpt2(fields, model);
  if (fields.flag({"multi_query"}).value_or(true)) model.kv_heads = 1;
}

void read_gpt_neox(ConfigFields& fields, ModelShape& model) {
  fields.take(model.parallel_residual, {"use_parallel_residual"});
}

void read_opt(ConfigFields& fields, ModelShape& model) {
  // Source: OPTLearnedPositionalEmbedding: two rows of offset.
  const auto offset = fields.number({"position_offset"}, 0, 1024).value_or(2);
  model.position_rows = model.max_positions + static_cast<std::uint32_t>(offset);
  model.final_norm = fields.flag({"do_layer_norm_before"}).value_or(true) &&
                     !fields.flag({"_remove_final_layer_norm"}).value_or(false);
  if (const auto bias = fields.flag({"enable_bias"})) set_all_biases(model, *bias);
  fields.take(model.embedding_dim, {"word_embed_proj_dim"}, 1, kWidest);
  if (model.embedding_dim == model.hidden) model.embedding_dim = 0;
}

/// Source: FalconConfig and FalconDecoderLayer: the new decoder has grouped queries and a norm for each branch; the
/// older ones share one norm where attention and MLP are parallel.
void read_falcon(ConfigFields& fields, ModelShape& model) {
  const auto newer = fields.flag({"new_decoder_architecture"});
  const auto multi_query = fields.flag({"multi_query"});
  const bool grouped = newer.value_or(!multi_query && model.kv_heads > 1 && model.kv_heads < model.heads);
  if (!grouped)
    model.kv_heads = multi_query.value_or(model.kv_heads == 1 || !fields.has("num_kv_heads")) ? 1 : model.heads;
  fields.take(model.parallel_residual, {"parallel_attn"});
  model.norms_per_layer = grouped || !model.parallel_residual ? 2 : 1;
  if (fields.number({"num_ln_in_parallel_attn"}, 1, 2) == 1) model.norms_per_layer = 1;
  if (const auto bias = fields.flag({"bias"})) set_all_biases(model, *bias);
  if (fields.flag({"alibi"}).value_or(false)) model.positions = Positions::alibi;
}

/// Source: MptConfig; llm-foundry's configuration_mpt.py (biases, learned positions unless ALiBi).
void read_mpt(ConfigFields& fields, ModelShape& model) {
  bool alibi = false;
  if (auto attention = fields.inside("attn_config")) {
    alibi = attention->flag({"alibi"}).value_or(true);
    attention->take(model.kv_heads, {"kv_n_heads"}, 1, kMostHeads);
    fields.absorb(*attention);
  }
  const bool learned = fields.flag({"learned_pos_emb"}).value_or(true) && !alibi;
  model.positions = learned ? Positions::learned : Positions::alibi;
  model.position_rows = learned ? model.max_positions : 0;
  if (fields.flag({"no_bias"}).value_or(true)) {
    set_all_biases(model, false);
    model.norm = NormKind::layer_norm_without_bias;
  }
  if (!fields.has("expansion_ratio")) return;
  const auto ratio = fields.decimal({"expansion_ratio"}, 0.01, 1000);
  if (ratio) model.intermediate = static_cast<std::uint32_t>(*ratio * model.hidden);
}

void read_phi(ConfigFields& fields, ModelShape& model) {
  if (fields.flag({"qk_layernorm"}).value_or(false)) model.qk_norm = QkNorm::per_head;
}

void read_phimoe(ConfigFields& fields, ModelShape& model) {
  fields.take(model.output_bias, {"lm_head_bias"});
  count_sliding(fields, model, model.layers);
}

void read_starcoder2(ConfigFields& fields, ModelShape& model) {
  if (const auto bias = fields.flag({"use_bias"})) set_all_biases(model, *bias);
  count_sliding(fields, model, model.layers);
}

void read_stablelm(ConfigFields& fields, ModelShape& model) {
  fields.take(model.parallel_residual, {"use_parallel_residual"});
  if (model.parallel_residual) model.norms_per_layer = 1;
  if (fields.flag({"qk_layernorm"}).value_or(false))
    model.notes.emplace_back("the norms on queries and keys are not counted");
}

void read_chatglm(ConfigFields& fields, ModelShape& model) {
  if (fields.flag({"multi_query_attention"}).value_or(false))
    fields.take(model.kv_heads, {"multi_query_group_num"}, 1, kMostHeads);
  if (fields.flag({"add_bias_linear"}).value_or(false)) set_all_biases(model, true);
}

/// Keys as Hugging Face and as DeepSeek's own inference code name them.
void read_deepseek(ConfigFields& fields, ModelShape& model) {
  LatentAttention& latent = model.latent;
  fields.take(latent.query_rank, {"q_lora_rank"}, 0, kWidest);
  fields.take(latent.kv_rank, {"kv_lora_rank"}, 0, kWidest);
  fields.take(latent.nope_dim, {"qk_nope_head_dim"}, 0, kMostHeads);
  fields.take(latent.rope_dim, {"qk_rope_head_dim"}, 0, kMostHeads);
  fields.take(latent.value_dim, {"v_head_dim"}, 1, kMostHeads);
  if (latent.kv_rank > 0 && latent.value_dim == 0) fields.complain("v_head_dim", "is missing beside kv_lora_rank");
  ExpertShape& experts = model.experts;
  if (latent.kv_rank > 0 && experts.experts == 0)
    model.notes.emplace_back("the config names no experts (n_routed_experts): counted as a dense model");
  fields.take(experts.dense_layers, {"first_k_dense_replace", "n_dense_layers"}, 0, kMostLayers);
  const auto shared = fields.number({"n_shared_experts"}, 0, 1024).value_or(0);
  experts.shared_intermediate =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(shared * experts.intermediate, kWidest));
  const auto method = fields.text({"topk_method"});
  const auto scoring = fields.text({"scoring_func", "score_func"});
  experts.balance_bias = method ? *method == "noaux_tc" : scoring == "sigmoid";
  note_prediction_layers(fields, model);
}

void read_sparse_latent(ConfigFields& fields, ModelShape& model) {
  read_deepseek(fields, model);
  AttentionIndexer& own = model.indexer;
  fields.take(own.heads, {"index_n_heads"}, 1, kMostHeads);
  fields.take(own.head_dim, {"index_head_dim"}, 1, kMostHeads);
  own.layers = std::min(model.layers, indexer_layers(fields, model.layers));
  if (model.latent.kv_rank == 0) fields.complain("kv_lora_rank", "is missing: sparse attention needs it");
}

void read_gpt_oss(ConfigFields& fields, ModelShape& model) { count_sliding(fields, model, (model.layers + 1) / 2); }

/// Source: modeling_llama4.py: an expert and the shared expert have intermediate_size, a dense layer its own.
void read_llama4(ConfigFields& fields, ModelShape& model) {
  model.experts.intermediate = model.experts.shared_intermediate = model.intermediate;
  fields.take(model.intermediate, {"intermediate_size_mlp"}, 1, kWidest);
  const auto step =
      static_cast<std::uint32_t>(fields.number({"interleave_moe_layer_step"}, 1, kMostLayers).value_or(1));
  model.experts.dense_layers = model.layers - model.layers / step;
}

void read_bert(ConfigFields& fields, ModelShape& model) {
  model.position_rows = model.max_positions;
  fields.take(model.type_rows, {"type_vocab_size"}, 0, kMostHeads);
}

void read_t5(ConfigFields& fields, ModelShape& model) {
  model.encoder_layers = model.layers;
  fields.take(model.layers, {"num_decoder_layers"}, 1, kMostLayers);
  fields.take(model.position_buckets, {"relative_attention_num_buckets"}, 1, kMostHeads);
  fields.take(model.gated_mlp, {"gated_mlp"});
  if (const auto kind = fields.text({"feed_forward_proj"})) {
    model.gated_mlp = kind->starts_with("gated");
    model.activation = kind->contains("gelu") ? Activation::gelu : Activation::relu;
  }
}

void read_vit(ConfigFields& fields, ModelShape& model) {
  fields.take(model.image.image, {"image_size"}, 1, kMostHeads);
  fields.take(model.image.patch, {"patch_size"}, 1, kMostHeads);
  fields.take(model.image.channels, {"num_channels"}, 1, 1024);
  if (const auto bias = fields.flag({"qkv_bias"})) set_qkv_bias(model, *bias);
  if (model.image.patch == 0 || model.image.image < model.image.patch)
    fields.complain("image_size and patch_size", "are both needed, the patch not larger than the image");
  model.image.classes =
      static_cast<std::uint32_t>(std::min<std::size_t>(fields.list_size("id2label").value_or(0), kWidest));
}

}  // namespace gpuwarden::planning::keys
