// SPDX-License-Identifier: Apache-2.0
// `gpuwarden plan` as the command table has it: its options and its function.
#pragma once

#include <array>

#include "command.hpp"

namespace gpuwarden::cli {

inline constexpr auto kPlanOptions = std::to_array<Option>({
    {"--task", OptionKind::text, "TASK", "train (default), pretrain, finetune, lora, qlora, inference, serve"},
    {"--gpus", OptionKind::text, "SPEC", "plan for these instead of this machine's: 8xh100, 4xa100-40gb, rtx4090"},
    {"--gpus-per-node", OptionKind::text, "N", "how many GPUs a node has (8)"},
    {"--cpus", OptionKind::text, "N", "CPU cores of a node (this machine's, a capture's): advice on data loading"},
    {"--params", OptionKind::text, "N", "a model of which only the size is known: 7B; its shape is guessed"},
    {"--hidden", OptionKind::text, "N", "with --params: the width"},
    {"--layers", OptionKind::text, "N", "with --params: the depth"},
    {"--heads", OptionKind::text, "N", "with --params: attention heads"},
    {"--kv-heads", OptionKind::text, "N", "with --params: key-value heads"},
    {"--intermediate", OptionKind::text, "N", "with --params: the width of the MLP"},
    {"--vocab", OptionKind::text, "N", "with --params: the vocabulary"},
    {"--family", OptionKind::text, "NAME", "read the config as one of this family: llama, gpt_neox ..."},
    {"--list", OptionKind::flag, "", "show the models that are known by name"},
    {"--sequence", OptionKind::text, "N", "tokens of a sample; of a request, prompt and answer together (2048)"},
    {"--prompt", OptionKind::text, "N", "inference: tokens of the prompt"},
    {"--micro-batch", OptionKind::text, "N", "samples that a GPU works on at a time (1)"},
    {"--global-batch", OptionKind::text, "N", "samples of a step on all GPUs: accumulation follows"},
    {"--precision", OptionKind::text, "P", "fp32, bf16, fp16, mixed, mixed-low, master-weights, fp8 (matrix products)"},
    {"--optimizer", OptionKind::text, "NAME", "adamw, adamw-8bit, adafactor, lion, sgd, sgd-momentum"},
    {"--optimizer-step", OptionKind::text, "HOW", "foreach (torch's default), fused, in-backward"},
    {"--recompute", OptionKind::text, "WHAT", "none, selective, full, full-offloaded (gradient checkpointing)"},
    {"--attention", OptionKind::text, "KERNEL", "flash or eager"},
    {"--loss", OptionKind::text, "KERNEL", "standard, triton, low, chunked, fused (Liger)"},
    {"--quantization", OptionKind::text, "Q",
     "of weights that are not trained: none, nf4, nf4-double, int4, int8, fp8, mxfp4"},
    {"--kv-cache", OptionKind::text, "TYPE", "bf16, fp16, fp8, int8, fp32"},
    {"--lora-rank", OptionKind::text, "N", "lora, qlora: the rank (16)"},
    {"--lora-targets", OptionKind::list, "NAME...", "lora, qlora: matrices (PEFT's defaults), or all-linear"},
    {"--strategy", OptionKind::text, "NAME", "do not search: single, ddp, zero1, zero2, zero3, fsdp1, fsdp2"},
    {"--tensor-parallel", OptionKind::text, "N", "GPUs that share each matrix"},
    {"--pipeline-parallel", OptionKind::text, "N", "GPUs that share the layers"},
    {"--context-parallel", OptionKind::text, "N", "GPUs that share a sequence"},
    {"--expert-parallel", OptionKind::text, "N", "GPUs that share the experts"},
    {"--offload", OptionKind::text, "WHAT", "none, optimizer, all: what rests in the host's memory"},
    {"--framework", OptionKind::text, "NAME",
     "transformers, transformers-legacy, torchtitan, torchtune, litgpt, megatron"},
    {"--utilization", OptionKind::text, "SHARE", "serve: of the GPU's memory that the engine takes (90%)"},
    {"--tokens", OptionKind::text, "N", "train on so many: how long it takes (300B)"},
    {"--mfu", OptionKind::text, "SHARE", "utilization that you measured, instead of what was published"},
    {"--calibrate", OptionKind::list, "M=GiB...",
     "peaks that you measured at two or three micro-batches: 1=23.4,2=30.1"},
    {"--explain", OptionKind::flag, "", "show the formula and the source of every line"},
    {"--chart", OptionKind::text, "FILE", "draw the memory: FILE ends with .svg or .html"},
    {"--emit", OptionKind::text, "FORMAT", "print what starts it: torchrun, accelerate, deepspeed, slurm"},
    {"--program", OptionKind::text, "FILE", "with --emit: the training program (train.py)"},
});

int run_plan(Context& context);

}  // namespace gpuwarden::cli
