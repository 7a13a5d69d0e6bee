// SPDX-License-Identifier: Apache-2.0
// A plan as other tools start it: command lines, and the files that they read. Pure texts; nothing is written or run.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/planning/answer.hpp"
#include "gpuwarden/planning/settings.hpp"

namespace gpuwarden::planning {

/// What is to be started.
struct Launch {
  Settings settings;
  std::string program = "train.py";  ///< the training script, as the shell shall see it
  std::string job_name = "train";
  std::uint32_t gpus_per_node = 8;  ///< at most; a job of fewer GPUs takes one node, as all do where it is 0
  std::uint32_t cpus_per_gpu = 0;   ///< 0: not known, 4 are asked for
  bool ampere = true;               ///< compute capability 8.0 or more: bf16 and flash attention's kernels
  Bytes host_memory_per_node{};     ///< that offloading and loading need; 0: the scheduler's default
  std::optional<std::chrono::hours> time;
  std::vector<std::string> adapter_modules;  ///< beside which adapters stand, as the model names them (LoRA)
  bool operator==(const Launch&) const = default;
};

/// What starts a plan's recommended strategy; adapters stand beside the modules that are usual for the model.
Launch launch_of(const PlanAnswer& answer);

enum class LaunchFormat { torchrun, accelerate, deepspeed, slurm };
std::string_view to_string(LaunchFormat format);
std::optional<LaunchFormat> launch_format_from(std::string_view name);

/// How many nodes the job takes, and how many GPUs each.
struct Nodes {
  std::uint32_t nodes = 1;
  std::uint32_t gpus = 1;  ///< of each
  bool operator==(const Nodes&) const = default;
};
/// Fails with invalid_argument where the GPUs do not fill whole nodes.
Result<Nodes> nodes_of(const Launch& launch);

// All of them fail with unsatisfied on a plan that trains nothing. They say in comments, or in fields where their
// format has some, what the training program itself has to set: how the GPUs share the work, with every degree, what is
// offloaded, micro-batch, accumulation, optimizer, recomputation, attention, loss and adapters. Where a GPU has no
// bf16, 16 bit are fp16.

/// The `gpuwarden run` and torchrun command lines of one node; of several, with shell variables for what differs
/// (NODE_RANK, MASTER_ADDR). Source: torchrun's manual (torch.distributed.run). Fails as nodes_of() does.
Result<std::string> torchrun_commands(const Launch& launch);
/// A YAML for `accelerate launch --config_file`. Source: accelerate's ClusterConfig and its FSDP and DeepSpeed guides.
/// Fails with unsatisfied on tensor, pipeline and context parallelism, which that file does not set, and on
/// weights stored in fp16 (16 bit of a GPU without bf16) that are all trained without DeepSpeed: its scaling of the
/// loss wants fp32 ones; and as nodes_of() does.
Result<std::string> accelerate_config(const Launch& launch);
/// A JSON for deepspeed.initialize: ZeRO of the plan's stage. Source: DeepSpeed's configuration manual
/// (config-json). Fails with unsatisfied where accelerate_config does, and on plans of DDP and FSDP, whose memory
/// differs: DeepSpeed keeps fp32 masters.
Result<std::string> deepspeed_config(const Launch& launch);
/// A batch script for sbatch that starts torchrun on every node. Source: sbatch's manual. Fails as nodes_of() does.
Result<std::string> slurm_script(const Launch& launch);

/// The text of this format, by the function above that makes it; fails as that does.
Result<std::string> emit(const Launch& launch, LaunchFormat format);

}  // namespace gpuwarden::planning
