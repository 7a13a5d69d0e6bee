// SPDX-License-Identifier: Apache-2.0
#include "planner/models.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "gpuwarden/planning/catalog.hpp"
#include "gpuwarden/planning/config.hpp"
#include "gpuwarden/planning/parameters.hpp"
#include "planner/table.hpp"

namespace gpuwarden::bench {

namespace {

using planning::ModelShape;
using planning::NormKind;

/// `word` in a name, lower case and with '-' for ' ' and '_', means this model of the catalogue. The first row that
/// fits is taken, so longer words stand first.
struct Word {
  std::string_view word;
  std::string_view model = word;
};

constexpr std::array kWords{
    Word{"santacoder"},
    Word{"starcoder"},
    Word{"powerlm-3b"},
    Word{"powerlm", "powerlm-3b"},
    Word{"mixtral-8x22b"},
    Word{"mixtral"},
    Word{"zephyr", "zephyr-7b-beta"},
    Word{"mistral", "mistral-7b-v0.1"},
    Word{"llama-3.2-11b", "llama-3.1-8b"},
    Word{"llama-3.2-1b"},
    Word{"llama-3.2-3b"},
    Word{"llama-3.1-405b"},
    Word{"llama3-405b", "llama-3.1-405b"},
    Word{"llama-3.3-70b"},
    Word{"llama-3.1-70b"},
    Word{"llama31-70b"},
    Word{"llama-3-70b"},
    Word{"llama3-70b"},
    Word{"llama-3.1-8b"},
    Word{"llama31-8b"},
    Word{"llama-3-8b"},
    Word{"llama3-8b"},
    Word{"llama32-3b"},
    Word{"llama-2-70b"},
    Word{"llama2-70b"},
    Word{"llama-2-13b"},
    Word{"llama2-13b"},
    Word{"codellama-34b"},
    Word{"llama-2-7b"},
    Word{"llama-2-7-b"},
    Word{"llama-2-70-b"},
    Word{"llama2-7b"},
    Word{"llama-7b"},
    Word{"tiny-llama", "tinyllama-1.1b"},
    Word{"tinyllama", "tinyllama-1.1b"},
    Word{"phi-1.5"},
    Word{"phi-1-5"},
    Word{"phi-2"},
    Word{"phi-3-mini"},
    Word{"stablelm", "stablelm-base-alpha-3b"},
    Word{"falcon-7", "falcon-7b"},
    Word{"falcon-40", "falcon-40b"},
    Word{"qwen3-235b", "qwen3-235b-a22b"},
    Word{"qwen3-30b", "qwen3-30b-a3b"},
    Word{"qwen3-0.6b"},
    Word{"qwen3-1.7b"},
    Word{"qwen3-4b"},
    Word{"qwen3-8b"},
    Word{"qwen3-14b"},
    Word{"qwen3-32b"},
    Word{"qwen2.5-7b"},
    Word{"qwen1.5-7b"},
    Word{"qwen-1.8b"},
    Word{"qwen-1-8b"},
    Word{"qwen-7b"},
    Word{"qwen-14b"},
    Word{"qwen-72b"},
    Word{"chatglm3", "chatglm3-6b"},
    Word{"chatglm2", "chatglm3-6b"},
    Word{"yi-6b"},
    Word{"yi-34b"},
    Word{"baichuan2-7b"},
    Word{"internlm2-20b"},
    Word{"internlm2-7b"},
    Word{"deepseek-7b", "deepseek-llm-7b-base"},
    Word{"gemma-2-2b"},
    Word{"gemma-2-9b"},
    Word{"gemma-2b"},
    Word{"gemma-7b"},
    Word{"bert-large"},
    Word{"bertlarge", "bert-large"},
    Word{"bge-small", "bge-small-en-v1.5"},
};

/// Models that the catalogue does not have, by word. Shapes: the models' config.json on huggingface.co.
struct Unlisted {
  std::string_view word;
  std::string_view family;
  std::uint32_t hidden, layers, heads, kv_heads, head_dim, intermediate, vocab;
  bool tied = false;
  std::uint32_t experts = 0, experts_per_token = 0, expert_width = 0;
};

constexpr std::array kUnlisted{
    Unlisted{"starcoderbase-1b", "gpt_bigcode", 2048, 24, 16, 1, 128, 8192, 49152, true},
    Unlisted{"granite-8b", "llama", 4096, 36, 32, 8, 128, 14336, 49152, true},
    Unlisted{"granite-3b", "llama", 2560, 32, 32, 32, 80, 10240, 49152, true},
    Unlisted{"granite-34b", "gpt_bigcode", 6144, 88, 48, 1, 128, 24576, 49152, true},
    Unlisted{"powermoe", "llama", 1536, 32, 24, 8, 64, 512, 49152, true, 40, 8, 512},
    Unlisted{"mistral-large", "mistral", 12288, 88, 96, 8, 128, 28672, 32768},
    Unlisted{"baichuan2-13b", "llama", 5120, 40, 40, 40, 128, 13696, 125696},
    Unlisted{"internlm-20b", "llama", 5120, 60, 40, 40, 128, 13824, 103168},
    Unlisted{"internlm-7b", "llama", 4096, 32, 32, 32, 128, 11008, 103168},
    Unlisted{"xverse-13b", "llama", 5120, 40, 40, 40, 128, 13824, 100278},
    Unlisted{"xverse-7b", "llama", 4096, 32, 32, 32, 128, 10752, 100534},
    Unlisted{"gpt3-15b", "megatron_gpt", 6144, 32, 48, 8, 128, 24576, 256000},
    Unlisted{"trilm", "llama", 3072, 30, 24, 24, 128, 9216, 50688},
};

bool has_layer_norms(std::string_view family) { return family == "gpt_bigcode" || family == "megatron_gpt"; }

ModelShape shape_of(const Unlisted& named) {
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
  shape.experts.experts = named.experts;
  shape.experts.experts_per_token = named.experts_per_token;
  shape.experts.intermediate = named.expert_width;
  shape.source = "config.json on huggingface.co";
  return shape;
}

/// In small letters, '-' for blanks and '_', "7-b" as "7b".
std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char c : lower(name)) {
    const bool dash = c == ' ' || c == '_';
    const std::size_t n = plain.size();
    const bool size =
        c == 'b' && n > 1 && plain[n - 1] == '-' && std::isdigit(static_cast<unsigned char>(plain[n - 2]));
    if (size) plain.pop_back();
    plain += dash ? '-' : c;
  }
  return plain;
}

