// SPDX-License-Identifier: Apache-2.0
// What the doctor looks at: a machine, and what messages in the texts of --from say of it.
#pragma once

#include <vector>

#include "gpuwarden/doctor/doctor.hpp"
#include "machine.hpp"

namespace gpuwarden::cli {

struct Patient {
  Machine machine;
  std::vector<doctor::ToldFinding> told;
};

/// The machine that the options name. Of the texts of --from the facts are read, where there are any, and the messages
/// are diagnosed: a text may be a log alone. Fails as read_captures where one tells neither.
Result<Patient> read_patient(const Context& context);

}  // namespace gpuwarden::cli
