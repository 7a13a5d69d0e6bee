// SPDX-License-Identifier: Apache-2.0
#include "plan/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/parameters.hpp"
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

/// What a task sets before the other options.
struct TaskWord {
  const char* word;
  Task task;
  bool quantized;
  Precision precision = Precision::mixed_low;
};
constexpr TaskWord kTasks[] = {
    {"train", Task::full_training, false},    {"pretrain", Task::full_training, false, Precision::mixed},
    {"finetune", Task::full_training, false}, {"lora", Task::adapters, false},
    {"qlora", Task::adapters, true},          {"inference", Task::inference, false},
    {"serve", Task::serving, false}};
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

std::string normal(std::string_view word) {
  std::string result = to_lower(trim(word));
  std::ranges::replace(result, '_', '-');
  return result;
}

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

/// The adapters' matrices by the family's module names: "q_proj,v_proj", "all-linear", "attention".
Result<AdapterTargets> targets_of(const Args& args, const ModelShape& model) {
  std::vector<std::string> names = args.list("lora-targets");
  if (names.empty()) names = default_lora_targets(model);
  GPUWARDEN_TRY(const auto known, lora_parameters(model, 1, names));
  if (known == 0) return fail(ErrorCode::invalid_argument, "--lora-targets: no matrix is named");
  AdapterTargets targets{.query = false, .value = false};
  const auto has = [&](std::initializer_list<std::string_view> words) {
    return std::ranges::any_of(names, [&](const std::string& name) {
      return name == "all-linear" || std::ranges::find(words, name) != words.end();
    });
  };
  targets.joint_qkv = has({"query_key_value", "c_attn", "Wqkv", "qkv_proj", "W_pack", "wqkv"});
  const bool joint = default_lora_targets(model).size() == 1;
  targets.joint_qkv = targets.joint_qkv && joint;
  targets.query = !joint && has({"q_proj", "q", "query", "q_b_proj"});
  targets.key = !joint && has({"k_proj", "k", "key", "kv_b_proj"});
  targets.value = !joint && has({"v_proj", "v", "value", "kv_b_proj"});
  targets.output =
      has({"o_proj", "out_proj", "dense", "wo", "o", "attn.c_proj", "attention.dense", "attention.output.dense"});
  targets.gate = has({"gate_proj", "w1", "wi_0", "gate_up_proj"});
  targets.up = has(
      {"up_proj", "fc1", "c_fc", "w3", "w2", "wi_1", "dense_h_to_4h", "gate_up_proj", "fc_in", "intermediate.dense"});
  targets.down = has({"down_proj", "fc2", "mlp.c_proj", "c_proj", "dense_4h_to_h", "fc_out", "output.dense"});
  return targets;
}

