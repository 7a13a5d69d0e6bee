// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/gguf.hpp"
#include "gpuwarden/planning/words.hpp"
#include "planning/engines.hpp"
#include "planning/llama_words.hpp"
#include "planning/other_words.hpp"
#include "planning/word_count.hpp"

namespace gpuwarden::planning {
namespace {

/// A word that people write, and what it stands for.
template <class E>
struct Word {
  std::string_view word;
  E value;
};

constexpr Word<Precision> kWordsPrecisions[] = {
    {"fp32", Precision::fp32},   {"bf16", Precision::bf16},           {"fp16", Precision::fp16},
    {"mixed", Precision::mixed}, {"mixed-low", Precision::mixed_low}, {"master-weights", Precision::master_weights}};
constexpr Word<Optimizer> kWordsOptimizers[] = {{"adamw", Optimizer::adamw},
                                                {"adamw-8bit", Optimizer::adamw_8bit},
                                                {"adamw-4bit", Optimizer::adamw_4bit},
                                                {"adafactor", Optimizer::adafactor},
                                                {"lion", Optimizer::lion},
                                                {"sgd", Optimizer::sgd},
                                                {"sgd-momentum", Optimizer::sgd_momentum}};
constexpr Word<OptimizerStep> kWordsSteps[] = {
    {"foreach", OptimizerStep::foreach}, {"fused", OptimizerStep::fused}, {"in-backward", OptimizerStep::in_backward}};
constexpr Word<Recompute> kWordsRecompute[] = {{"none", Recompute::none},
                                               {"selective", Recompute::selective},
                                               {"full", Recompute::full},
                                               {"full-offloaded", Recompute::full_offloaded}};
constexpr Word<Attention> kWordsAttention[] = {{"flash", Attention::flash}, {"eager", Attention::eager}};
constexpr Word<LossKernel> kWordsLoss[] = {{"standard", LossKernel::standard}, {"compiled", LossKernel::compiled},
                                           {"triton", LossKernel::triton},     {"low", LossKernel::low},
                                           {"chunked", LossKernel::chunked},   {"fused", LossKernel::fused_linear}};
constexpr Word<Quantization> kWordsQuantization[] = {
    {"none", Quantization::none},   {"nf4", Quantization::nf4},   {"nf4-double", Quantization::nf4_double},
    {"int4", Quantization::int4},   {"int8", Quantization::int8}, {"fp8", Quantization::fp8},
    {"mxfp4", Quantization::mxfp4}, {"hqq", Quantization::hqq},   {"nvfp4", Quantization::nvfp4}};
constexpr Word<Sharding> kWordsStrategies[] = {
    {"single", Sharding::none}, {"ddp", Sharding::none},    {"zero1", Sharding::zero1}, {"zero2", Sharding::zero2},
    {"zero3", Sharding::zero3}, {"fsdp1", Sharding::fsdp1}, {"fsdp2", Sharding::fsdp2}, {"fsdp", Sharding::fsdp2}};
constexpr Word<Offload> kWordsOffload[] = {
    {"none", Offload::none}, {"optimizer", Offload::optimizer}, {"all", Offload::all}};
constexpr Word<Framework> kWordsFrameworks[] = {{"transformers", Framework::transformers},
                                                {"transformers-legacy", Framework::transformers_legacy},
                                                {"torchtitan", Framework::torchtitan},
                                                {"torchtune", Framework::torchtune},
                                                {"litgpt", Framework::litgpt},
                                                {"megatron", Framework::megatron}};

constexpr auto kWordsEngines = [] {
  std::array<Word<Engine>, kEngines.size()> words{};
  std::ranges::transform(kEngines, words.begin(),
                         [](const EngineTraits& row) { return Word<Engine>{row.word, row.engine}; });
  return words;
}();

constexpr auto kWorkloadNames = std::to_array<std::string_view>({"task",
                                                                 "sequence",
                                                                 "prompt",
                                                                 "micro-batch",
                                                                 "global-batch",
                                                                 "precision",
                                                                 "optimizer",
                                                                 "optimizer-step",
                                                                 "recompute",
                                                                 "attention",
                                                                 "loss",
                                                                 "quantization",
                                                                 "kv-cache",
                                                                 "cache-type-k",
                                                                 "cache-type-v",
                                                                 "split-mode",
                                                                 "tensor-split",
                                                                 "gpu-layers",
                                                                 "cpu-moe-layers",
                                                                 "lora-rank",
                                                                 "lora-targets",
                                                                 "strategy",
                                                                 "tensor-parallel",
                                                                 "pipeline-parallel",
                                                                 "context-parallel",
                                                                 "expert-parallel",
                                                                 "offload",
                                                                 "framework",
                                                                 "engine",
                                                                 "utilization",
                                                                 "mem-fraction-static",
                                                                 "batched-tokens",
                                                                 "max-requests",
                                                                 "compile"});

/// What other readers of the same words know.
constexpr auto kOthersNames = std::to_array<std::string_view>({"family", "tokens", "mfu", "params", "model-size"});

Result<void> check_names(const Words& words) {
  const auto is_in = [](const auto& table, std::string_view name) {
    return std::ranges::find(table, name) != std::ranges::end(table);
  };
  for (const std::string& name : words.names()) {
    if (is_in(kWorkloadNames, name) || is_in(kOthersNames, name) || is_in(size_names(), name)) continue;
    return fail(ErrorCode::invalid_argument, fmt::format("unknown option '{}'", words.shown(printable(name))),
                fmt::format("one of {}", fmt::join(kWorkloadNames, ", ")));
  }
  return {};
}

template <class E, class Table>
Result<void> choose_word(const Words& words, const std::string& key, const Table& table, E& value) {
  const auto text = words.text(key);
  if (!text) return {};
  const auto* const found = std::ranges::find(table, known_word(key, *text), &Word<E>::word);
  if (found != std::end(table)) {
    value = found->value;
    return {};
  }
  std::vector<std::string> known;
  for (const Word<E>& row : table) known.emplace_back(row.word);
  return fail(ErrorCode::invalid_argument, fmt::format("{}: unknown value '{}'", words.shown(key), printable(*text)),
              "one of " + join(known, ", "));
}

Result<void> read_adapters(const Words& words, const ModelShape& model, Settings& settings) {
  if (settings.task != Task::adapters) return {};
  std::uint32_t rank = settings.adapters.rank;
  GPUWARDEN_CHECK(read_word_count(words, "lora-rank", 65'536, rank));
  auto adapters = adapters_for(model, rank, words.list("lora-targets"));
  if (!adapters)
    return fail(adapters.error().code, words.shown("lora-targets") + ": " + adapters.error().message,
                adapters.error().hint);
  settings.adapters = *adapters;
  return {};
}

/// fp8 is how matrices are multiplied; what is stored stays what the task stores.
Result<void> read_precision(const Words& words, Settings& settings) {
  const auto text = words.text("precision");
  // vLLM's --dtype auto is the checkpoint's own format, which is what the task's usual one is.
  if (text && normal_word(*text) == "auto") return {};
  if (text && known_word("precision", *text) == "fp8") {
    settings.fp8 = Fp8::matrices;
    return {};
  }
  auto chosen = choose_word(words, "precision", kWordsPrecisions, settings.precision);
  if (!chosen) chosen.error().hint += ", fp8";
  return chosen;
}

/// A format of weights, or a mix of llama.cpp's files.
Result<void> read_quantization(const Words& words, const ModelShape& model, Settings& settings) {
  const auto text = words.text("quantization");
  // vLLM's word for what the file's name says.
  if (text && model.gguf && normal_word(*text) == "gguf") return {};
  const bool own = text && std::ranges::find(kWordsQuantization, known_word("quantization", *text),
                                             &Word<Quantization>::word) != std::end(kWordsQuantization);
  if (const FileMix* const mix = text && !own ? mix_named(*text) : nullptr) {
    settings.quantization = mix->kind;
    return {};
  }
  auto chosen = choose_word(words, "quantization", kWordsQuantization, settings.quantization);
  if (!chosen) chosen.error().hint += "; of GGUF files " + mix_titles();
  return chosen;
}

/// A word that stands alone, or is true or false.
Result<bool> read_flag(const Words& words, const std::string& name) {
  const std::string text = normal_word(words.text(name).value_or(words.has(name) ? "true" : "false"));
  if (text == "true" || text == "false") return text == "true";
  return fail(ErrorCode::invalid_argument,
              fmt::format("{}: '{}' is neither true nor false", words.shown(name), printable(text)));
}

/// "8192", "128k" and "25.6K" as vLLM reads them: small letters are decimal, capital ones binary. Source: vLLM's
/// human_readable_int (vllm/engine/arg_utils.py).
std::optional<std::uint32_t> length_of(std::string_view text) {
  constexpr double kMost = 1U << 27U;
  constexpr Word<double> kUnits[] = {{"k", 1e3}, {"K", 1024}, {"m", 1e6}, {"M", 1024.0 * 1024}};
  text = trim(text);
  const auto* const unit =
      std::ranges::find_if(kUnits, [&](const Word<double>& row) { return text.ends_with(row.word); });
  if (unit == std::end(kUnits)) return std::nullopt;
  const auto number = parse_number(text.substr(0, text.size() - 1));
  const double tokens = number ? *number * unit->value : 0;
  return tokens >= 1 && tokens <= kMost ? std::optional(static_cast<std::uint32_t>(tokens)) : std::nullopt;
}

/// vLLM's words for the greatest length that fits.
bool is_automatic(std::string_view length) { return normal_word(length) == "auto" || trim(length) == "-1"; }

/// llama.cpp's word for all of the model's positions.
bool is_whole_window(const Words& words, std::string_view length) {
  return trim(length) == "0" && known_word("engine", words.text("engine").value_or("")) == "llama.cpp";
}

/// Learned positions end.
Result<void> read_sequence(const Words& words, const ModelShape& model, Settings& settings) {
  const bool image = model.kind == ModelKind::vision_encoder;
  const bool ends = model.positions == Positions::learned && !image && model.max_positions > 0;
  const std::string text = words.text("sequence").value_or("");
  if (is_whole_window(words, text)) return {};
  if (is_automatic(text)) {
    if (settings.task != Task::serving)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{}: only a serving engine chooses its length", words.shown("sequence")),
                  "give the number of tokens, or leave it out");
    return {};
  }
  if (const auto length = length_of(text))
    settings.sequence = *length;
  else
    GPUWARDEN_CHECK(read_word_count(words, "sequence", 1U << 27U, settings.sequence));
  if (ends && settings.sequence > model.max_positions)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: {} tokens, but the model has learned only {} positions", words.shown("sequence"),
                            settings.sequence, model.max_positions));
  return {};
}

/// Rotary positions do not end, but a model knows only those that it was trained with. Engines refuse to go beyond what
/// the config says: vLLM's _get_and_verify_max_len, SGLang's context_length.
void note_length(Workload& work) {
  const ModelShape& model = work.model;
  const Settings& settings = work.settings;
  // Of llama.cpp's cache each of so many requests has its part.
  const bool shared = settings.split && work.engine == Engine::llama_cpp;
  const std::uint32_t length = settings.sequence / (shared ? std::max(1U, work.max_requests) : 1);
  if (model.positions != Positions::rotary || model.estimated || model.max_positions == 0 ||
      length <= model.max_positions)
    return;
  const std::string beyond = fmt::format("{} tokens are beyond the {} positions of {}'s config", length,
                                         model.max_positions, printable(model.name));
  if (settings.task == Task::serving && traits_of(work.engine).splits_layers)
    work.notes.push_back(beyond + fmt::format(": {} starts, but the model is of no use there without rope scaling",
                                              traits_of(work.engine).title));
  else if (settings.task == Task::serving)
    work.notes.push_back(beyond +
                         ": vLLM and SGLang refuse to start so, unless it says rope_scaling (vLLM: --hf-overrides); "
                         "memory alone is planned here");
  else
    work.notes.push_back(beyond + ": without rope scaling the model is of no use there; memory alone is planned here");
}

/// Where no length is given, an engine takes the model's.
void take_window(const Words& words, Workload& work) {
  const std::string text = words.text("sequence").value_or("");
  const bool named = words.has("sequence") && !is_automatic(text) && !is_whole_window(words, text);
  if (work.settings.task != Task::serving || named) return;
  const std::uint32_t window = usual_window(work.model, work.engine);
  if (work.engine == Engine::ollama && work.model.num_ctx > 0) {
    // Source: ollama llm/server.go: num_ctx beyond what the model was trained with is lowered to that.
    work.settings.sequence = window > 0 ? std::min(work.model.num_ctx, window) : work.model.num_ctx;
    work.notes.push_back(fmt::format("{} tokens: the model's own parameters have num_ctx {}", work.settings.sequence,
                                     work.model.num_ctx));
    return;
  }
  if (window == 0) {
    work.length = Length::assumed;
    work.notes.push_back(
        fmt::format("the model's window is not known: requests of {} tokens are assumed; {} says otherwise",
                    work.settings.sequence, words.shown("sequence")));
    return;
  }
  const bool shortens = traits_of(work.engine).shortens || is_automatic(text);
  work.settings.sequence = window;
  if (work.engine == Engine::ollama) {
    work.length = Length::usual;
    return;
  }
  work.length = shortens && !is_whole_window(words, text) ? Length::fitted : Length::window;
}

Result<void> read_parallelism(const Words& words, Parallelism& parallel) {
  GPUWARDEN_CHECK(choose_word(words, "strategy", kWordsStrategies, parallel.sharding));
  GPUWARDEN_CHECK(choose_word(words, "offload", kWordsOffload, parallel.offload));
  GPUWARDEN_CHECK(read_word_count(words, "tensor-parallel", 1024, parallel.tensor));
  GPUWARDEN_CHECK(read_word_count(words, "pipeline-parallel", 1024, parallel.pipeline));
  GPUWARDEN_CHECK(read_word_count(words, "context-parallel", 1024, parallel.context));
  return read_word_count(words, "expert-parallel", 1024, parallel.expert);
}

/// Refuses the first of the options that is given.
Result<void> refuse_any(const Words& words, std::initializer_list<const char*> keys, const std::string& why,
                        const std::string& hint) {
  for (const char* key : keys) {
    if (words.has(key)) return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", words.shown(key), why), hint);
  }
  return {};
}

/// Options that contradict each other, the task or the model.
Result<void> check_together(const Words& words, const ModelShape& model, const Settings& settings) {
  const Parallelism& parallel = settings.parallel;
  if (!settings.trains()) {
    GPUWARDEN_CHECK(refuse_any(words,
                               {"optimizer", "optimizer-step", "recompute", "loss", "offload", "global-batch", "tokens",
                                "mfu", "context-parallel", "compile"},
                               fmt::format("says how to train, but the task is {}", to_string(settings.task)),
                               fmt::format("leave it out, or take {} train, lora or qlora", words.shown("task"))));
  }
  if (settings.trains())
    GPUWARDEN_CHECK(refuse_any(words, {"kv-cache", "prompt"}, "training keeps no KV cache",
                               words.shown("task") + " inference or serve"));
  if (settings.task != Task::serving)
    GPUWARDEN_CHECK(refuse_any(
        words, {"utilization", "mem-fraction-static"}, "only a serving engine takes a share of the memory",
        fmt::format("{} serve; a measured utilization of arithmetic is {}", words.shown("task"), words.shown("mfu"))));
  if (settings.task != Task::serving)
    GPUWARDEN_CHECK(refuse_any(words, {"batched-tokens", "max-requests", "engine"}, "only a serving engine has it",
                               words.shown("task") + " serve"));
  if (settings.task != Task::adapters)
    GPUWARDEN_CHECK(refuse_any(words, {"lora-rank", "lora-targets"}, "only adapters have it",
                               words.shown("task") + " lora or qlora"));
  const bool whole = parallel.sharding == Sharding::zero1 || parallel.sharding == Sharding::zero2;
  if (settings.task == Task::serving && parallel.sharding != Sharding::none)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: {} shards what is trained; an engine does not", words.shown("strategy"),
                            to_string(parallel.sharding)),
                fmt::format("{} and {} divide what is served", words.shown("tensor-parallel"),
                            words.shown("pipeline-parallel")));
  if (settings.task == Task::inference && whole)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: {} shards the optimizer, which inference has not", words.shown("strategy"),
                            to_string(parallel.sharding)),
                "zero3 and fsdp shard weights too");
  if (parallel.expert > 1 && model.experts.experts == 0)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: {} has no experts to spread", words.shown("expert-parallel"), printable(model.name)),
                "leave it out: the model is dense");
  const bool several = std::max({parallel.tensor, parallel.pipeline, parallel.context, parallel.expert}) > 1;
  if (normal_word(words.text("strategy").value_or("")) == "single" && several)
    return fail(
        ErrorCode::invalid_argument, words.shown("strategy") + " single is one GPU: nothing is shared with others",
        fmt::format("leave out {}, or {} and the like", words.shown("strategy"), words.shown("tensor-parallel")));
  return {};
}

