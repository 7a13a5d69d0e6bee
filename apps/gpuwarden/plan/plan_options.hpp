// SPDX-License-Identifier: Apache-2.0
// The options that `gpuwarden plan` has beside those of workload_options.hpp.
#pragma once

#include <array>

#include "command.hpp"

namespace gpuwarden::cli {

inline constexpr auto kPlanOptions = std::to_array<Option>({
    {"--params", OptionKind::text, "N", "a model of which only the size is known: 7B; its shape is guessed"},
    {"--list", OptionKind::flag, "", "show the models that are known by name"},
    {"--gpus", OptionKind::text, "SPEC", "plan for these instead of this machine's: 8xh100, 4xa100-40gb, rtx4090"},
    {"--gpus-per-node", OptionKind::text, "N", "how many GPUs a node has (8)"},
    {"--cpus", OptionKind::text, "N", "CPU cores of a node (this machine's, a capture's): advice on data loading"},
    {"--tokens", OptionKind::text, "N", "train on so many: how long it takes (300B)"},
    {"--mfu", OptionKind::text, "SHARE", "utilization that you measured, instead of what was published"},
    {"--calibrate", OptionKind::list, "M=GiB...",
     "peaks that you measured at two or three micro-batches: 1=23.4,2=30.1"},
    {"--explain", OptionKind::flag, "", "show the formula and the source of every line"},
    {"--chart", OptionKind::text, "FILE", "draw the memory: FILE ends with .svg or .html"},
    {"--emit", OptionKind::text, "FORMAT", "print what starts it: torchrun, accelerate, deepspeed, slurm"},
    {"--program", OptionKind::text, "FILE", "with --emit: the training program (train.py)"},
});

}  // namespace gpuwarden::cli
