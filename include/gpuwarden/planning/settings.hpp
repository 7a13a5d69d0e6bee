// SPDX-License-Identifier: Apache-2.0
// What is to be done with a model, and how: everything besides the model's shape that decides how much memory it takes.
// Plain values; defaults are what Hugging Face's Trainer does on one GPU today.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/result.hpp"

namespace gpuwarden::planning {

/// Sizes are told in GiB, never in GB.
inline constexpr double kBytesPerGiB = 1073741824.0;

enum class Task {
  full_training,  ///< every weight is trained: pre-training, full fine-tuning
  adapters,       ///< LoRA and its kin: the base is frozen (QLoRA: and quantised)
  inference,      ///< one batch at a time, as transformers' generate does
  serving,        ///< an engine that fills what is left with KV cache (vLLM)
};

/// What the trained weights, their gradients and the optimizer's states are stored in.
enum class Precision {
  fp32,
  bf16,            ///< everything 16-bit ("pure")
  fp16,            ///< as bf16
  mixed,           ///< fp32 weights, 16-bit copies for computing (autocast, FSDP's mixed precision)
  mixed_low,       ///< 16-bit weights under autocast; FSDP1 stores what is trained in fp32 all the same
  master_weights,  ///< 16-bit weights, fp32 copies in the optimizer (DeepSpeed, Megatron)
};

enum class Optimizer { adamw, adamw_8bit, adafactor, lion, sgd, sgd_momentum, adamw_4bit };

/// How an optimizer's step runs.
enum class OptimizerStep {
  foreach,        ///< over all tensors at once, through temporaries as large as the weights (torch's default)
  fused,          ///< one kernel, no temporaries
  in_backward,    ///< as soon as a gradient is there, which is freed at once
  foreach_twice,  ///< as foreach of torch 2.0, through two such temporaries
};

enum class Recompute {
  none,
  selective,       ///< cheap operations are computed again, matrices and attention kept (torchtitan's per-op policy)
  full,            ///< only the layers' inputs are kept (gradient checkpointing)
  full_offloaded,  ///< and those on the host
};

enum class Attention { flash, eager };

/// How the loss treats its tokens x vocabulary logits.
enum class LossKernel {
  standard,      ///< the model's own code: cross entropy of fp32 copies
  triton,        ///< a fused cross entropy over stored logits
  low,           ///< 16-bit logits are never copied to fp32
  chunked,       ///< logits are stored in 16 bit, upcast piece by piece
  fused_linear,  ///< logits are never stored (Liger)
  compiled,      ///< the standard one under torch.compile: 16-bit logits and their gradient
};

/// How weights are kept that are not trained.
enum class Quantization {
  none,
  nf4,         ///< bitsandbytes, blocks of 64
  nf4_double,  ///< with quantised block constants
  int4,        ///< GPTQ, AWQ: groups of 128, a 4-bit zero each
  int8,        ///< GPTQ: groups of 128; bitsandbytes' LLM.int8
  fp8,
  mxfp4,  ///< the experts alone: 4 bits, and 8 for a block of 32 (GPT-OSS)
  hqq,    ///< 4 bits, groups of 64 with scale and zero in 16 bit
  nvfp4,  ///< 4 bits, and 8 for a block of 16
  // Mixes of llama.cpp's files (gguf.hpp).
  q8_0,
  q6_k,
  q6_k_l,
  q5_0,
  q5_1,
  q5_k_s,
  q5_k_m,
  q5_k_l,
  q4_0,
  q4_1,
  q4_k_s,
  q4_k_m,
  q4_k_l,
  q3_k_s,
  q3_k_m,
  q3_k_l,
  q3_k_xl,
  q2_k,
  q2_k_s,
  q2_k_l,
  iq4_nl,
  iq4_xs,
  iq3_m,
  iq3_s,
  iq3_xs,
  iq3_xxs,
  iq2_m,
  iq2_s,
  iq2_xs,
  iq2_xxs,
  iq1_m,
  iq1_s,
  tq1_0,
  tq2_0,
  mxfp4_moe,
};

/// Matrix products of training in 8 bits. Transformer Engine in Megatron, else torchao: weights stay what they are.
enum class Fp8 {
  none,
  matrices,  ///< inputs are cast for each product
  gathered,  ///< and FSDP gathers weights in 8 bits (torchao's enable_fsdp_float8_all_gather)
};

/// Whose code runs the step: how many copies of a tensor live at once differs between them.
enum class Framework {
  transformers,         ///< Hugging Face, 4.48 and later
  transformers_legacy,  ///< 4.45 to 4.47: 16-bit logits end with their fp32 copy; Mistral repeats keys and values
  torchtitan,
  torchtune,
  litgpt,
  megatron,
};

enum class Sharding {
  none,   ///< one GPU, or DDP: everything is whole on each
  zero1,  ///< optimizer states are spread
  zero2,  ///< and gradients
  zero3,  ///< and weights (DeepSpeed)
  fsdp1,
  fsdp2,
};

/// What rests on the host instead of the GPU.
enum class Offload { none, optimizer, all };

/// How many GPUs do what; the GPUs of a job are data x tensor x pipeline x context.
struct Parallelism {
  std::uint32_t data = 1;  ///< replicas, or shards of `sharding`
  std::uint32_t tensor = 1;
  std::uint32_t pipeline = 1;
  std::uint32_t context = 1;       ///< parts of a sequence; shards weights together with data
  std::uint32_t expert = 1;        ///< over which experts are spread; within data, else within data x tensor
  std::uint32_t layer_stages = 1;  ///< GPUs that take turns on one process's layers (device_map)
  /// Runs of layers that each pipeline rank has: interleaved 1F1B above 1 (Narayanan et al. 2021, arXiv 2104.04473).
  std::uint32_t virtual_stages = 1;
  Sharding sharding = Sharding::none;
  bool sequence_parallel = true;  ///< norms and residuals are split by `tensor` too (Megatron)
  Offload offload = Offload::none;

