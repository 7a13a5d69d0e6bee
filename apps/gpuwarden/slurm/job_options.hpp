// SPDX-License-Identifier: Apache-2.0
// What `run --slurm` and `slurm script` and `shell` ask of a cluster; names as sbatch has them.
#pragma once

#include "command.hpp"

namespace gpuwarden::cli {

inline constexpr auto kSlurmJobOptions = std::to_array<Option>({
    {"--nodes", OptionKind::text, "N", "how many nodes (1)"},
    {"--gpus-per-node", OptionKind::text, "N", "GPUs of each node (1, or one for each of --nproc-per-node N)"},
    {"--gpu-type", OptionKind::text, "TYPE", "of this type, as the cluster names it: h100"},
    {"--cpus-per-task", OptionKind::text, "N", "CPUs of each node (its GPUs' share)"},
    {"--mem", OptionKind::text, "SIZE", "host memory of each node (the cluster's default)"},
    {"--time", OptionKind::text, "TIME", "time limit: 90 (minutes), 2:00:00, 1-12, 2h (the partition's)"},
    {"--partition", OptionKind::text, "NAME", "the partition (Slurm's default, else the first that has such nodes)"},
    {"--account", OptionKind::text, "NAME", "the account that pays"},
    {"--qos", OptionKind::text, "NAME", "the quality of service"},
    {"--constraint", OptionKind::text, "FEATURES", "nodes with these features"},
    {"--reservation", OptionKind::text, "NAME", "within this reservation"},
    {"--nodelist", OptionKind::text, "NODES", "these nodes"},
    {"--exclude-nodes", OptionKind::list, "NODES...", "never these nodes"},
    {"--job-name", OptionKind::text, "NAME", "the job's name (the command's)"},
});

inline constexpr auto kSlurmRunOptions = std::to_array<Option>({
    {"--slurm", OptionKind::flag, "", "run it as a job of Slurm, once on every node"},
    {"--dry-run", OptionKind::flag, "", "with --slurm: print the batch script, and submit nothing"},
    {"--no-follow", OptionKind::flag, "", "with --slurm: print the job's number, and do not wait for it"},
    {"--drain", OptionKind::text, "WHICH",
     "nodes whose GPU fails: auto (real ones, where permitted), always (simulated ones too), never",
     "auto always never"},
});

}  // namespace gpuwarden::cli
