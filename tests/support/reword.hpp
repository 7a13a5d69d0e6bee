// SPDX-License-Identifier: Apache-2.0
// Judges ask kinds, never sentences: facts with everything worded anew that a probe says in words of its own.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::testing {

/// Words that mean nothing, and such that mean something else.
inline constexpr auto kOtherWords = std::to_array<std::string_view>(
    {"xyzzy", "mismatch", "did not answer", "Unknown Error", "Permission denied", "Operation not permitted", "crashed",
     "no driver loaded", "too hot (hardware)", "Xid 79: fell off the bus"});

/// Replaces every sentence of ours in the facts; what is empty stays so.
inline void reword(facts::Snapshot& machine, std::string_view words) {
  const auto change = [&](std::string& text) {
    if (!text.empty()) text = words;
  };
  if (machine.problem) change(machine.problem->message);
  if (machine.problem) change(machine.problem->hint);
  for (auto& gap : machine.gaps) change(gap.problem.message);
  for (auto& record : machine.gpus) {
    change(record.cause);
    change(record.next_step);
  }
  if (!machine.environment) return;
  for (auto& node : machine.environment->device_nodes) change(node.problem);
  for (auto& skipped : machine.environment->not_probed) change(skipped.reason);
}

}  // namespace gpuwarden::testing
