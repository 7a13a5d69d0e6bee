// SPDX-License-Identifier: Apache-2.0
// What of a model llama.cpp puts on which GPU: whole layers, each with its part of the KV cache, and the rest on the
// host.
#pragma once

#include <cstdint>
#include <vector>

#include "gpuwarden/planning/estimate.hpp"
#include "gpuwarden/planning/settings.hpp"

namespace gpuwarden::planning {

/// What one GPU holds, or the host.
struct LayerLoad {
  std::uint32_t layers = 0;
  bool output = false;     ///< the last norm and the output are here
  double weights = 0;      ///< bytes
  double cache_share = 0;  ///< of the whole KV cache
  double cache = 0;        ///< bytes of it, for what the settings ask for
};

struct LayerLoads {
  std::vector<LayerLoad> gpus;
  LayerLoad host;  ///< the input's embedding, and what is not on GPUs
};

/// Over settings.parallel.layer_stages GPUs, as settings.split says. Source: llama.cpp src/llama-model.cpp
/// (load_tensors: i_gpu_start, tensor_split; "there is very little benefit to offloading the input layer, so always
/// keep it on the CPU"), whose -ngl counts the output as a layer since December 2025.
LayerLoads layer_loads(const ModelFigures& model, const Settings& settings);
/// Of the GPUs the one that holds the most, with a cache for what the settings ask for.
LayerLoad heaviest_load(const ModelFigures& model, const Settings& settings);

/// Whether llama.cpp has the GPUs work on four batches in turn, which it does where all layers are on several GPUs.
/// Source: llama.cpp src/llama-context.cpp (pipeline_parallel).
bool is_pipelined(const Settings& settings);

/// What llama.cpp computes in on each GPU, where it works on so many tokens at a time: all tokens' logits and a hidden
/// state in fp32, or what a layer's MLP holds; without flash attention all heads' products with every key, too.
/// 258.50 MiB of Llama 3 8B and 398.38 MiB of gpt-oss-20b with 512 tokens ("compute buffer size" in its logs). Of
/// several GPUs each has it, since each computes whole layers (ikawrakow/ik_llama.cpp#235), and beside it four copies
/// of the mask and of what is handed on (ggml's GGML_SCHED_MAX_COPIES): 672.01 MiB of Command-R over two GPUs
/// (ggml-org/llama.cpp#6122), 4 GiB a GPU with a million tokens (unslothai/unsloth#7637).
double compute_buffer(const ModelShape& model, const Settings& settings);

}  // namespace gpuwarden::planning
