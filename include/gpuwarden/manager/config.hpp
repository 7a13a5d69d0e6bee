// SPDX-License-Identifier: Apache-2.0
// What a GpuManager is asked for: the keys of its configuration, each with its range.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::manager {

/// How memory is pooled; each is the memory::Strategy of that name.
enum class AllocationStrategy { greedy, balanced, consolidated, fragmentation_aware, steady };
std::string_view to_string(AllocationStrategy strategy);
std::optional<AllocationStrategy> allocation_strategy_from(std::string_view name);

/// How much is done to a model to make it faster (optimization.hpp says what).
enum class OptimizationLevel { none, basic, aggressive, experimental };
std::string_view to_string(OptimizationLevel level);
std::optional<OptimizationLevel> optimization_level_from(std::string_view name);

/// In what numbers a model computes; `mixed` chooses by operation (autocast).
enum class ModelPrecision { fp32, fp16, bf16, int8, mixed };
std::string_view to_string(ModelPrecision precision);
std::optional<ModelPrecision> model_precision_from(std::string_view name);

/// The configuration of a GpuManager. Ranges: config_keys().
struct GpuConfig {
  /// GPUs that are managed, by NVML's index; empty: every visible one.
  std::optional<std::vector<std::uint32_t>> device_ids;
  /// Share of a GPU's memory that may be taken; empty: all of it.
  std::optional<double> memory_fraction;
  OptimizationLevel optimization_level = OptimizationLevel::basic;
  ModelPrecision precision = ModelPrecision::mixed;
  bool enable_amp = true;            ///< without it `mixed` computes in fp32
  bool enable_compile = true;        ///< models may be compiled, from OptimizationLevel::aggressive on
  bool enable_channels_last = true;  ///< convolutions may get that memory layout
  bool enable_memory_pooling = true;
  bool enable_monitoring = true;
  AllocationStrategy allocation_strategy = AllocationStrategy::balanced;
  /// Share of the memory limit that may lie idle in a pool; more goes back to the device.
  double max_memory_cache_ratio = 0.8;
  bool enable_profiling = false;  ///< operations are measured and kept
  std::string distributed_backend = "nccl";
  bool enable_distributed = false;  ///< initialise() sets distributed work up

  bool operator==(const GpuConfig&) const = default;
};

/// A key as people are told of it.
struct ConfigKey {
  std::string_view name;
  std::string_view range;  ///< "above 0, at most 1"
  bool operator==(const ConfigKey&) const = default;
};
/// The keys of GpuConfig in their order.
std::vector<ConfigKey> config_keys();

/// Fails with invalid_argument for the first key that is out of its range, naming both.
Result<void> validate(const GpuConfig& config);
nlohmann::json to_json(const GpuConfig& config);
/// Keys that are missing or null are as usual. Fails with invalid_argument for an unknown key (with the nearest) and as
/// validate() does.
Result<GpuConfig> gpu_config_from_json(const nlohmann::json& json);

}  // namespace gpuwarden::manager
