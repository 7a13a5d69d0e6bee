// SPDX-License-Identifier: Apache-2.0
// What `gpuwarden plan` was asked: the model, the GPUs and the settings behind its options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "command.hpp"
#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/planning/calibrate.hpp"
#include "gpuwarden/planning/gpus.hpp"
#include "gpuwarden/planning/model.hpp"
#include "gpuwarden/planning/settings.hpp"

namespace gpuwarden::cli {

struct PlanRequest {
  planning::ModelShape model;
  planning::Settings settings;
  planning::GpuGroup gpus;
  bool simulated = false;  ///< the GPUs are a simulated fleet's
  std::string gpus_from;   ///< "--gpus", "this machine", a capture's name
  std::uint32_t cpus = 0;  ///< of a node; 0: not known
  std::uint32_t gpus_per_node = 8;
  bool strategy_given = false;  ///< how the GPUs share the work was said; nothing is searched
  bool micro_batch_given = false;
  bool recompute_given = false;
  std::optional<std::uint32_t> global_batch;
  std::optional<double> train_tokens;
  std::optional<double> mfu;                     ///< 0 to 1, stated
  std::vector<planning::MeasuredPeak> measured;  ///< of --calibrate
  double serving_utilization = 0.9;
};

/// Model, GPUs and settings. Fails with what is wrong with which option; reads the config.json, and the machine only
/// where no --gpus are named.
Result<PlanRequest> read_plan_request(Context& context);

/// The model of the operand (a config.json, its folder, a catalogue name) or of --params.
Result<planning::ModelShape> read_plan_model(const Args& args);
/// --task, --precision ... of the options.
Result<planning::Settings> read_plan_settings(const Args& args, const planning::ModelShape& model);

}  // namespace gpuwarden::cli
