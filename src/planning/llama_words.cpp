// SPDX-License-Identifier: Apache-2.0
#include "planning/llama_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/gguf.hpp"
#include "planning/engines.hpp"
#include "planning/other_words.hpp"
#include "planning/word_count.hpp"

namespace gpuwarden::planning {
namespace {

/// A type of the KV cache; those of ggml's blocks are llama.cpp's alone.
struct CacheType {
  std::string_view word;
  GgmlType type;
  double bytes = 0;  ///< where ggml has no such type
  bool blocks = false;
};
/// Source: llama.cpp common/arg.cpp, kv_cache_types.
constexpr CacheType kCacheTypes[] = {{"bf16", GgmlType::bf16},
                                     {"fp16", GgmlType::f16},
                                     {"fp8", GgmlType::f16, 1},
                                     {"int8", GgmlType::f16, 1},
                                     {"fp32", GgmlType::f32},
                                     {"q8-0", GgmlType::q8_0, 0, true},
                                     {"q5-1", GgmlType::q5_1, 0, true},
                                     {"q5-0", GgmlType::q5_0, 0, true},
                                     {"q4-1", GgmlType::q4_1, 0, true},
                                     {"q4-0", GgmlType::q4_0, 0, true},
                                     {"iq4-nl", GgmlType::iq4_nl, 0, true}};

Result<const CacheType*> cache_type(const Words& words, const std::string& option) {
  const auto text = words.text(option);
  if (!text) return nullptr;
  const auto* const found = std::ranges::find(kCacheTypes, known_word("kv-cache", *text), &CacheType::word);
  if (found == std::end(kCacheTypes))
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: unknown value '{}'", words.shown(option), printable(*text)),
                "one of bf16, fp16, fp8, int8, fp32; of llama.cpp f16, q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl");
  return found;
}

double bytes_of(const CacheType& type) { return type.bytes > 0 ? type.bytes : bytes_per_element(type.type); }

/// "all" and "auto" are every layer; so is a number beyond them. 0 is none.
Result<std::optional<std::uint32_t>> read_layers(const Words& words, const std::string& option, std::uint32_t most) {
  const auto text = words.text(option);
  const std::string word = normal_word(text.value_or("all"));
  if (word == "all" || word == "auto" || word == "-1" || word == "-2") return std::nullopt;
  const auto number = parse_integer(word);
  if (!number || *number < 0)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: '{}' is not a number of layers", words.shown(option), printable(*text)),
                "a whole number, or all");
  if (*number >= most) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

/// As llama.cpp calls the type of this half of the cache.
Result<std::string> type_name(const Words& words, const std::string& half) {
  GPUWARDEN_TRY(const CacheType* const type, cache_type(words, words.has(half) ? half : "kv-cache"));
  return std::string(format_of(type != nullptr ? type->type : GgmlType::f16).word);
}

/// Those that ollama does not hand on.
constexpr auto kLlamaServerOptions =
    std::to_array<const char*>({"split-mode", "tensor-split", "cpu-moe-layers", "cache-type-k", "cache-type-v"});

Result<void> refuse_others(const Words& words, const Workload& work) {
  const bool splits = traits_of(work.engine).splits_layers && work.settings.task == Task::serving;
  const char* foreign = nullptr;
  for (const char* option : kLlamaServerOptions) {
    if (!splits && words.has(option)) foreign = option;
  }
  // Other engines have every layer on GPUs, whoever says so.
  if (!splits && words.has("gpu-layers")) {
    GPUWARDEN_TRY(const auto layers, read_layers(words, "gpu-layers", work.model.layers));
    if (layers) foreign = "gpu-layers";
  }
  if (foreign != nullptr)
    return fail(ErrorCode::invalid_argument, fmt::format("{}: only llama.cpp has it", words.shown(foreign)),
                fmt::format("{} llama.cpp", words.shown("engine")));
  for (const char* option : kLlamaServerOptions) {
    if (work.engine == Engine::ollama && splits && words.has(option))
      return fail(ErrorCode::invalid_argument, fmt::format("{}: ollama has no such setting", words.shown(option)),
                  fmt::format("it spreads layers by itself, and stores both halves of its cache as {} says "
                              "(OLLAMA_KV_CACHE_TYPE); {} llama.cpp plans it",
                              words.shown("kv-cache"), words.shown("engine")));
  }
  const std::string cache = known_word("kv-cache", words.text("kv-cache").value_or(""));
  const auto* const type = std::ranges::find(kCacheTypes, cache, &CacheType::word);
  if (splits && type != std::end(kCacheTypes) && type->bytes > 0)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} {}: {} has no such type", words.shown("kv-cache"), printable(*words.text("kv-cache")),
                            traits_of(work.engine).title),
                fmt::format("{} q8_0", words.shown("kv-cache")));
  if (!splits && type != std::end(kCacheTypes) && type->blocks)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} {}: only llama.cpp stores its cache in ggml's blocks", words.shown("kv-cache"),
                            printable(*words.text("kv-cache"))),
                fmt::format("{} fp8, or {} llama.cpp", words.shown("kv-cache"), words.shown("engine")));
  for (const char* option : {"tensor-parallel", "pipeline-parallel", "context-parallel", "expert-parallel"}) {
    if (splits && words.has(option))
      return fail(
          ErrorCode::invalid_argument,
          fmt::format("{}: llama.cpp has no such parallelism; it spreads layers over all GPUs", words.shown(option)),
          fmt::format("leave it out; {} row divides matrices, {} 3,1 says how much each GPU gets",
                      words.shown("split-mode"), words.shown("tensor-split")));
  }
  return {};
}

