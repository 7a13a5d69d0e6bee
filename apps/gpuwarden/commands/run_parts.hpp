// SPDX-License-Identifier: Apache-2.0
// What `run` works out before it takes any GPU, so that wrong input costs nothing.
#pragma once

#include "gpuwarden/launch/job.hpp"
#include "gpuwarden/placement/select.hpp"
#include "options.hpp"

namespace gpuwarden::cli {

/// What a job pretends to use on a simulated fleet.
struct SimulatedLoad {
  Bytes memory = 1_GiB;
  Percent utilization = 60_pct;
};
/// "memory=20GiB,util=80".
Result<SimulatedLoad> parse_load(const std::string& text);

struct RunPlan {
  launch::JobSpec job;
  std::optional<std::uint32_t> ranks;  ///< empty with rank_per_gpu
  bool rank_per_gpu = false;
  std::chrono::milliseconds sample_period = std::chrono::seconds(1);
  SimulatedLoad load;
  std::string model;  ///< the configuration's model_name_or_path
};

/// Reads run's own options and the configuration.
Result<RunPlan> plan_run(Context& context, Selection& selection);
/// Sets the number of ranks and how devices are handed to them.
void resolve_ranks(const RunPlan& plan, const placement::Decision& decision, launch::JobSpec& spec);
/// 0, or 127 / 126 after saying that the program does not exist or cannot be executed.
int check_program(const std::string& program, const Environment& environment);

}  // namespace gpuwarden::cli
