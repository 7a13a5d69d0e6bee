// SPDX-License-Identifier: Apache-2.0
#include "planning/families.hpp"

#include <algorithm>
#include <iterator>

#include "planning/family_keys.hpp"
#include "planning/family_traits.hpp"

namespace gpuwarden::planning {
namespace {

constexpr ModuleNames kLlamaModules{.query = "q_proj",
                                    .key = "k_proj",
                                    .value = "v_proj",
                                    .out = "o_proj",
                                    .gate = "gate_proj",
                                    .up = "up_proj",
                                    .down = "down_proj",
                                    .lora = "q_proj v_proj"};
constexpr ModuleNames kQwen35Modules = [] {
  ModuleNames names = kLlamaModules;
  names.delta_apart = true;
  return names;
}();
constexpr ModuleNames kQkvModules{.qkv = "query_key_value",
                                  .out = "dense",
                                  .gate = "dense_h_to_4h",
                                  .up = "dense_h_to_4h",
                                  .down = "dense_4h_to_h",
                                  .lora = "query_key_value"};
constexpr ModuleNames kGpt2Modules{
    .qkv = "c_attn", .out = "attn.c_proj", .gate = "c_gate", .up = "c_fc", .down = "mlp.c_proj", .lora = "c_attn"};
constexpr ModuleNames kQwenModules{
    .qkv = "c_attn", .out = "attn.c_proj", .gate = "w1", .up = "w2", .down = "mlp.c_proj", .lora = "c_attn"};
constexpr ModuleNames kGptNeoModules{.query = "q_proj",
                                     .key = "k_proj",
                                     .value = "v_proj",
                                     .out = "out_proj",
                                     .gate = "c_gate",
                                     .up = "c_fc",
                                     .down = "c_proj",
                                     .lora = "q_proj v_proj"};
constexpr ModuleNames kGptJModules{.query = "q_proj",
                                   .key = "k_proj",
                                   .value = "v_proj",
                                   .out = "out_proj",
                                   .gate = "fc_gate",
                                   .up = "fc_in",
                                   .down = "fc_out",
                                   .lora = "q_proj v_proj"};
constexpr ModuleNames kOptModules{.query = "q_proj",
                                  .key = "k_proj",
                                  .value = "v_proj",
                                  .out = "out_proj",
                                  .gate = "gate",
                                  .up = "fc1",
                                  .down = "fc2",
                                  .lora = "q_proj v_proj"};
constexpr ModuleNames kMptModules{
    .qkv = "Wqkv", .out = "out_proj", .gate = "gate_proj", .up = "up_proj", .down = "down_proj", .lora = "Wqkv"};
constexpr ModuleNames kPhiModules{.query = "q_proj",
                                  .key = "k_proj",
                                  .value = "v_proj",
                                  .out = "dense",
                                  .gate = "gate",
                                  .up = "fc1",
                                  .down = "fc2",
                                  .lora = "q_proj v_proj fc1 fc2"};
constexpr ModuleNames kPhi3Modules{.qkv = "qkv_proj",
                                   .out = "o_proj",
                                   .gate = "gate_proj",
                                   .up = "up_proj",
                                   .gate_up = "gate_up_proj",
                                   .down = "down_proj",
                                   .lora = "qkv_proj"};
constexpr ModuleNames kMixtralModules{.query = "q_proj",
                                      .key = "k_proj",
                                      .value = "v_proj",
                                      .out = "o_proj",
                                      .gate = "w1",
                                      .up = "w3",
                                      .down = "w2",
                                      .lora = "q_proj v_proj"};
constexpr ModuleNames kInternlm2Modules{
    .qkv = "wqkv", .out = "wo", .gate = "w1", .up = "w3", .down = "w2", .lora = "wqkv"};
constexpr ModuleNames kBaichuanModules{
    .qkv = "W_pack", .out = "o_proj", .gate = "gate_proj", .up = "up_proj", .down = "down_proj", .lora = "W_pack"};
constexpr ModuleNames kStarcoder2Modules{.query = "q_proj",
                                         .key = "k_proj",
                                         .value = "v_proj",
                                         .out = "o_proj",
                                         .gate = "c_gate",
                                         .up = "c_fc",
                                         .down = "c_proj",
                                         .lora = "q_proj v_proj"};
constexpr ModuleNames kChatglmModules{.qkv = "query_key_value",
                                      .out = "attention.dense",
                                      .gate = "gate",
                                      .up = "up",
                                      .gate_up = "dense_h_to_4h",
                                      .down = "dense_4h_to_h",
                                      .lora = "query_key_value"};
constexpr ModuleNames kBertModules{.query = "query",
                                   .key = "key",
                                   .value = "value",
                                   .out = "attention.output.dense",
                                   .gate = "gate",
                                   .up = "intermediate.dense",
                                   .down = "output.dense",
                                   .lora = "query value"};
constexpr ModuleNames kT5Modules{
    .query = "q", .key = "k", .value = "v", .out = "o", .gate = "wi_0", .up = "wi_1", .down = "wo", .lora = "q v"};

/// The first row serves models that came with a parameter count only.
constexpr Family kFamilies[] = {
    {"llama",
     "llama1 llama2 llama3 llama3.1 llama3.2 llama3.3 code_llama vicuna alpaca tinyllama smollm smollm2 smollm3 yi "
     "deepseek_llm granite powerlm internlm3 minicpm",
     kLlamaModules, traits::llama, keys::read_llama},
    {"mistral", "ministral mistral3 mistral_nemo zephyr", kLlamaModules, traits::llama, keys::read_mistral},
    {"mixtral", "granitemoe", kMixtralModules, traits::mixtral, keys::read_mistral},
    {"minimax_m2", "", kMixtralModules, traits::minimax_m2, keys::read_minimax_m2},
    {"qwen", "qwen1", kQwenModules, traits::qwen2, keys::read_qwen},
    {"qwen2", "qwen1.5 qwen2.5 qwen2_vl qwen2_5_vl qwen2_vl_text qwen2_5_vl_text qwen2_5 qwq", kLlamaModules,
     traits::qwen2, keys::read_qwen2},
    {"mimo", "", kLlamaModules, traits::qwen2, keys::read_mimo},
    {"qwen2_moe", "qwen1.5_moe qwen2.5_moe", kLlamaModules, traits::qwen2_moe, keys::read_qwen_moe},
    {"qwen3", "qwen3_vl_text", kLlamaModules, traits::qwen3, keys::read_qwen2},
    {"qwen3_moe", "qwen3_vl_moe_text", kLlamaModules, traits::qwen3_moe, keys::read_qwen_moe},
    {"qwen3_next", "", kLlamaModules, traits::qwen3_next, keys::read_qwen3_next},
    {"qwen3_5", "qwen3_5_text qwen3.6", kQwen35Modules, traits::qwen3_5, keys::read_qwen3_5},
    {"qwen3_5_moe", "qwen3_5_moe_text", kQwen35Modules, traits::qwen3_5_moe, keys::read_qwen3_5},
    {"glm4_moe", "glm4_5 glm4.5", kLlamaModules, traits::glm4_moe, keys::read_glm4_moe},
    {"seed_oss", "", kLlamaModules, traits::seed_oss, keys::read_seed_oss},
    {"arcee", "afm", kLlamaModules, traits::arcee, keys::read_llama},
    {"gemma", "gemma1", kLlamaModules, traits::gemma, nullptr},
    {"gemma2", "", kLlamaModules, traits::gemma2, keys::read_gemma2},
    {"gemma3", "gemma3_text", kLlamaModules, traits::gemma3, keys::read_gemma3},
    {"gemma3n", "gemma3n_text", kLlamaModules, traits::gemma3n, keys::read_gemma3n},
    {"phi", "phi1 phi1_5 phi1.5 phi2 phi_msft", kPhiModules, traits::phi, keys::read_phi},
    {"phi3", "phi3.5 phi4 phi3_v phi4_mini phi4mm phi4_multimodal", kPhi3Modules, traits::llama, keys::read_mistral},
    {"phimoe", "phi3.5_moe", kMixtralModules, traits::phimoe, keys::read_phimoe},
    {"gpt2", "gpt_2 distilgpt2 openai_gpt2", kGpt2Modules, traits::gpt2, keys::read_gpt2},
    {"gpt_bigcode", "santacoder starcoder starcoder1", kGpt2Modules, traits::gpt2, keys::read_gpt_bigcode},
    {"gpt_neo", "", kGptNeoModules, traits::gpt_neo, keys::read_gpt2},
    {"gptj", "gpt_j", kGptJModules, traits::gpt_j, nullptr},
    {"gpt_neox", "neox pythia stablelm_alpha dolly redpajama", kQkvModules, traits::gpt_neox, keys::read_gpt_neox},
    {"opt", "galactica", kOptModules, traits::opt, keys::read_opt},
    {"bloom", "bloomz", kQkvModules, traits::bloom, nullptr},
    {"falcon", "refinedweb refinedwebmodel rw", kQkvModules, traits::falcon, keys::read_falcon},
    {"mpt", "mosaic_gpt", kMptModules, traits::mpt, keys::read_mpt},
    {"starcoder2", "", kStarcoder2Modules, traits::starcoder2, keys::read_starcoder2},
    {"stablelm", "stablelm_epoch stablelm2", kLlamaModules, traits::stablelm, keys::read_stablelm},
    {"olmo", "olmo1", kLlamaModules, traits::olmo, nullptr},
    {"olmo2", "", kLlamaModules, traits::olmo2, keys::read_llama},
    {"olmo3", "", kLlamaModules, traits::olmo3, keys::read_olmo3},
    {"olmoe", "", kLlamaModules, traits::olmoe, nullptr},
    {"cohere", "command_r cohere2 aya", kLlamaModules, traits::cohere, keys::read_cohere},
    {"internlm", "internlm1", kLlamaModules, traits::llama, keys::read_internlm},
    {"internlm2", "internlm2.5", kInternlm2Modules, traits::llama, keys::read_internlm},
    {"baichuan", "baichuan2", kBaichuanModules, traits::llama, nullptr},
    {"chatglm", "chatglm2 chatglm3 glm4_chat", kChatglmModules, traits::llama, keys::read_chatglm},
    {"deepseek", "deepseek_v1 deepseek_v2 deepseek_v3 deepseek_v3.1 deepseek_r1 deepseek_mla_moe kimi_k2 moonlight",
     kLlamaModules, traits::llama, keys::read_deepseek},
    {"deepseek_v32", "deepseek_v3.2", kLlamaModules, traits::deepseek_v32, keys::read_sparse_latent},
    {"glm_moe_dsa", "glm5 glm5.1 glm5.2", kLlamaModules, traits::glm_moe_dsa, keys::read_sparse_latent},
    {"gpt_oss", "", kLlamaModules, traits::gpt_oss, keys::read_gpt_oss},
    {"llama4", "llama4_text", kLlamaModules, traits::llama4, keys::read_llama4},
    {"bert", "roberta xlm_roberta camembert", kBertModules, traits::bert, keys::read_bert},
    {"distilbert", "", kBertModules, traits::distilbert, keys::read_bert},
    {"t5", "t5_v1 flan_t5", kT5Modules, traits::t5, keys::read_t5},
    {"mt5", "t5_v1_1 t5_v1.1 t5_1.1", kT5Modules, traits::mt5, keys::read_t5},
    {"vit", "deit", kBertModules, traits::vit, keys::read_vit},
};

/// Whether two names are the same but for letter case, '-', '_' and '.'.
bool same_name(std::string_view a, std::string_view b) {
  const auto next = [](std::string_view& text) -> char {
    while (!text.empty() && (text.front() == '-' || text.front() == '_' || text.front() == '.')) text.remove_prefix(1);
    if (text.empty()) return '\0';
    const char c = text.front();
    text.remove_prefix(1);
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  while (true) {
    const char left = next(a);
    if (left != next(b)) return false;
    if (left == '\0') return true;
  }
}

bool has_alias(const Family& family, std::string_view name) {
  std::string_view rest = family.aliases;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    if (same_name(rest.substr(0, end), name)) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family* find_family(std::string_view name) {
  if (name.empty()) return nullptr;
  const auto* const found = std::ranges::find_if(
      kFamilies, [&](const Family& family) { return same_name(family.name, name) || has_alias(family, name); });
  return found == std::end(kFamilies) ? nullptr : found;
}

}  // namespace gpuwarden::planning
