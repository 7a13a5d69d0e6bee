// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/manager/optimization.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

namespace gpuwarden::manager {
namespace {

using facts::ComputeCapability;

/// What a GPU must have for a type to be worth it.
struct TypeNeed {
  ModelPrecision precision;
  ComputeCapability least;
};
constexpr std::array<TypeNeed, 3> kNeeds{
    {{ModelPrecision::fp16, {7, 0}}, {ModelPrecision::int8, {7, 5}}, {ModelPrecision::bf16, {8, 0}}}};

/// A level's steps.
struct LevelRow {
  OptimizationLevel level;
  bool prepare;  ///< inference mode, layout, types
  bool fuse;
  std::string_view compile_mode;
};
constexpr std::array<LevelRow, 4> kLevels{{{OptimizationLevel::none, false, false, ""},
                                           {OptimizationLevel::basic, true, false, ""},
                                           {OptimizationLevel::aggressive, true, true, "default"},
                                           {OptimizationLevel::experimental, true, true, "max-autotune"}}};

using Gpu = std::optional<ComputeCapability>;

bool has(const Gpu& gpu, ModelPrecision precision) {
  // A CPU computes in bf16 and int8; fp16 it only emulates.
  if (!gpu) return precision != ModelPrecision::fp16;
  for (const TypeNeed& need : kNeeds) {
    if (need.precision == precision) return *gpu >= need.least;
  }
  return true;
}

void set_mixed(const GpuConfig& config, const Gpu& gpu, OptimizationPlan& plan) {
  plan.precision = ModelPrecision::fp32;
  if (!config.enable_amp) {
    plan.notes.emplace_back("mixed precision is off: enable_amp is false");
    return;
  }
  const bool bf16 = has(gpu, ModelPrecision::bf16);
  if (!bf16 && !has(gpu, ModelPrecision::fp16)) {
    plan.notes.push_back(fmt::format(
        "mixed precision needs compute capability 7.0, the GPU has {}.{}: computed in fp32", gpu->major, gpu->minor));
    return;
  }
  plan.precision = ModelPrecision::mixed;
  plan.autocast = bf16 ? "bfloat16" : "float16";
}

void set_precision(const GpuConfig& config, const Gpu& gpu, OptimizationPlan& plan) {
  if (config.precision == ModelPrecision::mixed) return set_mixed(config, gpu, plan);
  plan.precision = config.precision;
  if (has(gpu, config.precision)) return;
  plan.precision = ModelPrecision::fp32;
  const std::string device = gpu ? fmt::format("a GPU of compute capability {}.{}", gpu->major, gpu->minor) : "the CPU";
  plan.notes.push_back(fmt::format("{} has no fast {}: computed in fp32", device, to_string(config.precision)));
}

}  // namespace

nlohmann::json to_json(const OptimizationPlan& plan) {
  nlohmann::json json{{"level", to_string(plan.level)},
                      {"precision", to_string(plan.precision)},
                      {"inference_mode", plan.inference_mode},
                      {"channels_last", plan.channels_last},
                      {"fuse", plan.fuse},
                      {"compile", plan.compile},
                      {"notes", plan.notes}};
  json["autocast"] = plan.autocast.empty() ? nlohmann::json() : nlohmann::json(plan.autocast);
  json["compile_mode"] = plan.compile_mode.empty() ? nlohmann::json() : nlohmann::json(plan.compile_mode);
  return json;
}

OptimizationPlan plan_optimization(const GpuConfig& config, const std::optional<facts::ComputeCapability>& gpu) {
  const LevelRow& row = kLevels.at(static_cast<std::size_t>(config.optimization_level));
  OptimizationPlan plan;
  plan.level = row.level;
  if (!row.prepare) return plan;
  plan.inference_mode = true;
  plan.channels_last = config.enable_channels_last;
  plan.fuse = row.fuse;
  plan.compile = !row.compile_mode.empty() && config.enable_compile;
  if (plan.compile) plan.compile_mode = row.compile_mode;
  if (!row.compile_mode.empty() && !config.enable_compile)
    plan.notes.emplace_back("not compiled: enable_compile is false");
  set_precision(config, gpu, plan);
  return plan;
}

}  // namespace gpuwarden::manager
