// SPDX-License-Identifier: Apache-2.0
// The keys of config.json that only one family has. Each reader runs behind the common ones; `kv_heads` is still 0
// where none were named.
#pragma once

#include "gpuwarden/planning/model.hpp"
#include "planning/config_fields.hpp"

namespace gpuwarden::planning::keys {

void read_llama(ConfigFields& fields, ModelShape& model);
void read_internlm(ConfigFields& fields, ModelShape& model);
void read_minimax_m2(ConfigFields& fields, ModelShape& model);
void read_mimo(ConfigFields& fields, ModelShape& model);
void read_mistral(ConfigFields& fields, ModelShape& model);
void read_qwen(ConfigFields& fields, ModelShape& model);
void read_qwen2(ConfigFields& fields, ModelShape& model);
void read_qwen_moe(ConfigFields& fields, ModelShape& model);
void read_qwen3_next(ConfigFields& fields, ModelShape& model);
void read_qwen3_5(ConfigFields& fields, ModelShape& model);
void read_glm4_moe(ConfigFields& fields, ModelShape& model);
void read_seed_oss(ConfigFields& fields, ModelShape& model);
void read_olmo3(ConfigFields& fields, ModelShape& model);
void read_gemma3n(ConfigFields& fields, ModelShape& model);
void read_gemma2(ConfigFields& fields, ModelShape& model);
void read_gemma3(ConfigFields& fields, ModelShape& model);
void read_cohere(ConfigFields& fields, ModelShape& model);
void read_gpt2(ConfigFields& fields, ModelShape& model);
void read_gpt_bigcode(ConfigFields& fields, ModelShape& model);
void read_gpt_neox(ConfigFields& fields, ModelShape& model);
void read_opt(ConfigFields& fields, ModelShape& model);
void read_falcon(ConfigFields& fields, ModelShape& model);
void read_mpt(ConfigFields& fields, ModelShape& model);
void read_phi(ConfigFields& fields, ModelShape& model);
void read_phimoe(ConfigFields& fields, ModelShape& model);
void read_starcoder2(ConfigFields& fields, ModelShape& model);
void read_stablelm(ConfigFields& fields, ModelShape& model);
void read_chatglm(ConfigFields& fields, ModelShape& model);
void read_deepseek(ConfigFields& fields, ModelShape& model);
void read_sparse_latent(ConfigFields& fields, ModelShape& model);
void read_gpt_oss(ConfigFields& fields, ModelShape& model);
void read_llama4(ConfigFields& fields, ModelShape& model);
void read_bert(ConfigFields& fields, ModelShape& model);
void read_t5(ConfigFields& fields, ModelShape& model);
void read_vit(ConfigFields& fields, ModelShape& model);

}  // namespace gpuwarden::planning::keys
