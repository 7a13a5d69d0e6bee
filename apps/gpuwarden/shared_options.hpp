// SPDX-License-Identifier: Apache-2.0
// The rows of options that several commands share; those of one command stand in commands/<name>.cpp.
#pragma once

#include <array>

#include "command.hpp"

namespace gpuwarden::cli {

/// The presets of the simulator (sim/fleets), told by the build.
inline constexpr const char* kFleets = GPUWARDEN_FLEETS;

inline constexpr auto kCommonOptions = std::to_array<Option>({
    {"--simulate", OptionKind::text, "SPEC", "use a simulated fleet: a preset, a YAML file, a capture, a started fleet",
     kFleets},
    {"--json", OptionKind::flag, "", "print JSON"},
    {"--timeout", OptionKind::text, "DURATION", "how long the driver, and then each GPU, may take to answer (5s)"},
    {"--probe", OptionKind::text, "auto|nvml|nvidia-smi", "whom to ask; auto: NVML, else nvidia-smi"},
    {"--wake", OptionKind::flag, "", "read sleeping GPUs too, which wakes them"},
    {"--color", OptionKind::text, "WHEN", "auto, always or never (NO_COLOR is honoured)", "auto always never"},
    {"-h,--help", OptionKind::flag, "", "show this help"},
});

inline constexpr auto kSelectionOptions = std::to_array<Option>({
    {"-n,--num-gpus", OptionKind::text, "N|MIN:MAX", "how many GPUs (1); MIN:MAX: as many as there are of these"},
    {"--gpu-ids", OptionKind::list, "ID...",
     "exactly these: indices (0,2 or 0-3), UUIDs or their beginnings, PCI bus ids"},
    {"--all", OptionKind::flag, "", "every GPU that fits"},
    {"--min-memory", OptionKind::text, "SIZE", "memory of each GPU, at least"},
    {"--min-free-memory", OptionKind::text, "SIZE", "free memory of each GPU, at least"},
    {"--max-utilization", OptionKind::text, "PERCENT", "utilization of each GPU, at most"},
    {"--min-compute-capability", OptionKind::text, "X.Y", "compute capability, at least"},
    {"--name", OptionKind::text, "TEXT", "GPUs whose name contains this"},
    {"--model", OptionKind::text, "MODEL", "as many GPUs as this model needs: a name, a config.json, its folder"},
    {"--model-size", OptionKind::text, "SIZE", "the same of a model of 7B parameters, or of 140GB of weights"},
    {"--mig", OptionKind::flag, "", "MIG instances instead of whole GPUs"},
    {"--mig-profile", OptionKind::text, "PROFILE", "MIG instances of this profile, for example 1g.10gb"},
    {"--prefer", OptionKind::list, "ID...", "try these first, in this order"},
    {"--exclude", OptionKind::list, "ID...", "never these"},
    {"--share", OptionKind::flag, "", "share the GPUs with others who share"},
    {"--allow-busy", OptionKind::flag, "", "take GPUs although processes without a lease use them"},
    {"--device", OptionKind::text, "cpu|cuda|cuda:N", "cpu: no GPU at all; cuda:1: GPU 1", "cpu cuda"},
    {"--wait", OptionKind::optional, "DURATION", "wait in line until the GPUs are available"},
    {"--priority", OptionKind::text, "N", "among your own waiting jobs: the highest goes first (0)"},
    {"--config", OptionKind::text, "FILE", "YAML configuration (docs/cli.md)"},
});

inline constexpr OptionGroup kSelectionGroup{kSelectionOptions, "which GPUs"};

inline constexpr auto kFromOptions = std::to_array<Option>({
    {"--from", OptionKind::text, "FILE",
     "look at a capture instead of this machine: nvidia-smi output, a log ... (-: stdin)"},
});

inline constexpr auto kFromManyOptions = std::to_array<Option>({
    {"--from", OptionKind::list, "FILE...",
     "look at captures instead of this machine: nvidia-smi output, collect_env, logs ... (-: stdin)"},
    {"--root", OptionKind::text, "DIR", "look at the software below this folder: an image, a chroot"},
    {"--no-environment", OptionKind::flag, "", "look at the GPUs alone, not at the software around them"},
    {"--ask-pythons", OptionKind::flag, "", "start each Python with PyTorch and ask it (some seconds)"},
});

/// For commands that judge by the knowledge base (machine.hpp).
inline constexpr auto kKnowledgeOptions = std::to_array<Option>({
    {"--knowledge", OptionKind::repeated, "FILE",
     "YAML to lay over the knowledge base: newer releases, rules of a site"},
});

}  // namespace gpuwarden::cli
