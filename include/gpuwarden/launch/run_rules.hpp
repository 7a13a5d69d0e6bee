// SPDX-License-Identifier: Apache-2.0
// A site's rules on what a job did with its GPUs: asked for more than it used, filled the memory, starved them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/knowledge/site_rules.hpp"
#include "gpuwarden/launch/report.hpp"

namespace gpuwarden::launch {

/// What the report itself does not tell.
struct RunSurroundings {
  std::string workload;  ///< what a rule's `workload` is looked for in: the command, the model's name
  std::optional<knowledge::Version> driver;
  std::optional<double> cpu_percent;  ///< of all CPUs' time while the job ran
};

/// What the rules say, each sentence once. A GPU was used if it worked for half a percent of the time at least; where
/// one GPU's utilization is not known, nobody is told that GPUs were not used.
std::vector<SiteFinding> judge_run(const RunReport& report, std::span<const knowledge::SiteRule> rules,
                                   const RunSurroundings& surroundings);

/// How busy all CPUs were between two readings of /proc/stat, in percent; empty where one of them is none, or no time
/// passed.
std::optional<double> busy_percent(std::string_view before, std::string_view after);

}  // namespace gpuwarden::launch
