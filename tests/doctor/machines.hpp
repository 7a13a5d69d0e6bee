// SPDX-License-Identifier: Apache-2.0
// A machine in which the doctor finds nothing, and the shape of the cases that make a check speak.
#pragma once

#include <span>
#include <string_view>

#include "gpuwarden/doctor/doctor.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::testing {

/// A server with four H100, everything installed and in order (its environment is set): no check says anything.
facts::Snapshot healthy_machine();

/// For one check: what makes it speak, alone, and what only nearly does. Both start from healthy_machine().
struct Case {
  std::string_view id;
  void (*sick)(facts::Snapshot&);
  void (*near_miss)(facts::Snapshot&);
  /// A part of the finding's title.
  std::string_view says;
  /// What the machine is to be good for (doctor --for); empty: nothing special.
  std::string_view purpose = "";
};

/// Runs the cases: each sick machine has exactly one finding, of that id; each near miss has none. Also holds that
/// every finding of a warning and above has a fix, and that ids and titles have no control characters.
void expect_cases(std::span<const Case> cases);

}  // namespace gpuwarden::testing
