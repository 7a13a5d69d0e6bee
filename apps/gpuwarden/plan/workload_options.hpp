// SPDX-License-Identifier: Apache-2.0
// What is done with a model, and how, as far as memory depends on it: one table for every command that plans.
#pragma once

#include <array>

#include "command.hpp"

namespace gpuwarden::cli {

inline constexpr auto kWorkloadOptions = std::to_array<Option>({
    {"--task", OptionKind::text, "TASK", "train (default), pretrain, finetune, lora, qlora, inference, serve",
     "train pretrain finetune lora qlora inference serve"},
    {"--sequence", OptionKind::text, "N", "tokens of a sample; of a request, prompt and answer together (2048)"},
    {"--prompt", OptionKind::text, "N", "inference: tokens of the prompt"},
    {"--micro-batch", OptionKind::text, "N", "samples that a GPU works on at a time (plan: as many as fit, else 1)"},
    {"--global-batch", OptionKind::text, "N", "samples of a step on all GPUs: accumulation follows"},
    {"--precision", OptionKind::text, "P", "fp32, bf16, fp16, mixed, mixed-low, master-weights, fp8 (matrix products)",
     "fp32 bf16 fp16 mixed mixed-low master-weights fp8"},
    {"--optimizer", OptionKind::text, "NAME", "adamw, adamw-8bit, adafactor, lion, sgd, sgd-momentum",
     "adamw adamw-8bit adafactor lion sgd sgd-momentum"},
    {"--optimizer-step", OptionKind::text, "HOW", "foreach (torch's default), fused, in-backward",
     "foreach fused in-backward"},
    {"--recompute", OptionKind::text, "WHAT", "none, selective, full, full-offloaded (gradient checkpointing)",
     "none selective full full-offloaded"},
    {"--attention", OptionKind::text, "KERNEL", "flash or eager", "flash eager"},
    {"--loss", OptionKind::text, "KERNEL", "standard, triton, low, chunked, fused (Liger)",
     "standard triton low chunked fused"},
    {"--quantization", OptionKind::text, "Q",
     "of weights that are not trained: none, nf4, nf4-double, int4, int8, fp8, mxfp4",
     "none nf4 nf4-double int4 int8 fp8 mxfp4"},
    {"--kv-cache", OptionKind::text, "TYPE", "bf16, fp16, fp8, int8, fp32", "bf16 fp16 fp8 int8 fp32"},
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
    {"--utilization", OptionKind::text, "SHARE", "serve: of the GPU's memory that the engine takes (90%)"},
    {"--family", OptionKind::text, "NAME", "read the config as one of this family: llama, gpt_neox ..."},
    {"--hidden", OptionKind::text, "N", "of a model of which only the size is known: the width"},
    {"--layers", OptionKind::text, "N", "the same: the depth"},
    {"--heads", OptionKind::text, "N", "the same: attention heads"},
    {"--kv-heads", OptionKind::text, "N", "the same: key-value heads"},
    {"--intermediate", OptionKind::text, "N", "the same: the width of the MLP"},
    {"--vocab", OptionKind::text, "N", "the same: the vocabulary"},
});
inline constexpr OptionGroup kTaskGroup{kWorkloadOptions, "the model's task"};
inline constexpr OptionGroup kWorkloadGroup{kWorkloadOptions, "with --model or --model-size: the model's task"};

}  // namespace gpuwarden::cli