/// Whether `word` stands in `text` with neither letter nor digit beside it.
bool contains_word(std::string_view text, std::string_view word) {
  const auto joins = [&](std::size_t at) {
    return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
  };
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    if (!(at > 0 && joins(at - 1)) && !joins(at + word.size())) return true;
  }
  return false;
}

/// The catalogue's model whose name, without its publisher, is the longest part of this one; empty: none is.
std::string longest_known(std::string_view plain) {
  std::string longest;
  std::size_t length = 0;
  for (const std::string& name : planning::catalog_names()) {
    const std::string known = plain_name(std::string_view(name).substr(name.rfind('/') + 1));
    if (known.size() <= length || !contains_word(plain, known)) continue;
    length = known.size();
    longest = name;
  }
  return longest;
}

/// The model that a text speaks of; empty: none that is known.
std::string named_within(std::string_view plain) {
  if (std::string known = longest_known(plain); !known.empty()) return known;
  const auto* const word = std::ranges::find_if(kWords, [&](const Word& w) { return plain.contains(w.word); });
  return word == kWords.end() ? std::string() : std::string(word->model);
}

/// Whether a model may be of so many parameters; 0: not said. Those of a multimodal one are more than its text model's.
bool near(const ModelShape& model, double parameters) {
  constexpr double kMost = 1.6;
  const auto counted = static_cast<double>(planning::count_parameters(model).total);
  return parameters <= 0 || (counted < kMost * parameters && parameters < kMost * counted);
}

}  // namespace

Result<ModelShape> model_named(std::string_view name, double parameters) {
  const std::string plain = plain_name(name);
  for (const Unlisted& model : kUnlisted) {
    if (plain.contains(model.word)) return shape_of(model);
  }
  if (Result<ModelShape> found = planning::find_model(name); found) return found;
  if (const std::string known = named_within(plain); !known.empty()) {
    Result<ModelShape> found = planning::find_model(known);
    if (found && near(*found, parameters)) return found;
  }
  if (parameters > 0) return planning::shape_of_size(parameters);
  return fail(ErrorCode::not_found, fmt::format("model '{}' is not known and the row has no parameter count", name),
              "fill in the params column");
}

}  // namespace gpuwarden::bench