  std::uint32_t gpus() const { return data * tensor * pipeline * context * layer_stages; }
  /// Parts of an expert's matrices: `tensor`, less where experts are spread over its ranks too, as engines do within
  /// one replica (vLLM's --enable-expert-parallel, SGLang's --ep-size) and Megatron with an expert tensor parallelism
  /// of its own.
  std::uint32_t expert_tensor() const {
    return expert == 0 || data * tensor < expert ? 1 : std::min(tensor, data * tensor / expert);
  }
  bool operator==(const Parallelism&) const = default;
};

/// How llama.cpp spreads a model over GPUs and the host.
struct LayerSplit {
  enum class Mode {
    layer,  ///< whole layers, each with its part of the KV cache
    row,    ///< the rows of dense matrices; everything else of a layer by layers
    none,   ///< one GPU
  };
  Mode mode = Mode::layer;
  std::vector<double> shares;               ///< of each GPU (--tensor-split); empty: alike
  std::optional<std::uint32_t> gpu_layers;  ///< -ngl: the last so many on GPUs, the output one of them; empty: all
  std::uint32_t host_experts = 0;           ///< of the first so many layers, whose experts the CPU keeps (--n-cpu-moe)
  std::string keys = "f16";                 ///< the KV cache's types, as llama.cpp calls them
  std::string values = "f16";
  std::uint32_t tokens = 512;  ///< that are worked on at a time (--ubatch-size)
  bool operator==(const LayerSplit&) const = default;
};

/// Matrices that adapters stand beside.
struct AdapterTargets {
  bool query = true;
  bool key = false;
  bool value = true;
  bool output = false;
  bool joint_qkv = false;  ///< one adapter for query, key and value, which the model keeps in one matrix
  bool gate = false;
  bool up = false;
  bool down = false;
  bool operator==(const AdapterTargets&) const = default;
};

struct Adapters {
  std::uint32_t rank = 16;
  AdapterTargets targets;
  bool dropout = true;                  ///< masks are kept
  bool fp32 = true;                     ///< PEFT keeps adapters in fp32; false: as the base
  bool embeddings_trained = false;      ///< copies of embedding and head are trained (modules_to_save)
  std::uint64_t stated_parameters = 0;  ///< where known; 0: counted from rank and targets
  double extra_saved_per_hidden = 0;    ///< bytes per token, layer and hidden width that other kinds of adapters keep
  bool operator==(const Adapters&) const = default;
};

struct Settings {
  Task task = Task::full_training;
  Precision precision = Precision::mixed_low;
  Fp8 fp8 = Fp8::none;
  Optimizer optimizer = Optimizer::adamw;
  OptimizerStep step = OptimizerStep::foreach;
  std::uint32_t sequence = 2048;   ///< tokens of one sample; inference: prompt and answer together
  std::uint32_t prompt = 0;        ///< of them, tokens read at once (inference)
  std::uint32_t micro_batch = 1;   ///< samples that one replica works on at a time
  std::uint32_t accumulation = 1;  ///< micro-batches before a step
  Recompute recompute = Recompute::full;
  Attention attention = Attention::flash;
  LossKernel loss = LossKernel::standard;
  bool fused_kernels = false;   ///< norms and rotary embeddings in one kernel each (Liger, foak, apex)
  bool compiled = false;        ///< torch.compile
  bool fp32_residual = false;   ///< prepare_model_for_kbit_training: layers' inputs are kept in fp32
  bool varied_lengths = false;  ///< samples are not padded to one length: the allocator's blocks fit worse
  bool growing_cache = false;   ///< the KV cache is concatenated anew for each token (before transformers' Cache)
  Quantization quantization = Quantization::none;
  double kv_bytes = 2;  ///< of an element of the KV cache: 2, 1 (fp8, int8) or 4; between them as ggml's blocks have it
  Adapters adapters;
  Parallelism parallel;
  std::optional<LayerSplit> split;  ///< llama.cpp's own way, over parallel.layer_stages GPUs
  Framework framework = Framework::transformers;

  /// Tokens of a micro-batch on one GPU.
  double tokens() const { return static_cast<double>(micro_batch) * sequence / parallel.context; }
  bool trains() const { return task == Task::full_training || task == Task::adapters; }
  bool operator==(const Settings&) const = default;
};

/// Whether the numbers make sense together: counts of at least 1, a prompt no longer than the sequence, expert within
/// data parallelism, quantised weights only where they are not trained, products in 8 bits only where all weights are,
/// nothing offloaded from DDP. Fails with invalid_argument.
Result<void> check(const Settings& settings);

std::string_view to_string(Task value);
std::string_view to_string(Precision value);
std::string_view to_string(Fp8 value);
std::string_view to_string(Optimizer value);
std::string_view to_string(OptimizerStep value);
std::string_view to_string(Recompute value);
std::string_view to_string(Attention value);
std::string_view to_string(LossKernel value);
std::string_view to_string(Quantization value);
/// How people write it: "Q4_K_M", "nf4 double".
std::string title_of(Quantization value);
std::string_view to_string(Framework value);
/// How people write a framework's name: "Megatron", "torchtitan".
std::string_view title_of(Framework value);
std::string_view to_string(Sharding value);
/// The same: "DDP", "ZeRO-2", "FSDP2".
std::string_view title_of(Sharding value);
std::string_view to_string(Offload value);

}  // namespace gpuwarden::planning
