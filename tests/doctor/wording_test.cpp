// SPDX-License-Identifier: Apache-2.0
// Judges ask kinds: what a probe says in words may be worded anew at any time, and no check changes its mind.
#include "doctor/machines.hpp"
#include "support/reword.hpp"

namespace gpuwarden::testing {
namespace {

using facts::Snapshot;

TEST(Wording, OfProbesChangesNoCheck) {
  for (const auto cases : {driver_cases(), device_cases(), health_cases(), multi_gpu_cases(), container_cases(),
                           system_cases(), library_cases()}) {
    for (const Case& one : cases) {
      for (auto* const change : {one.sick, one.near_miss}) {
        Snapshot machine = healthy_machine();
        change(machine);
        const std::string before = found_in(machine, one.purpose);
        for (const std::string_view words : kOtherWords) {
          reword(machine, words);
          EXPECT_EQ(found_in(machine, one.purpose), before) << one.id << " with '" << words << "'";
        }
      }
    }
  }
}

}  // namespace
}  // namespace gpuwarden::testing
