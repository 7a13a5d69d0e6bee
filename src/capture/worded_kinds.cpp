// SPDX-License-Identifier: Apache-2.0
#include "capture/worded_kinds.hpp"

#include <array>
#include <utility>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::capture {
namespace {

using facts::DeviceNode;
using ProblemKind = facts::DriverProblem::Kind;

constexpr auto kProblemWords = std::to_array<std::pair<std::string_view, ProblemKind>>({
    {"mismatch", ProblemKind::mismatch},
    {"different versions", ProblemKind::mismatch},
    {"did not answer", ProblemKind::timed_out},
    {"library crashed", ProblemKind::crashed},
    {"unknown error", ProblemKind::unknown_error},
    {"cannot be opened", ProblemKind::no_library},
    {"is not NVIDIA's management library", ProblemKind::wrong_library},
    {"driver is not loaded", ProblemKind::not_loaded},
    {"no permission", ProblemKind::no_permission},
});

void supply(facts::DriverProblem& problem) {
  if (problem.kind != ProblemKind::other) return;
  for (const auto& [words, kind] : kProblemWords) {
    if (!contains_ignoring_case(problem.message, words)) continue;
    problem.kind = kind;
    return;
  }
}

void supply(DeviceNode& node) {
  if (node.refusal || node.openable != false) return;
  node.refusal = node.problem.starts_with("Permission denied")         ? DeviceNode::Refusal::file_mode
                 : node.problem.starts_with("Operation not permitted") ? DeviceNode::Refusal::cgroup
                                                                       : DeviceNode::Refusal::other;
}

}  // namespace

void supply_kinds(facts::Snapshot& snapshot) {
  if (snapshot.problem) supply(*snapshot.problem);
  if (!snapshot.environment) return;
  for (DeviceNode& node : snapshot.environment->device_nodes) supply(node);
}

}  // namespace gpuwarden::capture
