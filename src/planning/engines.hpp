// SPDX-License-Identifier: Apache-2.0
// What serving engines do where their options are left out.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "gpuwarden/planning/gpus.hpp"
#include "gpuwarden/planning/model.hpp"
#include "gpuwarden/planning/workload.hpp"

namespace gpuwarden::planning {

struct EngineTraits {
  Engine engine;
  std::string_view word;           ///< "llama.cpp"
  std::string_view title;          ///< as its makers write it
  std::string_view length_option;  ///< that limits a request
  bool shortens;                   ///< starts where its pool cannot hold a request of the model's window
  std::uint32_t least;             ///< tokens to which it shortens at most
  double share;                    ///< of the GPU's memory that it takes at most
  double spares = 0;               ///< of what weights and computing leave, what it leaves free
  bool splits_layers = false;      ///< allocates what is asked for and spreads whole layers, as llama.cpp does
  std::string_view source;
};

inline constexpr std::uint32_t kEngineBlock = 16;

inline constexpr auto kEngines = std::to_array<EngineTraits>({
    {.engine = Engine::vllm,
     .word = "vllm",
     .title = "vLLM",
     .length_option = "--max-model-len",
     .shortens = false,
     .least = kEngineBlock,
     .share = 0.9,
     .source = "vllm/config/model.py (_get_and_verify_max_len), vllm/v1/core/kv_cache_utils.py "
               "(_check_enough_kv_cache_memory raises a ValueError)"},
    {.engine = Engine::sglang,
     .word = "sglang",
     .title = "SGLang",
     .length_option = "--context-length",
     .shortens = true,
     .least = kEngineBlock,
     .share = 0.9,
     .source = "sglang/srt/configs/model_config.py (_derive_context_length); sglang/srt/managers/tp_worker.py: "
               "max_req_len is the smaller of the context and the pool"},
    // -c 0 asks for the whole window. Before --fit (December 2025) -c was 4096 where it was left out.
    {.engine = Engine::llama_cpp,
     .word = "llama.cpp",
     .title = "llama.cpp",
     .length_option = "-c",
     .shortens = true,
     .least = 4096,
     .share = 1,
     .splits_layers = true,
     .source = "llama.cpp common/arg.cpp (--ctx-size: 0 is the model's; --fit-ctx 4096), common/fit.cpp"},
    {.engine = Engine::ollama,
     .word = "ollama",
     .title = "ollama",
     .length_option = "num_ctx",
     .shortens = false,
     .least = kEngineBlock,
     .share = 1,
     .splits_layers = true,
     .source = "ollama server/routes.go (since 0.15.5): 4096, 32768 or 262144 tokens by the GPUs' memory together"},
    {.engine = Engine::tensorrt_llm,
     .word = "tensorrt-llm",
     .title = "TensorRT-LLM",
     .length_option = "--max_seq_len",
     .shortens = true,
     .least = kEngineBlock,
     .share = 0.9,
     .source = "tensorrt_llm/_torch/pyexecutor/_util.py: max_seq_len becomes what the KV cache manager can hold"},
    {.engine = Engine::tgi,
     .word = "tgi",
     .title = "TGI",
     .length_option = "--max-total-tokens",
     .shortens = true,
     .least = kEngineBlock,
     .share = 1,
     // TGI_WIGGLE_ROOM of models/globals.py: read in the copy of its Gaudi backend, of CUDA's from memory.
     .spares = 0.1,
     .source = "docs/source/reference/launcher.md: the smaller of what can be allocated and max_position_embeddings, "
               "--cuda-memory-fraction 1.0; server/text_generation_server/models/flash_causal_lm.py: blocks are "
               "free_memory x TGI_WIGGLE_ROOM"},
});

const EngineTraits& traits_of(Engine engine);

/// Tokens that ollama takes on GPUs of so much memory together where num_ctx says nothing.
std::uint32_t usual_context(Bytes memory);

/// Tokens of a request that an engine takes where none are named: the model's window, or that of the release
/// whose shape it has; 0: neither is known.
std::uint32_t usual_window(const ModelShape& model, Engine engine);

struct BatchSizes {
  std::uint32_t tokens = 8192;
  std::uint32_t requests = 256;
};
/// What an engine works on at a time on such a GPU where nothing is named.
BatchSizes usual_batch(Engine engine, const GpuGroup& gpus);

}  // namespace gpuwarden::planning
