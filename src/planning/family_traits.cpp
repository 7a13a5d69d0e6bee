// SPDX-License-Identifier: Apache-2.0
#include "planning/family_traits.hpp"

namespace gpuwarden::planning {

void set_qkv_bias(ModelShape& model, bool bias) { model.query_bias = model.key_bias = model.value_bias = bias; }

void set_all_biases(ModelShape& model, bool bias) {
  set_qkv_bias(model, bias);
  model.attention_out_bias = model.mlp_bias = bias;
}

namespace traits {

void llama(ModelShape&) {}

void qwen2(ModelShape& model) { set_qkv_bias(model, true); }

// Numbers of experts: transformers' configuration classes (4.48; gpt_oss 4.55), for files that leave them out.

void mixtral(ModelShape& model) { model.experts = {.experts = 8, .experts_per_token = 2}; }

void qwen2_moe(ModelShape& model) {
  set_qkv_bias(model, true);
  model.experts = {.experts = 60, .experts_per_token = 4, .intermediate = 1408, .shared_intermediate = 5632};
  model.experts.shared_gate = true;
}

void qwen3(ModelShape& model) {
  model.qk_norm = QkNorm::per_head;
  model.head_dim = 128;
}

void qwen3_moe(ModelShape& model) {
  qwen3(model);
  model.experts = {.experts = 128, .experts_per_token = 8, .intermediate = 768};
}

void qwen3_next(ModelShape& model) {
  qwen3(model);
  model.head_dim = 256;
  model.gated_attention = true;
  model.experts = {.experts = 512, .experts_per_token = 10, .intermediate = 512, .shared_intermediate = 512};
  model.experts.shared_gate = true;
  model.linear_attention = {.key_heads = 16, .value_heads = 32, .key_dim = 128, .value_dim = 128, .kernel = 4};
}

// Sources: configuration_qwen3_5.py, configuration_qwen3_5_moe.py.

void qwen3_5(ModelShape& model) {
  qwen3_next(model);
  model.experts = {};
}

void qwen3_5_moe(ModelShape& model) {
  qwen3_next(model);
  model.experts.experts = 256;
  model.experts.experts_per_token = 8;
}

// Source: modular_minimax_m2.py: norms over all heads, experts in every layer, a correction for the router.
void minimax_m2(ModelShape& model) {
  model.qk_norm = QkNorm::all_heads;
  model.head_dim = 128;
  model.experts = {.experts = 256, .experts_per_token = 8};
  model.experts.balance_bias = true;
}

// Source: modeling_glm4_moe.py: biases on queries, keys and values as the file says, a correction for the router.
void glm4_moe(ModelShape& model) {
  model.experts = {.experts = 128, .experts_per_token = 8, .intermediate = 1408};
  model.experts.balance_bias = true;
}

// Sources: configuration_deepseek_v32.py, configuration_glm_moe_dsa.py.

void deepseek_v32(ModelShape& model) { model.indexer = {.heads = 64, .head_dim = 128}; }

void glm_moe_dsa(ModelShape& model) { model.indexer = {.heads = 32, .head_dim = 128}; }

// Source: configuration_seed_oss.py: biases on queries, keys and values, none behind attention.
void seed_oss(ModelShape& model) {
  set_qkv_bias(model, true);
  model.head_dim = 128;
}

// Source: modeling_arcee.py: two matrices with a squared ReLU.
void arcee(ModelShape& model) {
  model.gated_mlp = false;
  model.activation = Activation::relu;
}

void gemma(ModelShape& model) {
  model.tied_embeddings = true;
  model.head_dim = 256;
  model.activation = Activation::gelu;
}

void gemma2(ModelShape& model) {
  gemma(model);
  model.norms_per_layer = 4;
  model.sliding_window = 4096;
}

void gemma3(ModelShape& model) {
  gemma(model);
  model.norms_per_layer = 4;
  model.qk_norm = QkNorm::per_head;
  // Published files leave out what is the class's default.
  model.heads = 8;
  model.kv_heads = 4;
  model.vocab = 262'208;
  model.sliding_window = 4096;
}

// Source: configuration_gemma3n.py, modeling_gemma3n.py: six norms of the hidden width in a layer.
void gemma3n(ModelShape& model) {
  gemma3(model);
  model.norms_per_layer = 6;
  model.kv_heads = 2;
  model.vocab = 262'400;
  model.sliding_window = 512;
  model.layer_inputs = {.width = 256, .vocab = 262'144, .streams = 4, .low_rank = 64, .kv_shared = 15};
}

/// LayerNorm, two matrices with GELU, biases everywhere, dropout.
void classic(ModelShape& model) {
  model.norm = NormKind::layer_norm;
  model.gated_mlp = false;
  model.activation = Activation::gelu;
  set_all_biases(model, true);
}

void gpt2(ModelShape& model) {
  classic(model);
  model.positions = Positions::learned;
  model.tied_embeddings = true;
  model.dropout = true;
}

void gpt_neo(ModelShape& model) {
  gpt2(model);
  set_qkv_bias(model, false);
}

void gpt_j(ModelShape& model) {
  classic(model);
  set_qkv_bias(model, false);
  model.attention_out_bias = false;
  model.norms_per_layer = 1;
  model.parallel_residual = true;
  model.output_bias = true;
}

void gpt_neox(ModelShape& model) {
  classic(model);
  model.parallel_residual = true;
}

void opt(ModelShape& model) {
  gpt2(model);
  model.activation = Activation::relu;
}

void bloom(ModelShape& model) {
  classic(model);
  model.positions = Positions::alibi;
  model.tied_embeddings = true;
  model.embedding_norm = true;
}

void falcon(ModelShape& model) {
  classic(model);
  set_all_biases(model, false);
  model.tied_embeddings = true;
  model.parallel_residual = true;
}

void mpt(ModelShape& model) {
  classic(model);
  model.positions = Positions::learned;
  model.tied_embeddings = true;
}

void phi(ModelShape& model) {
  classic(model);
  model.norms_per_layer = 1;
  model.parallel_residual = true;
  model.output_bias = true;
}

void phimoe(ModelShape& model) {
  model.norm = NormKind::layer_norm;
  model.experts = {.experts = 16, .experts_per_token = 2};
}

void starcoder2(ModelShape& model) {
  classic(model);
  model.tied_embeddings = true;
}

void stablelm(ModelShape& model) { model.norm = NormKind::layer_norm; }

void olmo(ModelShape& model) { model.norm = NormKind::layer_norm_plain; }

void olmo2(ModelShape& model) { model.qk_norm = QkNorm::all_heads; }

void olmo3(ModelShape& model) {
  olmo2(model);
  model.sliding_window = 4096;
}

void olmoe(ModelShape& model) {
  olmo2(model);
  model.experts = {.experts = 64, .experts_per_token = 8};
}

void llama4(ModelShape& model) { model.experts = {.experts = 16, .experts_per_token = 1}; }

void cohere(ModelShape& model) {
  model.norm = NormKind::layer_norm_without_bias;
  model.norms_per_layer = 1;
  model.parallel_residual = true;
  model.tied_embeddings = true;
}

void bert(ModelShape& model) {
  classic(model);
  model.kind = ModelKind::encoder;
  model.positions = Positions::learned;
  model.embedding_norm = true;
  model.final_norm = false;
  model.output_head = false;
  model.pooler = true;
  model.type_rows = 2;
  model.dropout = true;
}

void distilbert(ModelShape& model) {
  bert(model);
  model.pooler = false;
  model.type_rows = 0;
}

void t5(ModelShape& model) {
  model.kind = ModelKind::encoder_decoder;
  model.positions = Positions::relative;
  model.position_buckets = 32;
  model.gated_mlp = false;
  model.activation = Activation::relu;
  model.tied_embeddings = true;
  model.head_dim = 64;
  model.eager_only = true;
  model.dropout = true;
}

void mt5(ModelShape& model) {
  t5(model);
  model.gated_mlp = true;
  model.tied_embeddings = false;
  model.activation = Activation::gelu;
}

void vit(ModelShape& model) {
  classic(model);
  model.kind = ModelKind::vision_encoder;
  model.positions = Positions::learned;
  model.output_head = false;
}

void gpt_oss(ModelShape& model) {
  set_qkv_bias(model, true);
  model.attention_out_bias = true;
  model.attention_sinks = true;
  model.experts.experts = 128;
  model.experts.experts_per_token = 4;
  model.experts.biases = true;
  model.experts.router_bias = true;
}

}  // namespace traits
}  // namespace gpuwarden::planning
