// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <limits>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/config.hpp"
#include "gpuwarden/planning/estimate.hpp"
#include "gpuwarden/planning/parameters.hpp"
#include "planning/engines.hpp"
#include "planning/equations.hpp"
#include "planning/formats.hpp"

namespace gpuwarden::planning {
namespace {

/// What a task sets.
struct TaskWord {
  std::string_view word;
  Task task;
  bool quantized;
  Precision precision;
};
constexpr TaskWord kTasks[] = {{"train", Task::full_training, false, Precision::mixed_low},
                               {"pretrain", Task::full_training, false, Precision::mixed},
                               {"finetune", Task::full_training, false, Precision::mixed_low},
                               {"lora", Task::adapters, false, Precision::mixed_low},
                               {"qlora", Task::adapters, true, Precision::mixed_low},
                               {"inference", Task::inference, false, Precision::bf16},
                               {"serve", Task::serving, false, Precision::bf16}};

std::string words_of_tasks() {
  std::vector<std::string> words;
  for (const TaskWord& task : kTasks) words.emplace_back(task.word);
  return join(words, ", ");
}

/// An image is as long as it is; learned positions end.
std::uint32_t usual_sequence(const ModelShape& model, std::uint32_t sequence) {
  if (model.kind == ModelKind::vision_encoder && model.image.patch > 0) {
    const std::uint32_t edge = model.image.image / model.image.patch;
    return edge * edge + 1;
  }
  const bool ends = model.positions == Positions::learned && model.max_positions > 0;
  return ends ? std::min(sequence, model.max_positions) : sequence;
}

bool generates(const ModelShape& model) {
  return model.kind == ModelKind::decoder || model.kind == ModelKind::encoder_decoder;
}

/// Which kinds of matrix the names stand for; families call them differently.
AdapterTargets targets_of(const ModelShape& model, const std::vector<std::string>& names) {
  AdapterTargets targets{.query = false, .value = false};
  const auto has = [&](std::initializer_list<std::string_view> words) {
    return std::ranges::any_of(names, [&](const std::string& name) {
      return name == "all-linear" || std::ranges::find(words, name) != words.end();
    });
  };
  const bool joint = default_lora_targets(model).size() == 1;
  targets.joint_qkv = joint && has({"query_key_value", "c_attn", "Wqkv", "qkv_proj", "W_pack", "wqkv"});
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

}  // namespace

double share_taken(const Workload& work) {
  if (work.static_share > 0) return work.static_share;
  return work.serving_utilization * (1 - traits_of(work.engine).spares);
}

std::string share_words(const Workload& work) {
  if (work.static_share > 0) return fmt::format("--mem-fraction-static {:g}", work.static_share);
  const double spares = traits_of(work.engine).spares;
  return fmt::format("{:.0f}% utilization{}", work.serving_utilization * 100,
                     spares > 0 ? fmt::format(", less {:.0f}% of what is left", spares * 100) : "");
}

Result<void> add_draft(const ModelShape& draft, Workload& work) {
  if (work.settings.task != Task::serving)
    return fail(ErrorCode::invalid_argument, "only a serving engine has a draft model",
                "leave it out, or --task serve");
  GPUWARDEN_TRY(Settings settings, settings_for(draft, "serve"));
  settings.kv_bytes = work.settings.kv_bytes;
  const ModelFigures figures = figures_of(draft);
  GPUWARDEN_TRY(const Estimate need, estimate(figures, settings));
  const double requests = work.settings.micro_batch;
  const double token = kv_bytes_per_token(figures, settings) * requests;
  const double unwindowed = sliding_share(draft, std::numeric_limits<double>::infinity());
  work.beside = {.name = draft.name,
                 .fixed = need.peak_moment().at(Use::weights) + state_bytes_per_request(figures, settings) * requests,
                 .token = token * unwindowed,
                 .windowed_token = token * (1 - unwindowed),
                 .window = draft.sliding_window};
  return {};
}

std::vector<std::string_view> task_names() {
  std::vector<std::string_view> names;
  for (const TaskWord& task : kTasks) names.push_back(task.word);
  return names;
}

Result<Settings> settings_for(const ModelShape& model, std::string_view task) {
  std::string word = to_lower(trim(task));
  std::ranges::replace(word, '_', '-');
  const auto* const row = std::ranges::find(kTasks, word, &TaskWord::word);
  if (row == std::end(kTasks))
    return fail(ErrorCode::invalid_argument, fmt::format("unknown task '{}'", printable(task)),
                "one of " + words_of_tasks());
  if (row->task == Task::serving && !generates(model))
    return fail(ErrorCode::invalid_argument,
                fmt::format("a {} generates no tokens and keeps no KV cache", model.family),
                "--task inference plans its forward pass");
  Settings settings;
  settings.task = row->task;
  settings.precision = row->precision;
  if (row->quantized) {
    settings.quantization = Quantization::nf4_double;
    settings.fp32_residual = true;
  }
  const Quantization stored = stored_quantization(model);
  // transformers makes mxfp4 16-bit before anything is trained beside it.
  const bool kept = !settings.trains() || (settings.task == Task::adapters && stored != Quantization::mxfp4);
  if (kept && stored != Quantization::none && (!model.gguf || !settings.trains())) settings.quantization = stored;
  if (model.eager_only) settings.attention = Attention::eager;
  settings.sequence = usual_sequence(model, settings.sequence);
  if (settings.task == Task::adapters) {
    GPUWARDEN_TRY(settings.adapters, adapters_for(model, settings.adapters.rank));
  }
  return settings;
}

Result<Adapters> adapters_for(const ModelShape& model, std::uint32_t rank, const std::vector<std::string>& modules) {
  const std::vector<std::string> names = modules.empty() ? default_lora_targets(model) : modules;
  Adapters adapters{.rank = rank};
  GPUWARDEN_TRY(adapters.stated_parameters, lora_parameters(model, rank, names));
  if (adapters.stated_parameters == 0) return fail(ErrorCode::invalid_argument, "no matrix is given", "all-linear");
  adapters.targets = targets_of(model, names);
  return adapters;
}

Result<Workload> workload_of_size(Bytes weights) {
  constexpr double kBytesOfParameter = 2;
  GPUWARDEN_TRY(ModelShape model, shape_of_size(static_cast<double>(weights.value) / kBytesOfParameter));
  model.name = fmt::format("a model of {}", format_size(weights));
  GPUWARDEN_TRY(const Settings settings, settings_for(model, "inference"));
  return Workload{.model = std::move(model), .settings = settings};
}

void shard_what_is_offloaded(Parallelism& parallel) {
  if (parallel.offload != Offload::none && parallel.sharding == Sharding::none) parallel.sharding = Sharding::zero2;
}

bool spread(Settings& settings, std::uint32_t gpus) {
  Parallelism& parallel = settings.parallel;
  const std::uint64_t others =
      std::uint64_t{parallel.tensor} * parallel.pipeline * parallel.context * parallel.layer_stages;
  if (others == 0 || others > gpus || gpus % others != 0) return false;
  parallel.data = gpus / static_cast<std::uint32_t>(others);
  return true;
}

std::string_view words_of(Task task) {
  switch (task) {
    case Task::full_training:
      return "full training";
    case Task::adapters:
      return "training of adapters";
    case Task::inference:
      return "inference";
    case Task::serving:
      return "serving";
  }
  return "?";
}

}  // namespace gpuwarden::planning
