// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/manager/config.hpp"

#include <array>
#include <utility>

#include "manager/config_table.hpp"

namespace gpuwarden::manager {
namespace {

using Json = nlohmann::json;

/// Names of an enumeration's values, in their order.
template <class Enum, std::size_t N>
std::optional<Enum> value_named(const std::array<std::string_view, N>& names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

constexpr std::array<std::string_view, 5> kStrategyNames{"greedy", "balanced", "consolidated", "fragmentation_aware",
                                                         "steady"};
constexpr std::array<std::string_view, 4> kLevelNames{"none", "basic", "aggressive", "experimental"};
constexpr std::array<std::string_view, 5> kPrecisionNames{"fp32", "fp16", "bf16", "int8", "mixed"};
constexpr std::array<std::string_view, 2> kBackends{"nccl", "gloo"};

ConfigRow<GpuConfig> backend_row() {
  return {"distributed_backend", "nccl or gloo",
          [](const Json& value, GpuConfig& config) {
            if (!value.is_string()) return false;
            config.distributed_backend = to_lower(value.get<std::string>());
            return std::ranges::find(kBackends, config.distributed_backend) != kBackends.end();
          },
          [](const GpuConfig& config) { return Json(config.distributed_backend); }};
}

/// As a number_row of an optional, which json does not write by itself.
ConfigRow<GpuConfig> fraction_row() {
  return {"memory_fraction", "a number above 0, at most 1",
          [](const Json& value, GpuConfig& config) {
            if (!value.is_number() || !kShare.holds(value.get<double>())) return false;
            config.memory_fraction = value.get<double>();
            return true;
          },
          [](const GpuConfig& config) { return config.memory_fraction ? Json(*config.memory_fraction) : Json(); }};
}

const std::vector<ConfigRow<GpuConfig>>& gpu_rows() {
  using C = GpuConfig;
  static const std::vector<ConfigRow<C>> kRows{
      indices_row<C, &C::device_ids>("device_ids"),
      fraction_row(),
      name_row<C, &C::optimization_level, optimization_level_from>("optimization_level",
                                                                   "none, basic, aggressive or experimental"),
      name_row<C, &C::precision, model_precision_from>("precision", "fp32, fp16, bf16, int8 or mixed"),
      flag_row<C, &C::enable_amp>("enable_amp"),
      flag_row<C, &C::enable_compile>("enable_compile"),
      flag_row<C, &C::enable_channels_last>("enable_channels_last"),
      flag_row<C, &C::enable_memory_pooling>("enable_memory_pooling"),
      flag_row<C, &C::enable_monitoring>("enable_monitoring"),
      name_row<C, &C::allocation_strategy, allocation_strategy_from>(
          "allocation_strategy", "greedy, balanced, consolidated, fragmentation_aware or steady"),
      number_row<C, &C::max_memory_cache_ratio, NumberRange{0, 1, false}>("max_memory_cache_ratio",
                                                                          "a number from 0 to 1"),
      flag_row<C, &C::enable_profiling>("enable_profiling"),
      backend_row(),
      flag_row<C, &C::enable_distributed>("enable_distributed"),
  };
  return kRows;
}

}  // namespace

std::string_view to_string(AllocationStrategy strategy) { return kStrategyNames.at(std::to_underlying(strategy)); }
std::optional<AllocationStrategy> allocation_strategy_from(std::string_view name) {
  return value_named<AllocationStrategy>(kStrategyNames, name);
}

std::string_view to_string(OptimizationLevel level) { return kLevelNames.at(std::to_underlying(level)); }
std::optional<OptimizationLevel> optimization_level_from(std::string_view name) {
  return value_named<OptimizationLevel>(kLevelNames, name);
}

std::string_view to_string(ModelPrecision precision) { return kPrecisionNames.at(std::to_underlying(precision)); }
std::optional<ModelPrecision> model_precision_from(std::string_view name) {
  return value_named<ModelPrecision>(kPrecisionNames, name);
}

std::vector<ConfigKey> config_keys() {
  std::vector<ConfigKey> keys;
  for (const auto& row : gpu_rows()) keys.push_back({row.name, row.range});
  return keys;
}

nlohmann::json to_json(const GpuConfig& config) { return write_config(config, gpu_rows()); }

Result<GpuConfig> gpu_config_from_json(const nlohmann::json& json) { return read_config(json, gpu_rows()); }

Result<void> validate(const GpuConfig& config) {
  GPUWARDEN_CHECK(gpu_config_from_json(to_json(config)));
  return {};
}

}  // namespace gpuwarden::manager
