// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/healing/total.hpp"

namespace gpuwarden::healing {

void add(Total& total, const launch::RunReport& report, std::chrono::milliseconds since_start) {
  ++total.tries;
  total.wall_time = since_start;
  total.run_time += report.end.wall_time;
  for (const launch::GpuReport& gpu : report.gpus) {
    if (gpu.energy_joules) total.energy_joules = total.energy_joules.value_or(0) + *gpu.energy_joules;
    total.energy_is_estimate = total.energy_is_estimate || gpu.energy_is_estimate || !gpu.energy_joules;
  }
}

}  // namespace gpuwarden::healing
