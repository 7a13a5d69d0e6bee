// SPDX-License-Identifier: Apache-2.0
// The YAML configuration as GPU users write it (--config FILE). Text in, values out; no file is read here.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/placement/request.hpp"

namespace gpuwarden::placement {

/// `distributed:`
struct DistributedConfig {
  std::optional<bool> enabled;
  std::optional<std::uint32_t> num_gpus;
  std::vector<GpuName> gpu_ids;
  std::optional<std::string> strategy;  ///< ddp | fsdp | single
  std::optional<std::string>
      fsdp_sharding_strategy;  ///< FULL_SHARD | SHARD_GRAD_OP | NO_SHARD | HYBRID_SHARD | HYBRID_SHARD_ZERO2
  std::optional<bool> fsdp_cpu_offload;
  std::optional<std::string> backend;  ///< nccl | gloo
  std::optional<std::string> master_addr;
  std::optional<std::uint16_t> master_port;
  std::optional<std::uint32_t> nnodes;
  std::optional<std::uint32_t> node_rank;
  bool operator==(const DistributedConfig&) const = default;
};

/// `model:`
struct ModelConfig {
  std::optional<std::string> model_name_or_path;
  std::optional<std::string> device_map;   ///< auto | cpu | cuda | balanced | sequential ...
  std::optional<std::string> torch_dtype;  ///< auto | float32 | float16 | bfloat16
  bool operator==(const ModelConfig&) const = default;
};

/// The whole file. `selection` and `run` hold the flags of those commands by their long names without dashes
/// ("min-free-memory" or "min_free_memory"); values as text, lists as several; they are checked by the command line's
/// own option table.
struct JobConfig {
  std::optional<std::string> experiment_name;
  std::optional<std::string> device;  ///< "cpu" | "cuda"
  DistributedConfig distributed;
  ModelConfig model;
  std::map<std::string, std::vector<std::string>> selection;
  std::map<std::string, std::vector<std::string>> run;
  /// What the file has besides, which is left to the job's own program: a sentence each.
  std::vector<std::string> notes;
  bool operator==(const JobConfig&) const = default;
};

/// Which option names `selection:` and `run:` may hold.
struct KnownOptions {
  std::vector<std::string> selection;
  std::vector<std::string> run;
};

/// Parses the text; `name` (the file's) stands in errors as "name:line:column: …". Unknown keys, wrong types, values
/// out of range, contradictions (num_gpus and as many gpu_ids as it does not say), tabs, cycles, duplicate keys and
/// more than one document fail with invalid_argument. Sections besides those known here are the job's program's own and
/// are noted, unless their name is nearly a known one; with `tool: ignore-unknown` every unknown key is.
Result<JobConfig> parse_job_config(std::string_view yaml, std::string_view name, const KnownOptions& known);

/// The environment variables through which strategy, sharding, offload, precision and names reach a job: what
/// torchrun and accelerate programs read (ACCELERATE_*, FSDP_*; source: accelerate's launch utilities), and
/// GPUWARDEN_*.
Environment job_environment(const JobConfig& config);

/// What the configuration asks of the selector.
Request request_from(const JobConfig& config);

/// The options of the planner that the configuration's other sections stand for, where `given` (options by their long
/// names, of which model, model-size and task are looked at) names a model: its strategy and offloading where that is
/// trained, and the type of its weights.
std::map<std::string, std::vector<std::string>> model_options(
    const JobConfig& config, const std::map<std::string, std::vector<std::string>>& given);

}  // namespace gpuwarden::placement
