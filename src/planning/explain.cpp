// SPDX-License-Identifier: Apache-2.0
// The words of an estimate: a formula with this plan's numbers in it, and where each comes from.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "equations.hpp"
#include "gpuwarden/planning/gguf.hpp"
#include "gpuwarden/planning/layer_split.hpp"

namespace gpuwarden::planning {

namespace {

using namespace std::string_view_literals;

/// Transformer Engine's, where it multiplies in 8 bits.
std::string eight_bit_copies(const LocalParameters& local, const Settings& settings, double shards) {
  const double each = fp8_copies(settings);
  if (each <= 0) return "";
  return fmt::format(" + {:.0f} B x {:.0f} in matrices / {:.0f} ranks, copies in 8 bits", each, local.linear, shards);
}

/// Of what llama.cpp spreads, what the GPU that holds the most has of it.
std::string layers_formula(const ModelFigures& model, const Settings& settings) {
  const LayerLoad load = heaviest_load(model, settings);
  const FileWeights file = file_weights(model.shape, settings);
  return fmt::format("{} of {} layers{}, tensor by tensor, of {:.0f} B in {}", load.layers, file.layers.size(),
                     load.output ? " and the output" : "", file.file(),
                     find_mix(settings.quantization) != nullptr ? title_of(settings.quantization) : "all");
}

std::string weights_formula(const ModelFigures& model, const Settings& settings) {
  if (settings.split) return layers_formula(model, settings);
  const LocalParameters local = local_parameters(model, settings);
  const double shards = shards_of(settings).weights;
  if (settings.task == Task::full_training) {
    const StateBytes bytes = state_bytes(model, settings);
    std::string text = fmt::format("{:.0f} B x {:.0f} parameters / {:.0f} ranks{}", bytes.weights, local.total, shards,
                                   bytes.copies > 0 ? " (and 2 B for autocast's copies while it computes)" : "");
    text += eight_bit_copies(local, settings, shards);
    return text;
  }
  const double width = settings.precision == Precision::fp32 ? 4 : 2;
  const FrozenFormat format = frozen_format(model.shape, settings.quantization);
  const std::string packed = formula_of(format);
  std::string text =
      fmt::format("({:.5g} B x {:.0f} in matrices{} + {:.0f} B x {:.0f} others) / {:.0f} ranks",
                  frozen_matrices(local, format, width) / std::max(1.0, local.linear), local.linear,
                  packed.empty() ? "" : fmt::format(" ({}{})", packed, format.experts_only ? ", in experts alone" : ""),
                  width, local.total - local.linear, shards);
  if (local.adapters > 0) text += fmt::format(" + {:.0f} adapter parameters", local.adapters);
  text += eight_bit_copies(local, settings, shards);
  return text;
}

std::string states_formula(const ModelFigures& model, const Settings& settings, Use use) {
  const bool full = settings.task == Task::full_training;
  const StateBytes bytes = full ? state_bytes(model, settings) : adapter_bytes(settings);
  const LocalParameters local = local_parameters(model, settings);
  const Shards shards = shards_of(settings);
  if (full && use == Use::gradients && gathers_stage(settings) && settings.accumulation > 1)
    return fmt::format("4 B x {:.0f} trained parameters, whole until a step's last micro-batch", local.total);
  const double each = use == Use::gradients          ? bytes.gradients
                      : use == Use::optimizer_states ? bytes.states
                                                     : bytes.temporaries;
  return fmt::format("{:.3g} B x {:.0f} trained parameters / {:.0f} ranks", each,
                     full ? local.total : local.adapters + local.copies,
                     use == Use::gradients ? shards.gradients : shards.states);
}

std::string cache_formula(const ModelFigures& model, const Settings& settings) {
  std::string text =
      fmt::format("{:.0f} B a token x {} tokens", kv_bytes_per_token(model, settings), settings.sequence);
  if (const double share = sliding_share(model.shape, settings.sequence); share < 1)
    text += fmt::format(" x {:.3g}, since {} layers see {} tokens", share, model.shape.sliding_layers,
                        model.shape.sliding_window);
  text += fmt::format(" x {} requests", settings.micro_batch);
  if (const double state = linear_state_bytes(model.shape); state > 0)
    text += fmt::format(", and {:.0f} B a request in layers of linear attention", state / settings.parallel.tensor);
  return text;
}

std::string tokens_formula(const ModelFigures& model, const Settings& settings, Use use, Stage stage) {
  const Widths w = widths_of(model, settings, stage);
  const ModelShape& shape = model.shape;
  switch (use) {
    case Use::logits: {
      const LossBytes loss = loss_bytes(shape, settings);
      return fmt::format("({:.3g} B x {:.0f} vocabulary + {:.3g} B x {:.0f} hidden) x {:.0f} tokens", loss.per_logit,
                         w.vocab, loss.per_hidden, w.hidden, w.tokens);
    }
    case Use::working_set:
      if (settings.split)
        return fmt::format(
            "4 B x {} tokens at a time (-ub) x the widest of what a layer or the output computes{}{}",
            settings.split->tokens,
            settings.attention == Attention::flash ? "" : ", products of all heads with every key among it",
            is_pipelined(settings) ? "; of several GPUs, four of the mask and of what is handed on" : "");
      // What 4-bit kernels hold of a prompt: the only thing at work that is told of inference.
      if (!settings.trains())
        return fmt::format("4 B x {:.0f} hidden x {} prompt tokens x {} requests", w.hidden, settings.prompt,
                           settings.micro_batch);
      return fmt::format("{:.1f} x {:.0f} hidden x {:.0f} tokens",
                         layer_working_set(shape, w, settings) / std::max(1.0, w.hidden), w.hidden, w.tokens);
    case Use::checkpoints:
      if (settings.recompute == Recompute::full) {
        return fmt::format("layers' inputs: {} B x {:.0f} hidden x {:.0f} layers x {:.0f} tokens x {:.3g} in flight",
                           settings.fp32_residual ? 4 : 2, w.hidden, w.layers, w.tokens, w.in_flight);
      }
      return fmt::format("what {:.0f} layers keep of {:.0f} tokens x {:.3g} in flight", w.layers, w.tokens,
                         w.in_flight);
    case Use::kv_cache:
      return cache_formula(model, settings);
    default:
      return {};
  }
}

std::string formula_of(const ModelFigures& model, const Settings& settings, Use use, Stage stage) {
  switch (use) {
    case Use::weights:
      return weights_formula(model, settings);
    case Use::gradients:
    case Use::optimizer_states:
    case Use::optimizer_temporaries:
      return states_formula(model, settings, use);
    case Use::unsharded_layers:
      if (gathers_stage(settings)) return "embedding or head, and all layers of the stage, gathered for the whole step";
      return "embedding and head, and the layer at work, gathered in the type of computing";
    case Use::buffers:
      if (settings.split) return "19 MB of kernels' workspaces, twice";
      return "19 MB of kernels' workspaces, DeepSpeed's buckets or DDP's copy of the gradients, a dequantised matrix, "
             "a "
             "pipeline's activations and gradients between stages";
    default:
      return tokens_formula(model, settings, use, stage);
  }
}

/// By Use.
constexpr std::array<std::string_view, kUses> kSources{
    "parameter counts: transformers' modelling files; 4-bit blocks: QLoRA, arXiv 2305.14314",
    "one for each trained weight, as wide as it; accelerate stores FSDP's in fp32",
    "Adam keeps two states, arXiv 1412.6980; fms-acceleration: 6.00 B a parameter after a step in pure bf16",
    "torch's foreach AdamW makes its denominator for all tensors at once; fms-acceleration: 10.00 B a parameter",
    "PyTorch FSDP: the root unit stays gathered, layers one by one; fms-acceleration, exact bytes",
    "torch.utils.checkpoint keeps inputs; Korthikanti et al. 2022, arXiv 2205.05198",
    "what autograd keeps of one layer, tensor by tensor; fms-acceleration, within 0.3%",
    "copies of the logits by kernel: transformers' loss, Liger Kernel's benchmark, fms-acceleration",
    "keys and values of every token: DeepSeek-V2, arXiv 2405.04434; Qwen3's and vLLM's measured slopes",
    "fms-acceleration, exact bytes; DeepSpeed docs/_pages/config-json.md; torch.nn.parallel's gradient_as_bucket_view",
};

std::string_view source_of(Use use, const ModelShape& model, const Settings& settings) {
  if (use == Use::weights && is_own_file(model, settings)) return "the file's own tensors";
  if (settings.split && use == Use::working_set) return "llama.cpp's logs, \"compute buffer size\"";
  if (use == Use::weights && find_mix(settings.quantization) != nullptr)
    return "llama.cpp: ggml/src/ggml-common.h (blocks), src/llama-quant.cpp (which tensor has which), held against 83 "
           "published files";
  const WeightFormat* const format = use == Use::weights ? find_format(settings.quantization) : nullptr;
  return format != nullptr ? format->source : kSources[static_cast<std::size_t>(use)];
}

}  // namespace

std::string_view to_string(Use use) {
  constexpr std::array kNames{"weights"sv,          "gradients"sv,   "optimizer_states"sv, "optimizer_temporaries"sv,
                              "unsharded_layers"sv, "checkpoints"sv, "working_set"sv,      "logits"sv,
                              "kv_cache"sv,         "buffers"sv};
  static_assert(kNames.size() == kUses);
  return kNames[static_cast<std::size_t>(use)];
}

std::string_view name_of(Use use, const Settings& settings) {
  if (settings.split && use == Use::working_set) return "compute_buffer"sv;
  const bool recomputes = settings.recompute == Recompute::full || settings.recompute == Recompute::full_offloaded;
  return use == Use::checkpoints && !recomputes ? "activations"sv : to_string(use);
}

std::string_view to_string(MomentKind kind) {
  constexpr std::array kNames{"loss"sv,           "first_backward"sv, "last_backward"sv,
                              "optimizer_step"sv, "sharding"sv,       "generation"sv};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view to_string(Fit fit) {
  switch (fit) {
    case Fit::fits:
      return "fits";
    case Fit::tight:
      return "tight";
    case Fit::does_not_fit:
      return "does_not_fit";
  }
  std::unreachable();
}

std::vector<ExplainedUse> explain(const ModelFigures& model, const Settings& asked, const Estimate& estimate) {
  const Settings settings = as_run(asked);
  std::vector<ExplainedUse> lines;
  const Moment& peak = estimate.peak_moment();
  const Stage stage = estimate.last_stage ? Stage::last : Stage::first;
  for (std::size_t i = 0; i < kUses; ++i) {
    const auto use = static_cast<Use>(i);
    if (peak.at(use) <= 0) continue;
    lines.push_back({std::string(name_of(use, settings)), peak.at(use), formula_of(model, settings, use, stage),
                     source_of(use, model.shape, settings)});
  }
  lines.push_back({"context", estimate.context, "CUDA context and kernels",
                   settings.split ? "assumed: what a context takes beside kernels that are loaded lazily"
                                  : "0.47 GiB lazily loaded to 0.92 GiB: stas00/ml-engineering, A100, torch 2.1"});
  if (estimate.communication > 0) {
    lines.push_back({"communication", estimate.communication, "NCCL's buffers",
                     "1.45 GiB on the first collective: stas00/ml-engineering"});
  }
  if (estimate.reserve > 0) {
    lines.push_back(
        {"reserve", estimate.reserve,
         settings.varied_lengths
             ? "blocks of many sizes that batches of varied lengths leave behind"
             : "a tenth of what comes and goes within the step, 22% where weights are gathered on another stream",
         "separates fms-acceleration's runs that ended from those that did not; ms-swift's benchmark"});
  }
  return lines;
}

}  // namespace gpuwarden::planning
