// SPDX-License-Identifier: Apache-2.0
// What the layers of each family are built of. ModelShape's defaults are Llama's. Sources: Hugging Face transformers'
// modeling_*.py of the family.
#pragma once

#include "gpuwarden/planning/model.hpp"

namespace gpuwarden::planning {

/// Biases on the matrices of queries, keys and values.
void set_qkv_bias(ModelShape& model, bool bias);
/// Biases on every matrix of a layer.
void set_all_biases(ModelShape& model, bool bias);

namespace traits {

void llama(ModelShape& model);
void qwen2(ModelShape& model);
void mixtral(ModelShape& model);
void qwen2_moe(ModelShape& model);
void qwen3(ModelShape& model);
void qwen3_moe(ModelShape& model);
void qwen3_next(ModelShape& model);
void qwen3_5(ModelShape& model);
void qwen3_5_moe(ModelShape& model);
void minimax_m2(ModelShape& model);
void glm4_moe(ModelShape& model);
void deepseek_v32(ModelShape& model);
void glm_moe_dsa(ModelShape& model);
void seed_oss(ModelShape& model);
void arcee(ModelShape& model);
void gemma(ModelShape& model);
void gemma2(ModelShape& model);
void gemma3(ModelShape& model);
void gemma3n(ModelShape& model);
void classic(ModelShape& model);
void gpt2(ModelShape& model);
void gpt_neo(ModelShape& model);
void gpt_j(ModelShape& model);
void gpt_neox(ModelShape& model);
void opt(ModelShape& model);
void bloom(ModelShape& model);
void falcon(ModelShape& model);
void mpt(ModelShape& model);
void phi(ModelShape& model);
void phimoe(ModelShape& model);
void starcoder2(ModelShape& model);
void stablelm(ModelShape& model);
void olmo(ModelShape& model);
void olmo2(ModelShape& model);
void olmo3(ModelShape& model);
void olmoe(ModelShape& model);
void llama4(ModelShape& model);
void cohere(ModelShape& model);
void bert(ModelShape& model);
void distilbert(ModelShape& model);
void t5(ModelShape& model);
void mt5(ModelShape& model);
void vit(ModelShape& model);
void gpt_oss(ModelShape& model);

}  // namespace traits
}  // namespace gpuwarden::planning
