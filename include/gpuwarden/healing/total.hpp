// SPDX-License-Identifier: Apache-2.0
// What all tries of a job make together: a report is of the last one alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "gpuwarden/launch/report.hpp"

namespace gpuwarden::healing {

struct Total {
  std::uint32_t tries = 0;                 ///< those whose ranks were started
  std::chrono::milliseconds wall_time{0};  ///< from the first one's start to the last one's end, pauses included
  std::chrono::milliseconds run_time{0};   ///< of it, while ranks ran
  std::optional<double> energy_joules;     ///< of all GPUs, as far as it is known
  bool energy_is_estimate = false;         ///< also where it is not known of a GPU in one of the tries
};

/// One try more, which ended so long after the first one's start.
void add(Total& total, const launch::RunReport& report, std::chrono::milliseconds since_start);

}  // namespace gpuwarden::healing
