// SPDX-License-Identifier: Apache-2.0
// What is done with a model, and how, as far as memory depends on it: one table for every command that plans.
#pragma once

#include <array>
#include <string_view>

#include "command.hpp"
#include "gpuwarden/planning/foreign_options.hpp"

namespace gpuwarden::cli {

/// The options, each with what other programs call it.
template <std::size_t N>
constexpr std::array<Option, N> with_foreign_names(std::array<Option, N> options) {
  for (Option& option : options) {
    const std::string_view name = option.names;
    if (name.starts_with("--")) option.also = planning::foreign_names_of(name.substr(2));
  }
  return options;
}

inline constexpr auto kWorkloadOptions = with_foreign_names(std::to_array<Option>({
    {"--task", OptionKind::text, "TASK", "train (default), pretrain, finetune, lora, qlora, inference, serve",
     "train pretrain finetune lora qlora inference serve"},
    {"--sequence", OptionKind::text, "N",
     "tokens of a sample (2048); serve: of a request with its answer (what the engine takes)"},
    {"--prompt", OptionKind::text, "N", "inference: tokens of the prompt"},
    {"--micro-batch", OptionKind::text, "N", "samples that a GPU works on at a time (plan: as many as fit, else 1)"},
    {"--global-batch", OptionKind::text, "N", "samples of a step on all GPUs: accumulation follows"},
    {"--precision", OptionKind::text, "P", "fp32, bf16, fp16, mixed, mixed-low, master-weights, fp8 (matrix products)",
     "fp32 bf16 fp16 mixed mixed-low master-weights fp8"},
    {"--optimizer", OptionKind::text, "NAME", "adamw, adamw-8bit, adamw-4bit, adafactor, lion, sgd, sgd-momentum",
     "adamw adamw-8bit adamw-4bit adafactor lion sgd sgd-momentum"},
    {"--optimizer-step", OptionKind::text, "HOW", "foreach (torch's default), fused, in-backward",
     "foreach fused in-backward"},
    {"--recompute", OptionKind::text, "WHAT", "none, selective, full, full-offloaded (gradient checkpointing)",
     "none selective full full-offloaded"},
    {"--attention", OptionKind::text, "KERNEL", "flash or eager", "flash eager"},
    {"--loss", OptionKind::text, "KERNEL", "standard, compiled, triton, low, chunked, fused (Liger)",
     "standard compiled triton low chunked fused"},
    {"--quantization", OptionKind::text, "Q",
     "frozen weights: none, nf4, nf4-double, int4 (awq, gptq), hqq, int8, fp8, mxfp4, nvfp4; of GGUF files Q4_K_M, "
     "IQ3_XS ...",
     "none nf4 nf4-double int4 awq gptq hqq int8 fp8 mxfp4 nvfp4 q8_0 q6_k q5_k_m q4_k_m q4_0 q3_k_m q2_k iq4_xs iq3_m "
     "iq2_m"},
    {"--kv-cache", OptionKind::text, "TYPE",
     "bf16, fp16, fp8, int8, fp32; of llama.cpp q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl",
     "bf16 fp16 fp8 int8 fp32 q8_0 q5_1 q5_0 q4_1 q4_0 iq4_nl"},
    {"--cache-type-k", OptionKind::text, "TYPE", "llama.cpp: the cache's keys alone",
     "f32 f16 bf16 q8_0 q5_1 q5_0 q4_1 q4_0 iq4_nl"},
    {"--cache-type-v", OptionKind::text, "TYPE", "llama.cpp: the cache's values alone",
     "f32 f16 bf16 q8_0 q5_1 q5_0 q4_1 q4_0 iq4_nl"},
    {"--gpu-layers", OptionKind::text, "N", "llama.cpp: layers on GPUs, the output one of them (all)"},
    {"--split-mode", OptionKind::text, "HOW", "llama.cpp, over several GPUs: layer (default), row, none",
     "layer row none"},
    {"--tensor-split", OptionKind::text, "SHARES", "llama.cpp: how much each GPU gets: 3,1"},
    {"--cpu-moe-layers", OptionKind::text, "N", "llama.cpp: the first N layers' experts stay with the CPU (0)"},
    {"--lora-rank", OptionKind::text, "N", "lora, qlora: the rank (16)"},
    {"--lora-targets", OptionKind::list, "NAME...", "lora, qlora: matrices (PEFT's defaults), or all-linear"},
    {"--strategy", OptionKind::text, "NAME", "do not search: single, ddp, zero1, zero2, zero3, fsdp1, fsdp2",
     "single ddp zero1 zero2 zero3 fsdp1 fsdp2"},
    {"--tensor-parallel", OptionKind::text, "N", "GPUs that share each matrix"},
    {"--pipeline-parallel", OptionKind::text, "N", "GPUs that share the layers"},
    {"--context-parallel", OptionKind::text, "N", "GPUs that share a sequence"},
    {"--expert-parallel", OptionKind::text, "N", "GPUs that share the experts"},
    {"--offload", OptionKind::text, "WHAT", "none, optimizer, all: what rests in the host's memory",
     "none optimizer all"},
    {"--framework", OptionKind::text, "NAME",
     "transformers, transformers-legacy, torchtitan, torchtune, litgpt, megatron",
     "transformers transformers-legacy torchtitan torchtune litgpt megatron"},
    {"--utilization", OptionKind::text, "SHARE",
     "serve: of the GPU's memory that the engine takes (90%; vLLM since 0.21: 92%)"},
    {"--mem-fraction-static", OptionKind::text, "SHARE",
     "serve: sglang's own share, of what is free before: weights and cache"},
    {"--batched-tokens", OptionKind::text, "N",
     "serve: tokens that the engine works on at a time (what it takes on the GPU)"},
    {"--max-requests", OptionKind::text, "N",
     "serve: requests that the engine works on at a time (what it takes on the GPU)"},
    {"--engine", OptionKind::text, "NAME", "serve: vllm (default), sglang, llama.cpp, ollama, tensorrt-llm, tgi",
     "vllm sglang llama.cpp ollama tensorrt-llm tgi"},
    {"--compile", OptionKind::flag, "", "training under torch.compile: what a layer keeps is fused"},
    {"--family", OptionKind::text, "NAME", "read the config as one of this family: llama, gpt_neox ..."},
    {"--hidden", OptionKind::text, "N", "of a model of which only the size is known: the width"},
    {"--layers", OptionKind::text, "N", "the same: the depth"},
    {"--heads", OptionKind::text, "N", "the same: attention heads"},
    {"--kv-heads", OptionKind::text, "N", "the same: key-value heads"},
    {"--intermediate", OptionKind::text, "N", "the same: the width of the MLP"},
    {"--vocab", OptionKind::text, "N", "the same: the vocabulary"},
}));
inline constexpr OptionGroup kTaskGroup{kWorkloadOptions, "the model's task"};
inline constexpr OptionGroup kWorkloadGroup{kWorkloadOptions, "with --model or --model-size: the model's task"};

}  // namespace gpuwarden::cli