/// The task's own settings, then what options say otherwise.
Result<Settings> read_settings(const Words& words, const ModelShape& model, const std::string& task) {
  auto usual = settings_for(model, task);
  if (!usual) return fail(usual.error().code, words.shown("task") + ": " + usual.error().message, usual.error().hint);
  Settings settings = *usual;
  GPUWARDEN_CHECK(read_precision(words, settings));
  GPUWARDEN_CHECK(choose_word(words, "optimizer", kWordsOptimizers, settings.optimizer));
  GPUWARDEN_CHECK(choose_word(words, "optimizer-step", kWordsSteps, settings.step));
  GPUWARDEN_CHECK(choose_word(words, "recompute", kWordsRecompute, settings.recompute));
  GPUWARDEN_CHECK(choose_word(words, "attention", kWordsAttention, settings.attention));
  GPUWARDEN_CHECK(choose_word(words, "loss", kWordsLoss, settings.loss));
  GPUWARDEN_CHECK(read_quantization(words, model, settings));
  GPUWARDEN_CHECK(choose_word(words, "framework", kWordsFrameworks, settings.framework));
  // torchtitan's published runs are compiled, and so is their loss since 2025 (torchtitan/components/loss.py).
  const bool titan = settings.framework == Framework::torchtitan && settings.trains();
  GPUWARDEN_TRY(const bool compiled, read_flag(words, "compile"));
  settings.compiled = compiled || titan;
  if (titan && !words.has("loss")) settings.loss = LossKernel::compiled;
  if (normal_word(words.text("optimizer").value_or("")) == "adamw-torch-fused" && !words.has("optimizer-step"))
    settings.step = OptimizerStep::fused;
  GPUWARDEN_CHECK(read_sequence(words, model, settings));
  GPUWARDEN_CHECK(read_word_count(words, "prompt", 1U << 27U, settings.prompt));
  GPUWARDEN_CHECK(read_word_count(words, "micro-batch", 1U << 20U, settings.micro_batch));
  GPUWARDEN_CHECK(read_cache_types(words, model, settings));
  GPUWARDEN_CHECK(read_parallelism(words, settings.parallel));
  GPUWARDEN_CHECK(read_adapters(words, model, settings));
  GPUWARDEN_CHECK(check_together(words, model, settings));
  return settings;
}

