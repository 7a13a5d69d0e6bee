// SPDX-License-Identifier: Apache-2.0
// Judges ask kinds: what a probe says in words may be worded anew at any time, and no check changes its mind.
#include "doctor/machines.hpp"

namespace gpuwarden::testing {
namespace {

using facts::Snapshot;

/// Every sentence of ours in the facts, replaced by one that means nothing, or by one that means something else.
void reword(Snapshot& machine, const std::string& words) {
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

TEST(Wording, OfProbesChangesNoCheck) {
  for (const auto cases : {driver_cases(), device_cases(), health_cases(), multi_gpu_cases(), container_cases(),
                           system_cases(), library_cases()}) {
    for (const Case& one : cases) {
      for (auto* const change : {one.sick, one.near_miss}) {
        Snapshot machine = healthy_machine();
        change(machine);
        const std::string before = found_in(machine, one.purpose);
        for (const char* words : {"xyzzy", "mismatch", "did not answer", "Unknown Error", "Permission denied",
                                  "Operation not permitted", "crashed", "no driver loaded"}) {
          reword(machine, words);
          EXPECT_EQ(found_in(machine, one.purpose), before) << one.id << " with '" << words << "'";
        }
      }
    }
  }
}

}  // namespace
}  // namespace gpuwarden::testing
