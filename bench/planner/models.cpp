// SPDX-License-Identifier: Apache-2.0
#include "planner/models.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "gpuwarden/planning/catalog.hpp"
#include "gpuwarden/planning/config.hpp"
#include "planner/table.hpp"

namespace gpuwarden::bench {

namespace {

using planning::ModelShape;
using planning::NormKind;

/// `word` in a name, lower case and with '-' for ' ' and '_', means this shape. The first row that fits is taken, so
/// longer words stand first. Shapes: the models' config.json on huggingface.co.
struct Named {
  std::string_view word;
  std::string_view family;
  std::uint32_t hidden, layers, heads, kv_heads, head_dim, intermediate, vocab;
  bool tied = false;
  std::uint32_t experts = 0, experts_per_token = 0, expert_width = 0, shared_width = 0;
};

constexpr std::array kModels{
    Named{"santacoder", "gpt_bigcode", 2048, 24, 16, 1, 128, 8192, 49280, true},
    Named{"starcoderbase-1b", "gpt_bigcode", 2048, 24, 16, 1, 128, 8192, 49152, true},
    Named{"starcoder", "gpt_bigcode", 6144, 40, 48, 1, 128, 24576, 49152, true},
    Named{"granite-8b", "llama", 4096, 36, 32, 8, 128, 14336, 49152, true},
    Named{"granite-3b", "llama", 2560, 32, 32, 32, 80, 10240, 49152, true},
    Named{"granite-34b", "gpt_bigcode", 6144, 88, 48, 1, 128, 24576, 49152, true},
    Named{"powerlm-3b", "llama", 2304, 40, 36, 36, 64, 9216, 49152, true},
    Named{"powerlm", "llama", 2304, 40, 36, 36, 64, 9216, 49152, true},
    Named{"powermoe", "llama", 1536, 32, 24, 8, 64, 512, 49152, true, 40, 8, 512},
    Named{"mixtral-8x22b", "mixtral", 6144, 56, 48, 8, 128, 16384, 32000, false, 8, 2, 16384},
    Named{"mixtral", "mixtral", 4096, 32, 32, 8, 128, 14336, 32000, false, 8, 2, 14336},
    Named{"zephyr", "mistral", 4096, 32, 32, 8, 128, 14336, 32000},
    Named{"mistral-large", "mistral", 12288, 88, 96, 8, 128, 28672, 32768},
    Named{"mistral", "mistral", 4096, 32, 32, 8, 128, 14336, 32000},
    Named{"llama-3.2-11b", "llama", 4096, 32, 32, 8, 128, 14336, 128256},
    Named{"llama-3.2-1b", "llama", 2048, 16, 32, 8, 64, 8192, 128256, true},
    Named{"llama-3.2-3b", "llama", 3072, 28, 24, 8, 128, 8192, 128256, true},
    Named{"llama-3.1-405b", "llama", 16384, 126, 128, 8, 128, 53248, 128256},
    Named{"llama3-405b", "llama", 16384, 126, 128, 8, 128, 53248, 128256},
    Named{"llama-3.3-70b", "llama", 8192, 80, 64, 8, 128, 28672, 128256},
    Named{"llama-3.1-70b", "llama", 8192, 80, 64, 8, 128, 28672, 128256},
    Named{"llama31-70b", "llama", 8192, 80, 64, 8, 128, 28672, 128256},
    Named{"llama-3-70b", "llama", 8192, 80, 64, 8, 128, 28672, 128256},
    Named{"llama3-70b", "llama", 8192, 80, 64, 8, 128, 28672, 128256},
    Named{"llama-3.1-8b", "llama", 4096, 32, 32, 8, 128, 14336, 128256},
    Named{"llama31-8b", "llama", 4096, 32, 32, 8, 128, 14336, 128256},
    Named{"llama-3-8b", "llama", 4096, 32, 32, 8, 128, 14336, 128256},
    Named{"llama3-8b", "llama", 4096, 32, 32, 8, 128, 14336, 128256},
    Named{"llama32-3b", "llama", 3072, 28, 24, 8, 128, 8192, 128256, true},
    Named{"llama-2-70b", "llama", 8192, 80, 64, 8, 128, 28672, 32000},
    Named{"llama2-70b", "llama", 8192, 80, 64, 8, 128, 28672, 32000},
    Named{"llama-2-13b", "llama", 5120, 40, 40, 40, 128, 13824, 32000},
    Named{"llama2-13b", "llama", 5120, 40, 40, 40, 128, 13824, 32000},
    Named{"codellama-34b", "llama", 8192, 48, 64, 8, 128, 22016, 32000},
    Named{"llama-2-7b", "llama", 4096, 32, 32, 32, 128, 11008, 32000},
    Named{"llama-2-7-b", "llama", 4096, 32, 32, 32, 128, 11008, 32000},
    Named{"llama-2-70-b", "llama", 8192, 80, 64, 8, 128, 28672, 32000},
    Named{"llama2-7b", "llama", 4096, 32, 32, 32, 128, 11008, 32000},
    Named{"llama-7b", "llama", 4096, 32, 32, 32, 128, 11008, 32000},
    Named{"tiny-llama", "llama", 2048, 22, 32, 4, 64, 5632, 32000},
    Named{"tinyllama", "llama", 2048, 22, 32, 4, 64, 5632, 32000},
    Named{"phi-1.5", "phi", 2048, 24, 32, 32, 64, 8192, 51200},
    Named{"phi-1-5", "phi", 2048, 24, 32, 32, 64, 8192, 51200},
    Named{"phi-2", "phi", 2560, 32, 32, 32, 80, 10240, 51200},
    Named{"phi-3-mini", "phi3", 3072, 32, 32, 32, 96, 8192, 32064},
    Named{"stablelm", "gpt_neox", 4096, 16, 32, 32, 128, 16384, 50688},
    Named{"falcon-7", "falcon", 4544, 32, 71, 1, 64, 18176, 65024, true},
    Named{"falcon-40", "falcon", 8192, 60, 128, 8, 64, 32768, 65024, true},
    Named{"qwen3-235b", "qwen3_moe", 4096, 94, 64, 4, 128, 12288, 151936, false, 128, 8, 1536},
    Named{"qwen3-30b", "qwen3_moe", 2048, 48, 32, 4, 128, 6144, 151936, false, 128, 8, 768},
    Named{"qwen3-0.6b", "qwen3", 1024, 28, 16, 8, 128, 3072, 151936, true},
    Named{"qwen3-1.7b", "qwen3", 2048, 28, 16, 8, 128, 6144, 151936, true},
    Named{"qwen3-4b", "qwen3", 2560, 36, 32, 8, 128, 9728, 151936, true},
    Named{"qwen3-8b", "qwen3", 4096, 36, 32, 8, 128, 12288, 151936},
    Named{"qwen3-14b", "qwen3", 5120, 40, 40, 8, 128, 17408, 151936},
    Named{"qwen3-32b", "qwen3", 5120, 64, 64, 8, 128, 25600, 151936},
    Named{"qwen2.5-7b", "qwen2", 3584, 28, 28, 4, 128, 18944, 152064},
    Named{"qwen1.5-7b", "qwen2", 4096, 32, 32, 32, 128, 11008, 151936},
    Named{"qwen-1.8b", "llama", 2048, 24, 16, 16, 128, 5504, 151936},
    Named{"qwen-1-8b", "llama", 2048, 24, 16, 16, 128, 5504, 151936},
    Named{"qwen-7b", "llama", 4096, 32, 32, 32, 128, 11008, 151936},
    Named{"qwen-14b", "llama", 5120, 40, 40, 40, 128, 13696, 152064},
    Named{"qwen-72b", "llama", 8192, 80, 64, 64, 128, 24576, 152064},
    Named{"chatglm3", "llama", 4096, 28, 32, 2, 128, 13696, 65024},
    Named{"chatglm2", "llama", 4096, 28, 32, 2, 128, 13696, 65024},
    Named{"yi-6b", "llama", 4096, 32, 32, 4, 128, 11008, 64000},
    Named{"yi-34b", "llama", 7168, 60, 56, 8, 128, 20480, 64000},
    Named{"baichuan2-7b", "llama", 4096, 32, 32, 32, 128, 11008, 125696},
    Named{"baichuan2-13b", "llama", 5120, 40, 40, 40, 128, 13696, 125696},
    Named{"internlm2-20b", "llama", 6144, 48, 48, 8, 128, 16384, 92544},
    Named{"internlm-20b", "llama", 5120, 60, 40, 40, 128, 13824, 103168},
    Named{"internlm2-7b", "llama", 4096, 32, 32, 8, 128, 14336, 92544},
    Named{"internlm-7b", "llama", 4096, 32, 32, 32, 128, 11008, 103168},
    Named{"xverse-13b", "llama", 5120, 40, 40, 40, 128, 13824, 100278},
    Named{"xverse-7b", "llama", 4096, 32, 32, 32, 128, 10752, 100534},
    Named{"deepseek-7b", "llama", 4096, 30, 32, 32, 128, 11008, 102400},
    Named{"gemma-2-2b", "gemma2", 2304, 26, 8, 4, 256, 9216, 256000, true},
    Named{"gemma-2-9b", "gemma2", 3584, 42, 16, 8, 256, 14336, 256000, true},
    Named{"gemma-2b", "gemma", 2048, 18, 8, 1, 256, 16384, 256000, true},
    Named{"gemma-7b", "gemma", 3072, 28, 16, 16, 256, 24576, 256000, true},
    Named{"bert-large", "bert", 1024, 24, 16, 16, 64, 4096, 30522, true},
    Named{"bertlarge", "bert", 1024, 24, 16, 16, 64, 4096, 30522, true},
    Named{"gpt3-15b", "megatron_gpt", 6144, 32, 48, 8, 128, 24576, 256000},
    Named{"trilm", "llama", 3072, 30, 24, 24, 128, 9216, 50688},
    Named{"bge-small", "bert", 384, 12, 12, 12, 32, 1536, 30522, true},
};

bool has_layer_norms(std::string_view family) {
  constexpr std::array kFamilies{std::string_view{"gpt_bigcode"}, std::string_view{"phi"},
                                 std::string_view{"gpt_neox"},    std::string_view{"falcon"},
                                 std::string_view{"bert"},        std::string_view{"megatron_gpt"}};
  return std::ranges::find(kFamilies, family) != kFamilies.end();
}

ModelShape shape_of(const Named& named) {
  ModelShape shape;
  shape.name = named.word;
  shape.family = named.family;
  shape.hidden = named.hidden;
  shape.layers = named.layers;
  shape.heads = named.heads;
  shape.kv_heads = named.kv_heads;
  shape.head_dim = named.head_dim;
  shape.intermediate = named.intermediate;
  shape.vocab = named.vocab;
  shape.tied_embeddings = named.tied;
  if (has_layer_norms(named.family)) {
    shape.norm = NormKind::layer_norm;
    shape.gated_mlp = false;
  }
  if (named.family.starts_with("qwen3")) shape.qk_norm = planning::QkNorm::per_head;
  shape.experts.experts = named.experts;
  shape.experts.experts_per_token = named.experts_per_token;
  shape.experts.intermediate = named.expert_width;
  shape.source = "config.json on huggingface.co";
  return shape;
}

}  // namespace

Result<ModelShape> model_named(std::string_view name, double parameters) {
  std::string plain = lower(name);
  std::ranges::replace(plain, ' ', '-');
  std::ranges::replace(plain, '_', '-');
  for (const Named& named : kModels) {
    if (!plain.contains(named.word)) continue;
    return shape_of(named);
  }
  if (Result<ModelShape> found = planning::find_model(name); found) return found;
  if (parameters > 0) return planning::shape_of_size(parameters);
  return fail(ErrorCode::not_found, fmt::format("model '{}' is not known and the row has no parameter count", name),
              "fill in the params column");
}

}  // namespace gpuwarden::bench