/// SGLang's own share of a GPU's memory.
Result<void> read_static_share(const Words& words, Workload& work) {
  GPUWARDEN_TRY(const auto share, read_share(words, "mem-fraction-static"));
  if (!share) return {};
  if (work.engine != Engine::sglang)
    return fail(ErrorCode::invalid_argument, words.shown("mem-fraction-static") + ": only SGLang has it",
                fmt::format("{} sglang, or {} SHARE", words.shown("engine"), words.shown("utilization")));
  if (words.has("utilization"))
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} and {} cannot be used together", words.shown("mem-fraction-static"),
                            words.shown("utilization")),
                "leave one of them out");
  work.static_share = *share;
  return {};
}

/// Where degrees are given but not how replicas share what is left: as the frameworks that have these degrees are run.
/// Megatron-LM's and Megatron Bridge's recipes all have the distributed optimizer; torchtitan's data parallelism is
/// FSDP. Other frameworks' replicas share nothing unless they are told to.
void shard_as_usual(Workload& work) {
  Parallelism& parallel = work.settings.parallel;
  const bool given = std::max({parallel.tensor, parallel.pipeline, parallel.context, parallel.expert}) > 1;
  const bool titan = work.settings.framework == Framework::torchtitan;
  const bool megatron = work.settings.framework == Framework::megatron;
  if (!given || !(titan || megatron) || !work.settings.trains() || parallel.sharding != Sharding::none) return;
  parallel.sharding = titan ? Sharding::fsdp2 : Sharding::zero1;
  work.usual_sharding = true;
}

}  // namespace