Result<void> read_adapters(const Args& args, const ModelShape& model, Settings& settings) {
  if (settings.task != Task::adapters) return {};
  GPUWARDEN_CHECK(count(args, "lora-rank", 65'536, settings.adapters.rank));
  GPUWARDEN_TRY(settings.adapters.targets, targets_of(args, model));
  const auto names = args.list("lora-targets");
  GPUWARDEN_TRY(settings.adapters.stated_parameters, lora_parameters(model, settings.adapters.rank, names));
  return {};
}

/// How a checkpoint says that its weights are stored.
Quantization stored_quantization(const ModelShape& model) {
  if (!model.quantization || model.quantization_bits == 0) return Quantization::none;
  if (model.quantization->contains("bitsandbytes") && model.quantization_bits == 4) return Quantization::nf4;
  if (model.quantization->contains("fp8")) return Quantization::fp8;
  if (*model.quantization == "mxfp4") return Quantization::mxfp4;
  if (model.quantization_bits <= 4) return Quantization::int4;
  return model.quantization_bits <= 8 ? Quantization::int8 : Quantization::none;
}

/// fp8 is how matrices are multiplied; what is stored stays what the task stores.
Result<void> read_precision(const Args& args, Settings& settings) {
  const auto text = args.text("precision");
  if (text && normal(*text) == "fp8") {
    settings.fp8 = Fp8::matrices;
    return {};
  }
  return choose(args, "precision", kPrecisions, settings.precision);
}

Result<void> read_kv_cache(const Args& args, Settings& settings) {
  constexpr Word<double> kTypes[] = {{"bf16", 2}, {"fp16", 2}, {"fp8", 1}, {"int8", 1}, {"fp32", 4}};
  return choose(args, "kv-cache", kTypes, settings.kv_bytes);
}

/// Learned positions end; an image is as long as it is.
Result<void> read_sequence(const Args& args, const ModelShape& model, Settings& settings) {
  const bool image = model.kind == ModelKind::vision_encoder;
  const std::uint32_t edge = image ? model.image.image / model.image.patch : 0;
  const bool ends = model.positions == Positions::learned && !image && model.max_positions > 0;
  if (image) settings.sequence = edge * edge + 1;
  if (ends) settings.sequence = std::min(settings.sequence, model.max_positions);
  GPUWARDEN_CHECK(count(args, "sequence", 1U << 27U, settings.sequence));
  if (ends && settings.sequence > model.max_positions)
    return fail(ErrorCode::invalid_argument,
                fmt::format("--sequence: {} tokens, but the model has learned only {} positions", settings.sequence,
                            model.max_positions));
  return {};
}

/// Tasks that some kinds of model do not know.
Result<void> check_task(const ModelShape& model, Task task) {
  const bool generates = model.kind == ModelKind::decoder || model.kind == ModelKind::encoder_decoder;
  if (task != Task::serving || generates) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("--task serve: a {} generates no tokens and keeps no KV cache", model.family),
              "--task inference plans its forward pass");
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
  const bool several = parallel.tensor * parallel.pipeline * parallel.context * parallel.expert > 1;
  if (args.text("strategy") && normal(*args.text("strategy")) == "single" && several)
    return fail(ErrorCode::invalid_argument, "--strategy single is one GPU: nothing is shared with others",
                "leave out --strategy, or --tensor-parallel and its kin");
  return {};
}

}  // namespace

Result<Settings> read_plan_settings(const Args& args, const ModelShape& model) {
  Settings settings;
  GPUWARDEN_TRY(const TaskWord* const task, row_option(args, "task", kTasks));
  if (task != nullptr) {
    settings.task = task->task;
    settings.precision = task->precision;
  }
  if (task != nullptr && task->quantized) {
    settings.quantization = Quantization::nf4_double;
    settings.fp32_residual = true;
  }
  if (!settings.trains()) settings.precision = Precision::bf16;
  const Quantization stored = stored_quantization(model);
  // transformers makes mxfp4 16-bit before anything is trained beside it.
  const bool kept = !settings.trains() || (settings.task == Task::adapters && stored != Quantization::mxfp4);
  if (kept && stored != Quantization::none) settings.quantization = stored;
  if (model.eager_only) settings.attention = Attention::eager;
  GPUWARDEN_CHECK(read_precision(args, settings));
  GPUWARDEN_CHECK(choose(args, "optimizer", kOptimizers, settings.optimizer));
  GPUWARDEN_CHECK(choose(args, "optimizer-step", kSteps, settings.step));
  GPUWARDEN_CHECK(choose(args, "recompute", kRecompute, settings.recompute));
  GPUWARDEN_CHECK(choose(args, "attention", kAttention, settings.attention));
  GPUWARDEN_CHECK(choose(args, "loss", kLoss, settings.loss));
  GPUWARDEN_CHECK(choose(args, "quantization", kQuantization, settings.quantization));
  GPUWARDEN_CHECK(choose(args, "framework", kFrameworks, settings.framework));
  GPUWARDEN_CHECK(check_task(model, settings.task));
  GPUWARDEN_CHECK(read_sequence(args, model, settings));
  GPUWARDEN_CHECK(count(args, "prompt", 1U << 27U, settings.prompt));
  GPUWARDEN_CHECK(count(args, "micro-batch", 1U << 20U, settings.micro_batch));
  GPUWARDEN_CHECK(read_kv_cache(args, settings));
  GPUWARDEN_CHECK(read_parallelism(args, settings.parallel));
  GPUWARDEN_CHECK(read_adapters(args, model, settings));
  GPUWARDEN_CHECK(check_together(args, model, settings));
  return settings;
}

}  // namespace gpuwarden::cli
