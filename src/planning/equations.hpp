// SPDX-License-Identifier: Apache-2.0
// The terms that estimate() adds up. Widths are those that one GPU holds: divided by tensor, context and pipeline
// parallelism. Everything is in bytes, per token where it says so.
#pragma once

#include "figures.hpp"
#include "formats.hpp"
#include "gpuwarden/planning/estimate.hpp"
#include "gpuwarden/planning/model.hpp"
#include "gpuwarden/planning/settings.hpp"

namespace gpuwarden::planning {

/// Of a pipeline, the two stages that may need the most: the first keeps the most micro-batches, the last has the loss.
enum class Stage { first, last };
/// How many micro-batches' activations of all of its layers a rank of that stage keeps; 1 without a pipeline. 1F1B: as
/// many as stages follow, itself included. Interleaved over v runs of layers: 2 for each stage that follows, v - 1 for
/// each stage and one, each 1/v of the layers (Narayanan et al. 2021, arXiv 2104.04473; Korthikanti et al. 2022, arXiv
/// 2205.05198: 1 + (p - 1)/(pv) of a whole model's layers in the first).
double in_flight(const Settings& settings, Stage stage);

/// A model's widths on one GPU.
struct Widths {
  double hidden = 0;    ///< of residuals: divided by `tensor` only with sequence parallelism
  double gathered = 0;  ///< of what sequence parallelism gathers before a matrix: the whole hidden width; 0: nothing
  double query = 0;     ///< of one layer's queries, all heads here
  double key = 0;       ///< of one layer's keys
  double mlp = 0;       ///< of the dense MLP
  double expert = 0;    ///< of one routed expert
  double shared = 0;    ///< of the shared experts together
  double experts = 0;   ///< routed experts here
  double experts_per_token = 0;
  double vocab = 0;
  double heads = 0;
  double layers = 0;     ///< of the stage that has the most
  double in_flight = 1;  ///< micro-batches whose activations the stage keeps
  double tokens = 0;     ///< of a micro-batch
};
Widths widths_of(const ModelFigures& model, const Settings& settings, Stage stage = Stage::first);

/// Parameters on one GPU, before any sharding over data-parallel ranks.
struct LocalParameters {
  double total = 0;
  double linear = 0;
  double root = 0;
  double embedding = 0;
  double layer = 0;
  double experts = 0;   ///< of the total, in routed experts
  double adapters = 0;  ///< trained beside a frozen base
  double copies = 0;    ///< of embedding and head, trained beside a frozen base
};
LocalParameters local_parameters(const ModelFigures& model, const Settings& settings);

/// Ranks over which weights, gradients and optimizer states are spread.
struct Shards {
  double weights = 1;
  double gradients = 1;
  double states = 1;
};
Shards shards_of(const Settings& settings);

/// What is run when `settings` are asked for: accelerate's FSDP trains fp32 weights under mixed precision, DeepSpeed
/// and Megatron fp32 masters of 16-bit weights; offloading brings the ZeRO stage that knows it, and under FSDP takes
/// everything. Changes nothing the second time.
Settings as_run(Settings settings);

/// `settings` that were made for another framework as `framework` runs them: with its own precision and optimizer step,
/// and without the optimizer and loss kernels that it does not bring (neither has bitsandbytes' 8-bit AdamW, Megatron
/// no kernels of Liger).
Settings moved_to(Framework framework, Settings settings);

/// Under FSDP2 a pipeline's rank gathers all of its layers for all of a step's micro-batches, and adds up whole fp32
/// gradients until the last one (torchtitan's parallelize.py: reshard_after_forward is off under pipelines; PyTorch's
/// torch/distributed/pipelining/stage.py: gradients are reduced when the schedule is done).
bool gathers_stage(const Settings& settings);

/// Bytes for each trained parameter.
struct StateBytes {
  double weights = 0;
  double gradients = 0;
  double states = 0;
  double temporaries = 0;  ///< alive during the optimizer's step
  double copies = 0;       ///< autocast's 16-bit copies of fp32 weights, made anew for each micro-batch
};
StateBytes state_bytes(const ModelFigures& model, const Settings& settings);
/// The same for what PEFT trains beside a frozen base.
StateBytes adapter_bytes(const Settings& settings);
/// The optimizer's temporaries for a parameter of the embeddings' trained copies beside a frozen base.
double copy_temporaries(const Settings& settings);
/// Bytes of all of the layers' matrices, frozen.
double frozen_matrices(const LocalParameters& local, const FrozenFormat& format, double otherwise);
/// Of them, what is not spread by sharding: the constants of bitsandbytes' 4-bit blocks.
double unsharded_constants(const FrozenFormat& format);
/// What an element has in forward and backward: 4 with fp32, else 2.
double compute_bytes(const Settings& settings);
/// Transformer Engine's copies of a matrix in 8 bits and of its transpose, which it keeps beside the 16-bit weights.
double fp8_copies(const Settings& settings);

/// What a layer keeps for its backward pass without recomputation, bytes per token.
double saved_by_layer(const ModelShape& model, const Widths& widths, const Settings& settings);
/// What sequence parallelism gathers of a layer's input, and the gradient of that, bytes per token. Autograd keeps
/// torchtitan's gathered inputs of attention and MLP; Megatron gathers again (Korthikanti et al. 2022).
double gathered_inputs(const Widths& widths, const Settings& settings);
/// What is alive of one recomputed layer while its MLP's product is differentiated, bytes per token.
double layer_working_set(const ModelShape& model, const Widths& widths, const Settings& settings);
/// The same with cheap operations recomputed (torchtitan's per-op policy), bytes per token.
double selective_bytes(const ModelShape& model, const Widths& widths, const Settings& settings);
/// Attention maps of one layer that are kept (eager attention), bytes per token.
double kept_maps(const Widths& widths, const Settings& settings);
/// Attention maps of one layer that are alive while they are differentiated, bytes per token.
double working_maps(const Widths& widths, const Settings& settings);

/// What the loss keeps for each token.
struct LossBytes {
  double per_logit = 0;
  double per_hidden = 0;
};
LossBytes loss_bytes(const ModelShape& model, const Settings& settings);

/// One token in the KV cache of this GPU, all its layers: 2 x kv_heads x head_dim elements a layer, or the compressed
/// ones; at least one head per tensor-parallel rank. Beside them the keys of sparse attention's indexer.
double kv_bytes_per_token(const ModelFigures& model, const Settings& settings);
/// Of the whole cache, what the GPU that holds the most has where layers are split over several; else 1.
double cache_share(const ModelFigures& model, const Settings& settings);
/// What a request holds on this GPU in layers of linear attention.
double state_bytes_per_request(const ModelFigures& model, const Settings& settings);
/// Of a token's bytes, how much `tokens` take where some layers see only a window.
double sliding_share(const ModelShape& model, double tokens);

/// Training: adds the moments and what lies outside of the allocator. Inference: one moment.
void add_training_moments(const ModelFigures& model, const Settings& settings, Estimate& estimate);
void add_generation_moment(const ModelFigures& model, const Settings& settings, Estimate& estimate);
/// The allocator's reserve, from the moments.
double allocator_reserve(const ModelFigures& model, const Settings& settings, const Estimate& estimate);

/// Matrices differentiate into a gradient before it is added to the others.
inline constexpr double kGradientBytes = 2;

}  // namespace gpuwarden::planning
