// SPDX-License-Identifier: Apache-2.0
// The same question to every node of a partition, at once: one step of srun with a task on each.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/slurm/site.hpp"

namespace gpuwarden::slurm {

/// What a node said, or why it did not.
struct NodeAnswer {
  std::string node;
  std::string output;   ///< empty where it said nothing
  std::string problem;  ///< why it could not be asked, or its own complaint; empty where all is well
  bool operator==(const NodeAnswer&) const = default;
};

/// A step that can be started at once, and the nodes that it leaves out.
struct SurveyStep {
  std::vector<std::string> argv;
  std::vector<std::string> nodes;
};
struct SurveyPlan {
  std::vector<SurveyStep> steps;
  std::vector<NodeAnswer> left_out;  ///< with the reason
};
/// Which nodes can be asked now: those that take jobs and have a CPU left. Where jobs see their own GPUs alone, a node
/// is asked with all of its GPUs, so that only one that nobody uses can be. `command` is run by sh, on each node. Pure.
SurveyPlan plan_survey(const Site& site, const std::string& partition, const std::vector<std::string>& command);

/// The lines of each task of `srun --label`, by its number.
std::map<std::uint32_t, std::string> parse_labelled(std::string_view text);

/// Asks them all; a node that was left out or is silent has a problem. Sorted by node.
std::vector<NodeAnswer> survey(Programs& programs, const SurveyPlan& plan);

}  // namespace gpuwarden::slurm
