// SPDX-License-Identifier: Apache-2.0
#include "plan/workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/manager/models.hpp"
#include "gpuwarden/planning/config.hpp"
#include "options.hpp"

namespace gpuwarden::cli {
namespace {

using namespace planning;

/// A word that people write, and what it stands for.
template <class E>
struct Word {
  const char* word;
  E value;
};

constexpr Word<Precision> kPrecisions[] = {
    {"fp32", Precision::fp32},   {"bf16", Precision::bf16},           {"fp16", Precision::fp16},
    {"mixed", Precision::mixed}, {"mixed-low", Precision::mixed_low}, {"master-weights", Precision::master_weights}};
constexpr Word<Optimizer> kOptimizers[] = {{"adamw", Optimizer::adamw},
                                           {"adamw-8bit", Optimizer::adamw_8bit},
                                           {"adafactor", Optimizer::adafactor},
                                           {"lion", Optimizer::lion},
                                           {"sgd", Optimizer::sgd},
                                           {"sgd-momentum", Optimizer::sgd_momentum}};
constexpr Word<OptimizerStep> kSteps[] = {
    {"foreach", OptimizerStep::foreach}, {"fused", OptimizerStep::fused}, {"in-backward", OptimizerStep::in_backward}};
constexpr Word<Recompute> kRecompute[] = {{"none", Recompute::none},
                                          {"selective", Recompute::selective},
                                          {"full", Recompute::full},
                                          {"full-offloaded", Recompute::full_offloaded}};
constexpr Word<Attention> kAttention[] = {{"flash", Attention::flash}, {"eager", Attention::eager}};
constexpr Word<LossKernel> kLoss[] = {{"standard", LossKernel::standard},
                                      {"triton", LossKernel::triton},
                                      {"low", LossKernel::low},
                                      {"chunked", LossKernel::chunked},
                                      {"fused", LossKernel::fused_linear}};
constexpr Word<Quantization> kQuantization[] = {
    {"none", Quantization::none},  {"nf4", Quantization::nf4},   {"nf4-double", Quantization::nf4_double},
    {"int4", Quantization::int4},  {"int8", Quantization::int8}, {"fp8", Quantization::fp8},
    {"mxfp4", Quantization::mxfp4}};
constexpr Word<Sharding> kStrategies[] = {
    {"single", Sharding::none}, {"ddp", Sharding::none},    {"zero1", Sharding::zero1}, {"zero2", Sharding::zero2},
    {"zero3", Sharding::zero3}, {"fsdp1", Sharding::fsdp1}, {"fsdp2", Sharding::fsdp2}, {"fsdp", Sharding::fsdp2}};
constexpr Word<Offload> kOffload[] = {
    {"none", Offload::none}, {"optimizer", Offload::optimizer}, {"all", Offload::all}};
constexpr Word<Framework> kFrameworks[] = {{"transformers", Framework::transformers},
                                           {"transformers-legacy", Framework::transformers_legacy},
                                           {"torchtitan", Framework::torchtitan},
                                           {"torchtune", Framework::torchtune},
                                           {"litgpt", Framework::litgpt},
                                           {"megatron", Framework::megatron}};

template <class Row, std::size_t N>
Result<const Row*> row_option(const Args& args, const std::string& key, const Row (&rows)[N]) {
  const auto text = args.text(key);
  if (!text) return nullptr;
  const auto* const found = std::ranges::find_if(rows, [&](const Row& row) { return normal(*text) == row.word; });
  if (found != std::end(rows)) return found;
  std::vector<std::string> words;
  for (const Row& row : rows) words.emplace_back(row.word);
  return fail(ErrorCode::invalid_argument, fmt::format("--{}: '{}' is not known", key, printable(*text)),
              "one of " + join(words, ", "));
}

template <class E, std::size_t N>
Result<void> choose(const Args& args, const std::string& key, const Word<E> (&words)[N], E& value) {
  GPUWARDEN_TRY(const Word<E>* const word, row_option(args, key, words));
  if (word != nullptr) value = word->value;
  return {};
}

Result<void> count(const Args& args, const std::string& key, std::uint32_t most, std::uint32_t& value) {
  GPUWARDEN_TRY(const auto given, count_option(args, key, most));
  if (given && *given == 0) return fail(ErrorCode::invalid_argument, fmt::format("--{}: 0 is too few", key));
  if (given) value = *given;
  return {};
}

Result<void> read_adapters(const Args& args, const ModelShape& model, Settings& settings) {
  if (settings.task != Task::adapters) return {};
  std::uint32_t rank = settings.adapters.rank;
  GPUWARDEN_CHECK(count(args, "lora-rank", 65'536, rank));
  auto adapters = adapters_for(model, rank, args.list("lora-targets"));
  if (!adapters)
    return fail(adapters.error().code, "--lora-targets: " + adapters.error().message, adapters.error().hint);
  settings.adapters = *adapters;
  return {};
}

/// fp8 is how matrices are multiplied; what is stored stays what the task stores.
Result<void> read_precision(const Args& args, Settings& settings) {
  const auto text = args.text("precision");
  if (text && normal(*text) == "fp8") {
    settings.fp8 = Fp8::matrices;
    return {};
  }
  auto chosen = choose(args, "precision", kPrecisions, settings.precision);
  if (!chosen) chosen.error().hint += ", fp8";
  return chosen;
}

Result<void> read_kv_cache(const Args& args, Settings& settings) {
  constexpr Word<double> kTypes[] = {{"bf16", 2}, {"fp16", 2}, {"fp8", 1}, {"int8", 1}, {"fp32", 4}};
  return choose(args, "kv-cache", kTypes, settings.kv_bytes);
}

/// Learned positions end.
Result<void> read_sequence(const Args& args, const ModelShape& model, Settings& settings) {
  const bool image = model.kind == ModelKind::vision_encoder;
  const bool ends = model.positions == Positions::learned && !image && model.max_positions > 0;
  GPUWARDEN_CHECK(count(args, "sequence", 1U << 27U, settings.sequence));
  if (ends && settings.sequence > model.max_positions)
    return fail(ErrorCode::invalid_argument,
                fmt::format("--sequence: {} tokens, but the model has learned only {} positions", settings.sequence,
                            model.max_positions));
  return {};
}

Result<void> read_parallelism(const Args& args, Parallelism& parallel) {
  GPUWARDEN_CHECK(choose(args, "strategy", kStrategies, parallel.sharding));
  GPUWARDEN_CHECK(choose(args, "offload", kOffload, parallel.offload));
  GPUWARDEN_CHECK(count(args, "tensor-parallel", 1024, parallel.tensor));
  GPUWARDEN_CHECK(count(args, "pipeline-parallel", 1024, parallel.pipeline));
  GPUWARDEN_CHECK(count(args, "context-parallel", 1024, parallel.context));
  return count(args, "expert-parallel", 1024, parallel.expert);
}

/// Refuses the first of the options that is given.
Result<void> refuse_any(const Args& args, std::initializer_list<const char*> keys, std::string_view why,
                        std::string_view hint) {
  for (const char* key : keys) {
    if (args.has(key)) return fail(ErrorCode::invalid_argument, fmt::format("--{}: {}", key, why), std::string(hint));
  }
  return {};
}

/// Options that contradict each other, the task or the model.
Result<void> check_together(const Args& args, const ModelShape& model, const Settings& settings) {
  const Parallelism& parallel = settings.parallel;
  if (!settings.trains()) {
    GPUWARDEN_CHECK(refuse_any(args,
                               {"optimizer", "optimizer-step", "recompute", "loss", "offload", "global-batch", "tokens",
                                "mfu", "context-parallel"},
                               fmt::format("says how to train, but the task is {}", to_string(settings.task)),
                               "leave it out, or take --task train, lora or qlora"));
  }
  if (settings.trains())
    GPUWARDEN_CHECK(
        refuse_any(args, {"kv-cache", "prompt"}, "training keeps no KV cache", "--task inference or serve"));
  if (settings.task != Task::serving)
    GPUWARDEN_CHECK(refuse_any(args, {"utilization"}, "only a serving engine takes a share of the memory",
                               "--task serve; a measured utilization of arithmetic is --mfu"));
  if (settings.task != Task::adapters)
    GPUWARDEN_CHECK(refuse_any(args, {"lora-rank", "lora-targets"}, "only adapters have it", "--task lora or qlora"));
  const bool whole = parallel.sharding == Sharding::zero1 || parallel.sharding == Sharding::zero2;
  if (settings.task == Task::serving && parallel.sharding != Sharding::none)
    return fail(ErrorCode::invalid_argument,
                fmt::format("--strategy: {} shards what is trained; an engine does not", to_string(parallel.sharding)),
                "--tensor-parallel and --pipeline-parallel divide what is served");
  if (settings.task == Task::inference && whole)
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("--strategy: {} shards the optimizer, which inference has not", to_string(parallel.sharding)),
        "zero3 and fsdp shard weights too");
  if (parallel.expert > 1 && model.experts.experts == 0)
    return fail(ErrorCode::invalid_argument,
                fmt::format("--expert-parallel: {} has no experts to spread", printable(model.name)),
                "leave it out: the model is dense");
  const bool several = std::max({parallel.tensor, parallel.pipeline, parallel.context, parallel.expert}) > 1;
  if (is_single(args) && several)
    return fail(ErrorCode::invalid_argument, "--strategy single is one GPU: nothing is shared with others",
                "leave out --strategy, or --tensor-parallel and its kin");
  return {};
}

/// The task's own settings, then what options say otherwise.
Result<Settings> read_settings(const Args& args, const ModelShape& model, const std::string& task) {
  auto usual = settings_for(model, task);
  if (!usual) return fail(usual.error().code, "--task: " + usual.error().message, usual.error().hint);
  Settings settings = *usual;
  GPUWARDEN_CHECK(read_precision(args, settings));
  GPUWARDEN_CHECK(choose(args, "optimizer", kOptimizers, settings.optimizer));
  GPUWARDEN_CHECK(choose(args, "optimizer-step", kSteps, settings.step));
  GPUWARDEN_CHECK(choose(args, "recompute", kRecompute, settings.recompute));
  GPUWARDEN_CHECK(choose(args, "attention", kAttention, settings.attention));
  GPUWARDEN_CHECK(choose(args, "loss", kLoss, settings.loss));
  GPUWARDEN_CHECK(choose(args, "quantization", kQuantization, settings.quantization));
  GPUWARDEN_CHECK(choose(args, "framework", kFrameworks, settings.framework));
  GPUWARDEN_CHECK(read_sequence(args, model, settings));
  GPUWARDEN_CHECK(count(args, "prompt", 1U << 27U, settings.prompt));
  GPUWARDEN_CHECK(count(args, "micro-batch", 1U << 20U, settings.micro_batch));
  GPUWARDEN_CHECK(read_kv_cache(args, settings));
  GPUWARDEN_CHECK(read_parallelism(args, settings.parallel));
  GPUWARDEN_CHECK(read_adapters(args, model, settings));
  GPUWARDEN_CHECK(check_together(args, model, settings));
  return settings;
}

constexpr const char* kSizes[] = {"hidden", "layers", "heads", "kv-heads", "intermediate", "vocab"};

}  // namespace

std::string normal(std::string_view word) {
  std::string result = to_lower(trim(word));
  std::ranges::replace(result, '_', '-');
  return result;
}

bool is_single(const Args& args) { return normal(args.text("strategy").value_or("")) == "single"; }

Result<ModelShape> read_model(const Args& args, const std::string& name) {
  return manager::load_model(name, args.text("family").value_or(""));
}

Result<ModelShape> read_sized_model(const Args& args, const std::string& option) {
  const std::string text = args.text(option).value_or("");
  const auto parameters = parse_parameters(text);
  if (!parameters)
    return fail(parameters.error().code, fmt::format("--{}: {}", option, parameters.error().message),
                parameters.error().hint);
  ShapeHints hints;
  std::uint32_t* const values[] = {&hints.hidden,   &hints.layers,       &hints.heads,
                                   &hints.kv_heads, &hints.intermediate, &hints.vocab};
  for (std::size_t i = 0; i < std::size(kSizes); ++i) {
    GPUWARDEN_CHECK(count(args, kSizes[i], 1U << 24U, *values[i]));
  }
  GPUWARDEN_TRY(ModelShape model, shape_of_size(*parameters, hints));
  model.name = "a model of " + printable(text);
  return model;
}

Result<void> refuse_sizes(const Args& args, const std::string& option) {
  for (const char* key : kSizes) {
    if (args.has(key))
      return fail(ErrorCode::invalid_argument, fmt::format("--{} completes --{}, which is not given", key, option),
                  "a named model has its own sizes");
  }
  return {};
}

Result<Workload> read_workload(const Args& args, ModelShape model, const std::string& usual_task) {
  Workload work;
  work.model = std::move(model);
  GPUWARDEN_TRY(work.settings, read_settings(args, work.model, args.text("task").value_or(usual_task)));
  for (const char* key : {"strategy", "tensor-parallel", "pipeline-parallel", "context-parallel", "expert-parallel"}) {
    work.fixed_strategy = work.fixed_strategy || args.has(key);
  }
  work.fixed_micro_batch = args.has("micro-batch");
  work.fixed_recompute = args.has("recompute");
  if (!args.has("strategy")) shard_what_is_offloaded(work.settings.parallel);
  GPUWARDEN_TRY(const auto global_batch, count_option(args, "global-batch", 1U << 30U));
  if (global_batch == 0U) return fail(ErrorCode::invalid_argument, "--global-batch: 0 is too few");
  work.global_batch = global_batch.value_or(0);
  GPUWARDEN_TRY(const auto utilization, share_option(args, "utilization"));
  work.serving_utilization = utilization.value_or(work.serving_utilization);
  return work;
}

Result<std::optional<double>> share_option(const Args& args, const std::string& key) {
  auto text = args.text(key);
  if (!text) return std::nullopt;
  const bool percent = text->ends_with('%');
  if (percent) text->pop_back();
  const auto number = parse_number(*text);
  const double share = number ? (percent || *number > 1 ? *number / 100 : *number) : -1;
  if (share <= 0 || share > 1)
    return fail(ErrorCode::invalid_argument, fmt::format("--{}: '{}' is no share", key, printable(*text)),
                "for example 45%");
  return share;
}

}  // namespace gpuwarden::cli
