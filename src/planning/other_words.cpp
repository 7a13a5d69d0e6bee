// SPDX-License-Identifier: Apache-2.0
#include "planning/other_words.hpp"

#include "gpuwarden/planning/words.hpp"

namespace gpuwarden::planning {
namespace {

/// What other programs call a value (transformers, accelerate, bitsandbytes, vLLM, Megatron-LM, DeepSpeed).
struct OtherWord {
  std::string_view option;
  std::string_view word;
  std::string_view known;
};
constexpr OtherWord kForeignWords[] = {{"precision", "bfloat16", "bf16"},
                                       {"precision", "float16", "fp16"},
                                       {"precision", "half", "fp16"},
                                       {"precision", "float32", "fp32"},
                                       {"precision", "float", "fp32"},
                                       {"precision", "amp", "mixed"},
                                       {"precision", "bf16-mixed", "mixed"},
                                       {"precision", "float8", "fp8"},
                                       {"optimizer", "adam", "adamw"},
                                       {"optimizer", "adamw-torch", "adamw"},
                                       {"optimizer", "adamw-hf", "adamw"},
                                       {"optimizer", "adamw-torch-fused", "adamw"},
                                       {"optimizer", "adamw-bnb-8bit", "adamw-8bit"},
                                       {"optimizer", "adamw8bit", "adamw-8bit"},
                                       {"optimizer", "adam-8bit", "adamw-8bit"},
                                       {"optimizer", "adamw-torch-8bit", "adamw-8bit"},
                                       {"optimizer", "adamw-torch-4bit", "adamw-4bit"},
                                       {"optimizer", "adam-4bit", "adamw-4bit"},
                                       {"optimizer", "paged-adamw", "adamw"},
                                       {"optimizer", "paged-adamw-32bit", "adamw"},
                                       {"optimizer", "paged-adamw-8bit", "adamw-8bit"},
                                       {"recompute", "true", "full"},
                                       {"recompute", "false", "none"},
                                       {"recompute", "off", "none"},
                                       {"attention", "sdpa", "flash"},
                                       {"attention", "flash-attn", "flash"},
                                       {"attention", "flash-attention", "flash"},
                                       {"attention", "flash-attention-2", "flash"},
                                       {"attention", "flash-attention-3", "flash"},
                                       {"attention", "flashinfer", "flash"},
                                       {"loss", "liger", "fused"},
                                       {"loss", "cce", "fused"},
                                       {"loss", "fused-linear", "fused"},
                                       {"quantization", "awq", "int4"},
                                       {"quantization", "awq-marlin", "int4"},
                                       {"quantization", "gptq", "int4"},
                                       {"quantization", "gptq-marlin", "int4"},
                                       {"quantization", "gptq-int4", "int4"},
                                       {"quantization", "gptq-int8", "int8"},
                                       {"quantization", "marlin", "int4"},
                                       {"quantization", "eetq", "int8"},
                                       {"quantization", "bitsandbytes-nf4", "nf4"},
                                       {"quantization", "bitsandbytes-fp4", "nf4"},
                                       {"quantization", "w4a16", "int4"},
                                       {"quantization", "w8a8", "int8"},
                                       {"quantization", "w8a16", "int8"},
                                       {"quantization", "4bit", "nf4"},
                                       {"quantization", "8bit", "int8"},
                                       {"quantization", "bnb", "nf4"},
                                       {"quantization", "bnb-4bit", "nf4"},
                                       {"quantization", "bnb-8bit", "int8"},
                                       {"quantization", "bitsandbytes", "nf4"},
                                       {"quantization", "float8", "fp8"},
                                       {"quantization", "fbgemm-fp8", "fp8"},
                                       {"quantization", "modelopt", "fp8"},
                                       {"quantization", "modelopt-fp4", "nvfp4"},
                                       {"quantization", "fp4", "nvfp4"},
                                       {"kv-cache", "auto", "bf16"},
                                       {"kv-cache", "f16", "fp16"},
                                       {"kv-cache", "f32", "fp32"},
                                       {"kv-cache", "bfloat16", "bf16"},
                                       {"kv-cache", "float16", "fp16"},
                                       {"kv-cache", "float32", "fp32"},
                                       {"kv-cache", "fp8-e4m3", "fp8"},
                                       {"kv-cache", "fp8-e5m2", "fp8"},
                                       {"kv-cache", "fp8-e4m3fn", "fp8"},
                                       {"strategy", "zero-1", "zero1"},
                                       {"strategy", "zero-2", "zero2"},
                                       {"strategy", "zero-3", "zero3"},
                                       {"strategy", "distributed-optimizer", "zero1"},
                                       {"strategy", "full-shard", "fsdp1"},
                                       {"strategy", "full", "fsdp1"},
                                       {"offload", "cpu", "all"},
                                       {"offload", "param", "all"},
                                       {"offload", "params", "all"},
                                       {"task", "sft", "finetune"},
                                       {"task", "full", "finetune"},
                                       {"task", "fine-tune", "finetune"},
                                       {"task", "pre-train", "pretrain"},
                                       {"task", "pretraining", "pretrain"},
                                       {"task", "training", "train"},
                                       {"task", "serving", "serve"},
                                       {"task", "generate", "inference"},
                                       {"engine", "llama-cpp", "llama.cpp"},
                                       {"engine", "llamacpp", "llama.cpp"},
                                       {"engine", "llama-server", "llama.cpp"},
                                       {"engine", "text-generation-inference", "tgi"},
                                       {"engine", "trtllm", "tensorrt-llm"},
                                       {"engine", "trt-llm", "tensorrt-llm"},
                                       {"framework", "hf", "transformers"},
                                       {"framework", "huggingface", "transformers"},
                                       {"framework", "accelerate", "transformers"},
                                       {"framework", "deepspeed", "transformers"},
                                       {"framework", "trl", "transformers"},
                                       {"framework", "axolotl", "transformers"},
                                       {"framework", "llama-factory", "transformers"},
                                       {"framework", "megatron-lm", "megatron"},
                                       {"framework", "megatron-core", "megatron"},
                                       {"framework", "megatron-bridge", "megatron"},
                                       {"framework", "nemo", "megatron"}};

}  // namespace

std::string known_word(std::string_view option, std::string_view text) {
  std::string word = normal_word(text);
  for (const OtherWord& row : kForeignWords) {
    if (row.option == option && row.word == word) return std::string(row.known);
  }
  return word;
}

}  // namespace gpuwarden::planning