Result<std::vector<double>> read_shares(const Words& words) {
  std::vector<double> shares;
  const auto text = words.text("tensor-split");
  if (!text) return shares;
  double sum = 0;
  std::string listed(*text);
  std::ranges::replace(listed, '/', ',');
  for (const std::string_view part : split(listed, ',')) {
    const auto share = parse_number(trim(part));
    if (!share || *share < 0 || *share > 1e9) {
      sum = 0;
      break;
    }
    shares.push_back(*share);
    sum += *share;
  }
  if (sum > 0) return shares;
  return fail(ErrorCode::invalid_argument,
              fmt::format("{}: '{}' is not a list of shares", words.shown("tensor-split"), printable(*text)),
              "one for each GPU, as in 3,1");
}

Result<LayerSplit::Mode> read_mode(const Words& words) {
  const std::string word = normal_word(words.text("split-mode").value_or("layer"));
  if (word == "layer") return LayerSplit::Mode::layer;
  if (word == "row") return LayerSplit::Mode::row;
  if (word == "none") return LayerSplit::Mode::none;
  return fail(ErrorCode::invalid_argument,
              fmt::format("{}: unknown value '{}'", words.shown("split-mode"), printable(word)),
              "one of layer, row, none; llama.cpp's tensor is not planned");
}

/// Of how many layers the CPU keeps the experts: a number, or all.
Result<std::uint32_t> read_host_experts(const Words& words, const ModelShape& model) {
  if (!words.has("cpu-moe-layers")) return 0U;
  const std::string text = words.text("cpu-moe-layers").value_or("all");
  if (normal_word(text) == "auto" || text.starts_with('-'))
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: '{}' is not a number of layers", words.shown("cpu-moe-layers"), printable(text)),
                "a whole number, or all");
  if (model.experts.experts == 0)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: {} has no experts", words.shown("cpu-moe-layers"), printable(model.name)),
                fmt::format("leave it out; {} N leaves whole layers to the CPU", words.shown("gpu-layers")));
  GPUWARDEN_TRY(const auto on_host, read_layers(words, "cpu-moe-layers", model.layers));
  return on_host.value_or(model.layers);
}

/// Source: llama.cpp src/llama-context.cpp ("quantized V cache requires Flash Attention").
Result<void> check_values(const Words& words, const Settings& settings) {
  if (settings.attention == Attention::flash) return {};
  for (const char* option : {"cache-type-v", "kv-cache"}) {
    GPUWARDEN_TRY(const CacheType* const type, cache_type(words, option));
    if (type != nullptr && type->blocks)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{} {}: llama.cpp stores values in blocks only with flash attention", words.shown(option),
                              printable(*words.text(option))),
                  fmt::format("-fa on, or {} q8_0 alone", words.shown("cache-type-k")));
  }
  return {};
}

}  // namespace

