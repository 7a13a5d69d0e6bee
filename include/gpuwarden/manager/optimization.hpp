// SPDX-License-Identifier: Apache-2.0
// What may be done to a model on a device: the configuration's level and precision, as far as the device has them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/facts/gpu.hpp"
#include "gpuwarden/manager/config.hpp"

namespace gpuwarden::manager {

/// What an optimiser is to try; each step it keeps only where it helps.
struct OptimizationPlan {
  OptimizationLevel level = OptimizationLevel::none;
  ModelPrecision precision = ModelPrecision::fp32;  ///< that the device computes in
  std::string autocast;                             ///< "bfloat16", "float16"; empty: no autocast
  bool inference_mode = false;                      ///< eval() and no gradients
  bool channels_last = false;
  bool fuse = false;  ///< convolutions with their normalisation, kernels by the compiler
  bool compile = false;
  std::string compile_mode;        ///< of torch.compile; empty: not compiled
  std::vector<std::string> notes;  ///< what was asked for and is not done, and why: a sentence each
};
nlohmann::json to_json(const OptimizationPlan& plan);

/// `gpu` is empty for the CPU. Needed compute capabilities are those of tensor cores for the type: 7.0 for fp16, 7.5
/// for int8, 8.0 for bf16 (CUDA programming guide, "Tensor core input types"). Pure.
OptimizationPlan plan_optimization(const GpuConfig& config, const std::optional<facts::ComputeCapability>& gpu);

}  // namespace gpuwarden::manager
