// SPDX-License-Identifier: Apache-2.0
// Weights, gradients and optimizer states: bytes per parameter, and who holds which.
#include <algorithm>
#include <cmath>
#include <utility>

#include "equations.hpp"

namespace gpuwarden::planning {

namespace {

/// fp32 or 16-bit states of the optimizer, for each trained parameter, where its weights have `width` bytes.
double optimizer_bytes(Optimizer optimizer, double width) {
  switch (optimizer) {
    case Optimizer::adamw:
      return 2 * width;
    case Optimizer::adamw_8bit:
      return 2.03;  // two bytes and an fp32 constant for every 256 of each (bitsandbytes)
    case Optimizer::adamw_4bit:
      return 1.06;  // half a byte and an fp32 constant for every 128 of each (torchao)
    case Optimizer::lion:
    case Optimizer::sgd_momentum:
      return width;
    case Optimizer::adafactor:
      return 0.02;  // a row and a column for each matrix
    case Optimizer::sgd:
      return 0;
  }
  std::unreachable();
}

/// foreach AdamW builds its denominator for all tensors at once: as much again as the weights (torch's
/// _multi_tensor_adamw; fms-acceleration's single-GPU runs peak at 10.00 bytes a parameter in pure bf16). Until torch
/// 2.0 the root and the denominator were two lists (torch/optim/adamw.py, _foreach_add in the place of _foreach_add_).
double step_temporaries(const Settings& settings, double width) {
  if (settings.optimizer != Optimizer::adamw) return 0;
  switch (settings.step) {
    case OptimizerStep::foreach:
      return width;
    case OptimizerStep::foreach_twice:
      return 2 * width;
    case OptimizerStep::fused:
    case OptimizerStep::in_backward:
      return 0;
  }
  std::unreachable();
}

bool is_zero(const Settings& settings) {
  const Sharding sharding = settings.parallel.sharding;
  return sharding == Sharding::zero1 || sharding == Sharding::zero2 || sharding == Sharding::zero3;
}

bool is_fsdp(const Settings& settings) {
  return settings.parallel.sharding == Sharding::fsdp1 || settings.parallel.sharding == Sharding::fsdp2;
}

}  // namespace

Shards shards_of(const Settings& settings) {
  const double ranks = static_cast<double>(settings.parallel.data) * settings.parallel.context;
  switch (settings.parallel.sharding) {
    case Sharding::none:
      return {};
    case Sharding::zero1:
      return {.states = ranks};
    case Sharding::zero2:
      return {.gradients = ranks, .states = ranks};
    case Sharding::zero3:
    case Sharding::fsdp1:
    case Sharding::fsdp2:
      return {.weights = ranks, .gradients = ranks, .states = ranks};
  }
  std::unreachable();
}

double compute_bytes(const Settings& settings) { return settings.precision == Precision::fp32 ? 4 : 2; }

double fp8_copies(const Settings& settings) {
  return settings.fp8 != Fp8::none && settings.framework == Framework::megatron ? 2 : 0;
}

double in_flight(const Settings& settings, Stage stage) {
  const double ranks = settings.parallel.pipeline;
  if (ranks <= 1) return 1;
  const double runs = settings.parallel.virtual_stages;
  const double following = stage == Stage::first ? ranks - 1 : 0;
  const double batches = settings.accumulation;
  if (runs <= 1) return std::min(following + 1, batches);
  return std::min(2 * following + (runs - 1) * ranks + 1, runs * batches) / runs;
}

Settings as_run(Settings settings) {
  if (!settings.trains()) return settings;
  if (settings.framework == Framework::megatron) {
    settings.fused_kernels = true;  // Transformer Engine's and apex' norms and Adam
    if (settings.step == OptimizerStep::foreach) settings.step = OptimizerStep::fused;
  }
  Parallelism& parallel = settings.parallel;
  if (parallel.offload != Offload::none) {
    // FSDP moves weights, gradients and states together; DeepSpeed moves what it spreads: states and gradients from
    // stage 2 on, weights in stage 3 (docs/_pages/config-json.md, "offload_optimizer" and "offload_param").
    const bool all = parallel.offload == Offload::all;
    if (is_fsdp(settings)) {
      parallel.offload = Offload::all;
    } else if (parallel.sharding != Sharding::zero3) {
      parallel.sharding = all ? Sharding::zero3 : Sharding::zero2;
    }
  }
  if (settings.task != Task::full_training) return settings;
  // Megatron's optimizer of 16-bit weights keeps fp32 masters and takes fp32 gradients (megatron/core/optimizer,
  // Float16OptimizerWithFloat16Params; its theoretical_memory_usage.py: 18 bytes a parameter).
  if (settings.framework == Framework::megatron && settings.precision != Precision::fp32) {
    settings.precision = Precision::master_weights;
    return settings;
  }
  // accelerate stores in fp32 what FSDP trains in mixed precision, whatever it was loaded as: of FSDP1 in
  // Accelerator.prepare_model, of FSDP2 in fsdp2_prepare_model.
  const bool upcast = parallel.sharding == Sharding::fsdp1 ||
                      (parallel.sharding == Sharding::fsdp2 && settings.framework == Framework::transformers);
  if (settings.precision == Precision::mixed_low && upcast) settings.precision = Precision::mixed;
  // DeepSpeed keeps fp32 masters of whatever 16-bit weights it shards (docs/_pages/config-json.md, "bf16").
  if (settings.precision != Precision::fp32 && is_zero(settings)) settings.precision = Precision::master_weights;
  return settings;
}

Settings moved_to(Framework framework, Settings settings) {
  if (settings.framework == framework || !settings.trains()) return settings;
  settings.framework = framework;
  if (settings.optimizer == Optimizer::adamw_8bit) settings.optimizer = Optimizer::adamw;
  if (framework == Framework::megatron) settings.loss = LossKernel::standard;
  if (framework == Framework::torchtitan) {
    // torchtitan/config: training.dtype is float32 under FSDP's mixed precision, optimizer.implementation "fused";
    // FSDP is the second.
    const bool low = settings.precision == Precision::mixed_low;
    if (low && settings.task == Task::full_training) settings.precision = Precision::mixed;
    if (settings.step == OptimizerStep::foreach) settings.step = OptimizerStep::fused;
    settings.fused_kernels = true;  // torch's own norm in one kernel
    if (settings.parallel.sharding == Sharding::fsdp1) settings.parallel.sharding = Sharding::fsdp2;
  }
  return as_run(settings);
}

StateBytes state_bytes(const ModelFigures& model, const Settings& settings) {
  const Precision precision = as_run(settings).precision;
  StateBytes bytes;
  switch (precision) {
    case Precision::fp32:
    case Precision::mixed:
      bytes = {.weights = 4, .gradients = 4};
      break;
    case Precision::bf16:
    case Precision::fp16:
    case Precision::mixed_low:
      bytes = {.weights = 2, .gradients = 2};
      break;
    case Precision::master_weights:
      bytes = {.weights = 2, .gradients = settings.framework == Framework::megatron ? 4.0 : 2.0};
      break;
  }
  const bool master = precision == Precision::master_weights;
  const double width = master ? 4 : bytes.weights;
  bytes.states = optimizer_bytes(settings.optimizer, width) + (master ? 4 : 0);
  if (settings.optimizer == Optimizer::adamw_8bit) {
    // bitsandbytes advises 32-bit states for embeddings, and loaders follow.
    bytes.states += (8 - 2.03) * model.embedding / std::max(1.0, model.total);
  }
  bytes.temporaries = step_temporaries(settings, width);
  if (master && settings.framework != Framework::megatron)
    bytes.temporaries = 2;  // DeepSpeed's own estimator: 18 bytes in all
  if (precision == Precision::mixed && !is_fsdp(settings)) bytes.copies = 2;
  if (settings.step == OptimizerStep::in_backward) bytes.gradients = 0;
  return bytes;
}

double copy_temporaries(const Settings& settings) { return step_temporaries(settings, compute_bytes(settings)); }

StateBytes adapter_bytes(const Settings& settings) {
  const double width = settings.adapters.fp32 ? 4 : compute_bytes(settings);
  return {.weights = width,
          .gradients = width,
          .states = optimizer_bytes(settings.optimizer, width),
          .temporaries = step_temporaries(settings, width)};
}

double frozen_matrices(const LocalParameters& local, const FrozenFormat& format, double otherwise) {
  const double each = frozen_bytes(format, otherwise);
  if (!format.experts_only) return each * local.linear;
  return each * local.experts + otherwise * (local.linear - local.experts);
}

double unsharded_constants(const FrozenFormat& format) {
  if (format.format == nullptr) return 0;
  const bool blocks = format.format->kind == Quantization::nf4 || format.format->kind == Quantization::nf4_double;
  return blocks ? frozen_bytes(format, 0) - format.format->bits / 8 : 0;
}

double ModelFigures::adapters(const Adapters& adapters) const {
  if (adapters.stated_parameters > 0) return static_cast<double>(adapters.stated_parameters);
  const auto query = static_cast<double>(query_width(shape));
  const auto key = static_cast<double>(key_width(shape));
  const double hidden = shape.hidden;
  const double mlp = shape.intermediate;
  const AdapterTargets& on = adapters.targets;
  double ends = 0;  // inputs and outputs of the adapted matrices of a layer
  if (on.query) ends += hidden + query;
  if (on.key) ends += hidden + key;
  if (on.value) ends += hidden + key;
  if (on.output) ends += query + hidden;
  if (on.joint_qkv) ends += hidden + query + 2 * key;
  const double matrices = shape.experts.experts > 0 ? shape.experts.experts : 1;
  const double inner = shape.experts.experts > 0 ? shape.experts.intermediate : mlp;
  ends += (static_cast<double>(on.gate) + on.up + on.down) * (hidden + inner) * matrices;
  return adapters.rank * ends * shape.layers;
}

Widths widths_of(const ModelFigures& model, const Settings& settings, Stage stage) {
  const ModelShape& shape = model.shape;
  const Parallelism& parallel = settings.parallel;
  const double tensor = parallel.tensor;
  Widths widths;
  widths.hidden = shape.hidden / (parallel.sequence_parallel ? tensor : 1);
  widths.gathered = tensor > 1 && parallel.sequence_parallel ? shape.hidden : 0;
  widths.query = static_cast<double>(query_width(shape)) / tensor;
  widths.key = static_cast<double>(key_width(shape)) / std::min(tensor, std::max(1.0, 1.0 * shape.kv_heads));
  widths.mlp = shape.intermediate / tensor;
  widths.expert = 1.0 * shape.experts.intermediate / parallel.expert_tensor();
  widths.shared = shape.experts.shared_intermediate / tensor;
  widths.experts = static_cast<double>(shape.experts.experts) / parallel.expert;
  widths.experts_per_token = shape.experts.experts_per_token;
  widths.vocab = shape.vocab / tensor;
  widths.heads = shape.heads / tensor;
  widths.layers = std::ceil(static_cast<double>(shape.layers + shape.encoder_layers) /
                            (static_cast<double>(parallel.pipeline) * parallel.layer_stages));
  widths.in_flight = in_flight(settings, stage);
  widths.tokens = settings.tokens();
  return widths;
}

LocalParameters local_parameters(const ModelFigures& model, const Settings& settings) {
  const Parallelism& parallel = settings.parallel;
  const double stages = static_cast<double>(parallel.pipeline) * parallel.layer_stages;
  const double layers = std::max(1.0, 1.0 * model.shape.layers + model.shape.encoder_layers);
  // device_map fills GPUs one after the other: the fullest has more than its share.
  const double uneven = parallel.layer_stages > 1 ? figures().stage_imbalance : 1;
  const double share = std::min(1.0, uneven * std::ceil(layers / stages) / layers);
  const double tensor = parallel.tensor;
  const double root = stages > 1 ? model.root / (model.shape.tied_embeddings ? 1 : 2) : model.root;
  const double dense = std::max(0.0, model.total - model.root - model.experts);
  LocalParameters local;
  local.root = root / tensor;
  local.embedding = model.embedding / tensor;
  local.experts = model.experts / parallel.expert * share / parallel.expert_tensor();
  local.linear = (model.linear - model.experts) * share / tensor + local.experts;
  local.total = local.root + dense * share / tensor + local.experts;
  local.layer = model.layer / tensor;
  if (settings.task == Task::adapters) {
    local.adapters = model.adapters(settings.adapters) * share / tensor;
    if (settings.adapters.embeddings_trained) local.copies = local.root;
  }
  return local;
}

}  // namespace gpuwarden::planning