std::span<const std::string_view> workload_names() { return kWorkloadNames; }

Result<Workload> workload_from(ModelShape model, const Words& words, const std::string& usual_task) {
  GPUWARDEN_CHECK(check_names(words));
  Workload work;
  work.model = std::move(model);
  const bool gguf = means_gguf(work.model, words);
  const std::string task = words.text("task").value_or(gguf ? "serve" : usual_task);
  GPUWARDEN_TRY(work.settings, read_settings(words, work.model, known_word("task", task)));
  if (gguf) work.engine = work.model.tag ? Engine::ollama : Engine::llama_cpp;
  GPUWARDEN_CHECK(choose_word(words, "engine", kWordsEngines, work.engine));
  take_window(words, work);
  const std::string packed = normal_word(words.text("quantization").value_or(""));
  if (packed == "gptq-int8" || packed == "w8a16") work.model.quantized_weights_only = true;
  if (packed == "w8a8") work.model.quantized_weights_only = false;
  for (const char* key : {"strategy", "tensor-parallel", "pipeline-parallel", "context-parallel", "expert-parallel"}) {
    work.fixed_strategy = work.fixed_strategy || words.has(key);
  }
  work.fixed_micro_batch = words.has("micro-batch");
  work.fixed_recompute = words.has("recompute");
  if (!words.has("strategy")) {
    shard_what_is_offloaded(work.settings.parallel);
    shard_as_usual(work);
  }
  std::uint32_t global_batch = 0;
  GPUWARDEN_CHECK(read_word_count(words, "global-batch", 1U << 30U, global_batch));
  work.global_batch = global_batch;
  GPUWARDEN_TRY(const auto utilization, read_share(words, "utilization"));
  work.serving_utilization = utilization.value_or(traits_of(work.engine).share);
  GPUWARDEN_CHECK(read_static_share(words, work));
  GPUWARDEN_CHECK(read_word_count(words, "batched-tokens", 1U << 24U, work.batched_tokens));
  GPUWARDEN_CHECK(read_word_count(words, "max-requests", 1U << 16U, work.max_requests));
  GPUWARDEN_CHECK(read_layer_split(words, work));
  note_length(work);
  note_gguf(words, work);
  return work;
}

}  // namespace gpuwarden::planning
