// SPDX-License-Identifier: Apache-2.0
// The moments of a training step, and the one of inference.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "equations.hpp"
#include "gpuwarden/planning/gguf.hpp"
#include "gpuwarden/planning/layer_split.hpp"

namespace gpuwarden::planning {

namespace {

/// Everything that the moments share, in bytes.
struct Parts {
  double weights = 0;
  double gradients = 0;
  double carried = 0;  ///< gradients from the micro-batches before, or that are always there
  double states = 0;
  double temporaries = 0;
  double copies = 0;        ///< autocast's, of all weights: it keeps them until the forward pass is done
  double copies_later = 0;  ///< of what is differentiated: without recomputation all are kept for that
  double root = 0;          ///< gathered embedding and head
  double layer = 0;         ///< one gathered layer
  double head_gradient = 0;
  double matrix_gradient = 0;  ///< of the matrix whose input's gradient the layer's peak waits for
  double dequantised = 0;
  double kept = 0;       ///< checkpoints, or all that is kept
  double one_input = 0;  ///< one layer's input
  double retained = 0;   ///< what FSDP1 does not let go of while a frozen base is differentiated
  double working = 0;
  double logits = 0;
  double buffers = 0;
};

double& slot(Moment& moment, Use use) { return moment.uses[static_cast<std::size_t>(use)]; }

/// Weights that rest elsewhere, on other ranks or the host, come layer by layer.
bool gathers(const Settings& settings) {
  return shards_of(settings).weights > 1 || settings.parallel.offload == Offload::all;
}

void fill_states(const ModelFigures& model, const Settings& settings, const LocalParameters& local, Parts& parts) {
  const Shards shards = shards_of(settings);
  const double compute = compute_bytes(settings);
  if (settings.task == Task::full_training) {
    const StateBytes bytes = state_bytes(model, settings);
    // Ranks that hold different experts cannot share their states: fewer are left to spread them over.
    const double expert = settings.parallel.expert;
    const auto spread = [&](double ranks) {
      return (local.total - local.experts) / ranks + local.experts / std::max(1.0, ranks / expert);
    };
    parts.weights = bytes.weights * spread(shards.weights);
    parts.gradients = bytes.gradients * spread(shards.gradients);
    parts.states = bytes.states * spread(shards.states);
    parts.temporaries = bytes.temporaries * spread(shards.states);
    parts.weights += fp8_copies(settings) * local.linear / shards.weights;
    parts.copies = bytes.copies * local.total;
    const bool recomputes = settings.recompute == Recompute::full || settings.recompute == Recompute::full_offloaded;
    parts.copies_later = bytes.copies * (recomputes ? local.layer + local.root : local.total);
    return;
  }
  const StateBytes bytes = adapter_bytes(settings);
  const double width = settings.precision == Precision::fp32 ? 4 : 2;
  const FrozenFormat format = frozen_format(model.shape, settings.quantization);
  const double linear = frozen_matrices(local, format, width);
  const double constants = shards.weights > 1 ? unsharded_constants(format) : 0;
  parts.weights = (linear - local.linear * constants + (local.total - local.linear) * width) / shards.weights +
                  local.linear * constants + bytes.weights * local.adapters / shards.weights +
                  compute * local.copies / shards.weights + fp8_copies(settings) * local.linear / shards.weights;
  parts.gradients = (bytes.gradients * local.adapters + compute * local.copies) / shards.gradients;
  parts.states = (bytes.states * local.adapters + 2 * compute * local.copies) / shards.states;
  parts.temporaries = (bytes.temporaries * local.adapters + copy_temporaries(settings) * local.copies) / shards.states;
}

/// DeepSpeed's buckets to reduce and to gather. Megatron's distributed optimizer reduces and gathers in the buffers of
/// gradients and weights themselves (megatron/core/distributed/param_and_grad_buffer.py); with ZeRO-2 or 3 Megatron is
/// Megatron-DeepSpeed.
double zero_buckets(const Settings& settings, const LocalParameters& local) {
  const Sharding sharding = settings.parallel.sharding;
  if (settings.framework == Framework::megatron && sharding == Sharding::zero1) return 0;
  if (sharding != Sharding::zero1 && sharding != Sharding::zero2 && sharding != Sharding::zero3) return 0;
  const double bucket = figures().zero_bucket_elements;
  const double trained = settings.task == Task::full_training ? local.total : bucket;
  return std::min(bucket, trained) * (sharding == Sharding::zero3 ? 4 : 2);
}

/// DistributedDataParallel's reducer keeps a second copy of the gradients from its construction on, unless
/// gradient_as_bucket_view is set, which is off by default (torch.nn.parallel). Megatron's gradients are its buffers.
double ddp_buckets(const ModelFigures& model, const Settings& settings, const LocalParameters& local) {
  const Parallelism& parallel = settings.parallel;
  if (parallel.sharding != Sharding::none || settings.framework == Framework::megatron) return 0;
  if (std::uint64_t{parallel.data} * parallel.context == 1) return 0;
  if (settings.task == Task::full_training) return state_bytes(model, settings).weights * local.total;
  return adapter_bytes(settings).weights * local.adapters + compute_bytes(settings) * local.copies;
}

/// Moves to the host what is offloaded. Of gradients one layer's stays, on its way there.
void offload(const ModelFigures& model, const Settings& settings, Parts& parts, Estimate& estimate) {
  if (settings.parallel.offload == Offload::none) return;
  const bool full = settings.task == Task::full_training;
  // DeepSpeed's fp32 optimizer on the host takes fp32 gradients (its estimate_zero2_model_states_mem_needs: 16 bytes).
  const bool masters = full && settings.precision == Precision::master_weights;
  const double given = full ? state_bytes(model, settings).gradients : 0;
  estimate.host = parts.states + parts.gradients * (masters && given > 0 ? 4 / given : 1);
  parts.gradients = std::min(parts.gradients, kGradientBytes * local_parameters(model, settings).layer);
  parts.states = 0;
  parts.temporaries = 0;
  if (settings.parallel.offload != Offload::all) return;
  estimate.host += parts.weights;
  parts.weights = 0;
}

/// Gradients that are there before the backward pass.
double carried_gradients(const ModelFigures& model, const Settings& settings, const Parts& parts) {
  // Megatron's are one buffer that is always there.
  if (settings.framework == Framework::megatron) return parts.gradients;
  if (settings.accumulation <= 1 || settings.step == OptimizerStep::in_backward) return 0;
  return gathers_stage(settings) ? 4 * local_parameters(model, settings).total : parts.gradients;
}

/// What a pipeline's rank has for every micro-batch of a step: an activation that comes and a gradient that comes or
/// goes (torch/distributed/pipelining/stage.py). The last stage's outputs are not kept (torchtitan since October 2025:
/// return_outputs=False).
double pipeline_buffers(const Widths& w, const Settings& settings) {
  if (settings.parallel.pipeline <= 1 || settings.framework == Framework::megatron) return 0;
  return 4 * w.hidden * w.tokens * settings.accumulation;
}

double kept_per_token(const ModelFigures& model, const Widths& w, const Settings& settings) {
  switch (settings.recompute) {
    case Recompute::full:
      return 2 * w.hidden * (settings.fp32_residual ? 2 : 1) * w.layers;
    case Recompute::full_offloaded:
      return 0;
    case Recompute::selective:
      return selective_bytes(model.shape, w, settings) * w.layers;
    case Recompute::none:
      return (saved_by_layer(model.shape, w, settings) + kept_maps(w, settings)) * w.layers;
  }
  std::unreachable();
}

/// Gathered embedding and head, and layers.
void fill_gathered(const ModelFigures& model, const LocalParameters& local, const Settings& settings, Parts& parts) {
  if (!gathers(settings)) return;
  const double compute = settings.fp8 == Fp8::gathered ? 1 : compute_bytes(settings);
  parts.root = compute_bytes(settings) * local.root;
  const double layers = gathers_stage(settings) ? local.total - local.root : local.layer;
  const FrozenFormat format = frozen_format(model.shape, settings.quantization);
  parts.layer = layers * (frozen_bytes(format, compute) - unsharded_constants(format));
}

Parts parts_of(const ModelFigures& model, const Settings& settings, Stage stage) {
  const Widths w = widths_of(model, settings, stage);
  const LocalParameters local = local_parameters(model, settings);
  const ModelShape& shape = model.shape;
  const bool full = settings.task == Task::full_training;
  const double fp32 = settings.precision == Precision::fp32 ? 2 : 1;  // every tensor twice as wide
  Parts parts;
  fill_states(model, settings, local, parts);
  fill_gathered(model, local, settings, parts);
  const double matrix = shape.hidden * std::max(w.mlp, w.expert);
  // Megatron adds what a matrix's product gives to the gradients at once.
  const bool apart = full && settings.framework != Framework::megatron;
  if (apart) parts.head_gradient = kGradientBytes * local.embedding;
  if (apart) parts.matrix_gradient = kGradientBytes * matrix;
  if (!full && settings.quantization != Quantization::none) parts.dequantised = 2 * matrix;
  parts.one_input = 2 * w.hidden * w.tokens * fp32;
  parts.kept = kept_per_token(model, w, settings) * w.tokens * w.in_flight * fp32;
  const bool recomputes = settings.recompute == Recompute::full || settings.recompute == Recompute::full_offloaded;
  const double working = recomputes ? layer_working_set(shape, w, settings) + working_maps(w, settings)
                                    : 4 * std::max(w.mlp, w.expert) + 4 * w.hidden + gathered_inputs(w, settings);
  parts.working = working * w.tokens * fp32;
  // A frozen layer's hooks hold its input and that input's gradient until the step ends.
  if (!full && settings.parallel.sharding == Sharding::fsdp1 && settings.recompute == Recompute::full) {
    parts.retained = 2 * parts.one_input * std::max(0.0, w.layers - 1);
  }
  if (shape.output_head && (stage == Stage::last || settings.parallel.pipeline == 1)) {
    const LossBytes loss = loss_bytes(shape, settings);
    parts.logits = (loss.per_logit * w.vocab + loss.per_hidden * w.hidden) * w.tokens * fp32;
  }
  parts.buffers = figures().workspaces + zero_buckets(settings, local) + ddp_buckets(model, settings, local) +
                  pipeline_buffers(w, settings) * fp32;
  return parts;
}

Moment base_moment(MomentKind kind, const Parts& parts) {
  Moment moment{.kind = kind};
  slot(moment, Use::weights) = parts.weights;
  slot(moment, Use::optimizer_states) = parts.states;
  slot(moment, Use::buffers) = parts.buffers;
  return moment;
}

Moment at_loss(const Parts& parts, bool whole_stage) {
  Moment moment = base_moment(MomentKind::loss, parts);
  slot(moment, Use::weights) += parts.copies;
  slot(moment, Use::gradients) = parts.carried;
  slot(moment, Use::unsharded_layers) = parts.root + (whole_stage ? parts.layer : 0);
  slot(moment, Use::checkpoints) = parts.kept;
  slot(moment, Use::logits) = parts.logits;
  return moment;
}

Moment at_first_backward(const Parts& parts) {
  Moment moment = base_moment(MomentKind::first_backward, parts);
  slot(moment, Use::weights) += parts.copies_later;
  slot(moment, Use::gradients) = parts.matrix_gradient + std::max(parts.head_gradient, parts.carried);
  slot(moment, Use::unsharded_layers) = parts.root + parts.layer;
  slot(moment, Use::checkpoints) = parts.kept;
  slot(moment, Use::working_set) = parts.working;
  return moment;
}

/// Of a model's parameters, those of its largest layer.
double layer_share(const ModelFigures& model) { return model.layer / std::max(model.layer, model.total); }

Moment at_last_backward(const ModelFigures& model, const Parts& parts) {
  Moment moment = base_moment(MomentKind::last_backward, parts);
  slot(moment, Use::weights) += std::min(parts.copies_later, parts.copies * layer_share(model));
  slot(moment, Use::unsharded_layers) = parts.layer;
  slot(moment, Use::working_set) = parts.working;
  slot(moment, Use::checkpoints) = parts.one_input;
  if (parts.retained > 0) {
    // The gradient that comes into the last layer is one of those that are held already.
    slot(moment, Use::gradients) = parts.gradients;
    slot(moment, Use::unsharded_layers) += parts.root;
    slot(moment, Use::checkpoints) = parts.retained;
    slot(moment, Use::buffers) += parts.dequantised;
    return moment;
  }
  const double missing = parts.matrix_gradient > 0 ? layer_share(model) : 0;
  slot(moment, Use::gradients) = std::max(parts.carried, parts.gradients * (1 - missing));
  return moment;
}

Moment at_step(const Parts& parts) {
  Moment moment = base_moment(MomentKind::optimizer_step, parts);
  slot(moment, Use::gradients) = parts.gradients;
  slot(moment, Use::optimizer_temporaries) = parts.temporaries;
  return moment;
}

void add(Estimate& estimate, const Moment& moment) {
  estimate.moments[estimate.moment_count] = moment;
  if (moment.total() > estimate.moments[estimate.peak].total()) estimate.peak = estimate.moment_count;
  ++estimate.moment_count;
}

}  // namespace

namespace {

void add_moments_of_stage(const ModelFigures& model, const Settings& settings, Stage stage, Estimate& estimate) {
  Parts parts = parts_of(model, settings, stage);
  offload(model, settings, parts, estimate);
  parts.carried = carried_gradients(model, settings, parts);
  add(estimate, at_loss(parts, gathers_stage(settings)));
  add(estimate, at_first_backward(parts));
  add(estimate, at_last_backward(model, parts));
  add(estimate, at_step(parts));
  if (settings.framework == Framework::litgpt && shards_of(settings).weights > 1 && settings.task == Task::adapters) {
    // litgpt 2.1's FSDP cuts the shards from a replica on the GPU; the shards lie beside what is not yet cut.
    Moment cut{.kind = MomentKind::sharding};
    slot(cut, Use::weights) = parts.weights * (1 + shards_of(settings).weights);
    slot(cut, Use::unsharded_layers) = parts.root + parts.layer;
    slot(cut, Use::checkpoints) = parts.kept;
    add(estimate, cut);
  }
}

}  // namespace

void add_training_moments(const ModelFigures& model, const Settings& settings, Estimate& estimate) {
  add_moments_of_stage(model, settings, Stage::first, estimate);
  if (settings.parallel.pipeline <= 1) return;
  Estimate last;
  add_moments_of_stage(model, settings, Stage::last, last);
  if (last.peak_moment().total() <= estimate.peak_moment().total()) return;
  estimate = last;
  estimate.last_stage = true;
}

bool gathers_stage(const Settings& settings) {
  return settings.parallel.pipeline > 1 && settings.parallel.sharding == Sharding::fsdp2 && gathers(settings);
}

namespace {

/// Weights that are not trained, on the GPU that has the most of them.
double held_weights(const ModelFigures& model, const Settings& settings, const LocalParameters& local, double width) {
  const ModelShape& shape = model.shape;
  if (settings.split) return heaviest_load(model, settings).weights;
  if (find_mix(settings.quantization) != nullptr) {
    // Another program than llama.cpp reads the file: what it divides, it divides evenly.
    const FileWeights file = file_weights(shape, settings);
    return (file.file() + file.towers) * local.total / std::max(1.0, model.total);
  }
  const FrozenFormat format = frozen_format(shape, settings.quantization);
  double weights = frozen_matrices(local, format, width) + (local.total - local.linear) * width;
  // fp8 checkpoints of tied models store the head by itself (Qwen3's).
  if (settings.quantization == Quantization::fp8 && shape.tied_embeddings) weights += local.embedding * width;
  return weights;
}

}  // namespace

void add_generation_moment(const ModelFigures& model, const Settings& settings, Estimate& estimate) {
  const Widths w = widths_of(model, settings);
  const LocalParameters local = local_parameters(model, settings);
  const double width = settings.precision == Precision::fp32 ? 4 : 2;
  const ModelShape& shape = model.shape;
  Moment moment{.kind = MomentKind::generation};
  slot(moment, Use::weights) = held_weights(model, settings, local, width) / shards_of(settings).weights;
  // Concatenating leaves the old cache beside the new; what remains of that is what Qwen's README shows.
  const double growth = !settings.growing_cache ? 1
                        : settings.kv_bytes < 2 ? figures().cache_growth_8bit
                                                : figures().cache_growth;
  slot(moment, Use::kv_cache) = kv_bytes_per_token(model, settings) * settings.micro_batch * growth *
                                    static_cast<double>(settings.sequence) * sliding_share(shape, settings.sequence) +
                                state_bytes_per_request(model, settings) * settings.micro_batch;
  if (settings.split) slot(moment, Use::working_set) = compute_buffer(shape, settings);
  // fp16 copies of the prompt's residuals in AWQ's and GPTQ's 4-bit kernels, seen growing with the prompt.
  if (settings.quantization == Quantization::int4) {
    slot(moment, Use::working_set) = 4 * w.hidden * settings.prompt * settings.micro_batch;
  }
  slot(moment, Use::buffers) = settings.growing_cache ? 0 : 2 * figures().workspaces;
  add(estimate, moment);
}

}  // namespace gpuwarden::planning