std::string mix_titles() {
  std::vector<std::string> titles;
  for (const FileMix& mix : file_mixes()) titles.emplace_back(mix.title);
  return join(titles, ", ");
}

bool means_gguf(const ModelShape& model, const Words& words) {
  if (model.gguf) return true;
  const auto text = words.text("quantization");
  // "mxfp4" alone is a checkpoint's format.
  return text && normal_word(*text) != "mxfp4" && mix_named(*text) != nullptr;
}

Result<void> read_cache_types(const Words& words, const ModelShape& model, Settings& settings) {
  GPUWARDEN_TRY(const CacheType* const both, cache_type(words, "kv-cache"));
  GPUWARDEN_TRY(const CacheType* const keys, cache_type(words, "cache-type-k"));
  GPUWARDEN_TRY(const CacheType* const values, cache_type(words, "cache-type-v"));
  if (both != nullptr) settings.kv_bytes = bytes_of(*both);
  if (keys == nullptr && values == nullptr) return {};
  const double key = keys != nullptr ? bytes_of(*keys) : settings.kv_bytes;
  const double value = values != nullptr ? bytes_of(*values) : settings.kv_bytes;
  // Latent attention's values are a part of what is stored as its keys.
  settings.kv_bytes = model.latent.kv_rank > 0 ? key : (key + value) / 2;
  return {};
}

Result<void> read_layer_split(const Words& words, Workload& work) {
  GPUWARDEN_CHECK(refuse_others(words, work));
  if (!traits_of(work.engine).splits_layers || work.settings.task != Task::serving) return {};
  const std::uint32_t layers = work.model.layers + work.model.encoder_layers;
  LayerSplit split;
  GPUWARDEN_TRY(split.mode, read_mode(words));
  GPUWARDEN_TRY(split.shares, read_shares(words));
  GPUWARDEN_TRY(split.gpu_layers, read_layers(words, "gpu-layers", layers + 1));
  GPUWARDEN_TRY(split.host_experts, read_host_experts(words, work.model));
  GPUWARDEN_TRY(split.keys, type_name(words, "cache-type-k"));
  GPUWARDEN_TRY(split.values, type_name(words, "cache-type-v"));
  if (work.batched_tokens > 0) split.tokens = work.batched_tokens;
  // Source: ollama's docs/faq.md: memory scales by OLLAMA_NUM_PARALLEL times OLLAMA_CONTEXT_LENGTH.
  if (work.engine == Engine::ollama && work.max_requests > 1) {
    work.settings.micro_batch = work.max_requests;
    work.fixed_micro_batch = true;
  }
  work.settings.split = std::move(split);
  return check_values(words, work.settings);
}

void note_gguf(const Words& words, Workload& work) {
  const ModelShape& model = work.model;
  const Settings& settings = work.settings;
  if (model.gguf && settings.trains()) {
    work.notes.emplace_back(
        "nothing is trained beside a GGUF file's weights: the model's own are planned, not the file's");
    return;
  }
  const bool named = words.has("quantization") && normal_word(words.text("quantization").value_or("")) != "gguf";
  if (model.assumed_mix && !named)
    work.notes.push_back(fmt::format(
        "the name says no width: {} is taken, as {} does; {} says otherwise", to_string(settings.quantization),
        work.engine == Engine::ollama ? "ollama's library mostly" : "llama.cpp's -hf", words.shown("quantization")));
  if (!model.dynamic_mix.empty() && !named)
    work.notes.push_back(fmt::format(
        "{} is not known exactly: its formats were chosen tensor by tensor. {}, the nearest mix, is planned; "
        "such files of DeepSeek-R1, MiniMax-M2.1 and Qwen3-4B are from 7% smaller to 12% larger",
        model.dynamic_mix, to_string(settings.quantization)));
  if (settings.split && work.engine == Engine::ollama && work.max_requests > 1)
    work.notes.push_back(fmt::format("each of the {} requests at a time (OLLAMA_NUM_PARALLEL) has a cache of {} tokens",
                                     work.max_requests, settings.sequence));
  else if (settings.split && work.max_requests > 1 && words.has("sequence"))
    work.notes.push_back(fmt::format("{} requests at a time share the cache of {} tokens: {} each", work.max_requests,
                                     settings.sequence, settings.sequence / work.max_requests));
}

}  // namespace gpuwarden::planning
