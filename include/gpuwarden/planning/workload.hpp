// SPDX-License-Identifier: Apache-2.0
// What is to be done with which model: the question that a plan, and a choice among a machine's GPUs, start from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/planning/estimate.hpp"
#include "gpuwarden/planning/model.hpp"
#include "gpuwarden/planning/settings.hpp"

namespace gpuwarden::planning {

/// What serves a model; each decides otherwise how long requests may be where nobody says so.
enum class Engine { vllm, sglang, llama_cpp, ollama, tensorrt_llm, tgi };

/// Where settings.sequence comes from.
enum class Length {
  given,    ///< it was asked for
  assumed,  ///< nobody said it, and the model's window is not known
  window,   ///< it is the model's: an engine whose pool cannot hold one request of it does not start
  fitted,   ///< the model's at most; where the pool cannot hold that, what it holds
  usual,    ///< the engine's own for GPUs of such memory (ollama), the model's at most
};

/// A model and its task. What is not fixed is searched.
struct Workload {
  ModelShape model;
  Settings settings;
  bool fixed_strategy = false;     ///< settings.parallel says how GPUs share the work; its data-parallel ranks follow
  bool usual_sharding = false;     ///< no strategy was named: settings.parallel.sharding is the framework's usual one
  bool fixed_micro_batch = false;  ///< settings.micro_batch is kept; else the largest that fits
  bool fixed_recompute = false;    ///< settings.recompute is kept
  std::uint64_t global_batch = 0;  ///< samples of an optimizer step on all GPUs; 0: free
  /// Of a GPU's memory that a serving engine takes, 0 to 1. vLLM's default is 0.92 where it counts its CUDA graphs in
  /// (0.21 and later), which is 0.90 to 0.91 without them. Sources: vllm/config/cache.py; the line that
  /// vllm/v1/worker/gpu_worker.py logs ("equivalent to --gpu-memory-utilization=0.9129 without").
  double serving_utilization = 0.9;
  /// SGLang's --mem-fraction-static: of what is free before weights are loaded, for weights and cache together, 0 to 1;
  /// 0: not given, and serving_utilization is what is taken.
  double static_share = 0;
  /// Of each GPU, what lies beside the model: a draft model with its cache.
  Beside beside{};
  std::uint32_t batched_tokens = 0;  ///< that a serving engine works on at a time; 0: as many as it takes on the GPU
  std::uint32_t max_requests = 0;    ///< the same
  Engine engine = Engine::vllm;
  Length length = Length::given;
  std::vector<std::string> notes;  ///< what is assumed where nothing is said, a sentence each
  bool operator==(const Workload&) const = default;
};

/// "train", "pretrain", "finetune", "lora", "qlora", "inference", "serve".
std::vector<std::string_view> task_names();

/// What a task on this model is run with where nothing else is said: Hugging Face's Trainer for what is trained
/// (settings.hpp), 16 bit for what is not, the quantization that the checkpoint is stored in, PEFT's target matrices;
/// at most as many tokens as the model has learned positions. Fails with invalid_argument on a task that is not known
/// (case and '_' for '-' do not matter), and on serving a model that generates no tokens.
Result<Settings> settings_for(const ModelShape& model, std::string_view task);

/// Adapters of a rank beside the matrices that are named as the model's modules are ("q_proj", "all-linear"); none for
/// PEFT's defaults. Fails with invalid_argument on a module that the model has not.
Result<Adapters> adapters_for(const ModelShape& model, std::uint32_t rank,
                              const std::vector<std::string>& modules = {});

/// A model of which only the size of its weights in 16 bit is known, to be held for inference: its shape is guessed.
/// Fails with invalid_argument below 2 MB and above 200 TB.
Result<Workload> workload_of_size(Bytes weights);

/// Where something is offloaded and no strategy is named: ZeRO-2, since DDP keeps everything on each GPU.
void shard_what_is_offloaded(Parallelism& parallel);

/// Gives the data-parallel ranks of settings.parallel what the other axes leave of so many GPUs; false where these
/// cannot be divided so.
bool spread(Settings& settings, std::uint32_t gpus);

/// The share of a GPU's memory that a serving engine must find free.
double share_taken(const Workload& work);
/// "90% utilization", "--mem-fraction-static 0.8".
std::string share_words(const Workload& work);

/// Puts a draft model beside a serving engine's: its weights and the cache of a request as long as the model's. It is
/// counted whole on each GPU: engines divide it as the model itself, or not at all. Fails with invalid_argument on a
/// task that serves not.
Result<void> add_draft(const ModelShape& draft, Workload& work);

/// "full training", "LoRA adapters", "inference", "serving": the task in words.
std::string_view words_of(Task task);

}  // namespace gpuwarden::planning
