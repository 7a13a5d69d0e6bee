// SPDX-License-Identifier: Apache-2.0
// What a diagnosis says, in the doctor's words: so that one answer can hold what facts and messages of one text tell.
#pragma once

#include <vector>

#include "gpuwarden/diagnosis/diagnosis.hpp"
#include "gpuwarden/doctor/doctor.hpp"

namespace gpuwarden::logs {

/// The causes as findings "diagnose:CAUSE", likeliest first, each with the checks that say the same of facts. Sure ones
/// are errors (of the driver and the hardware critical), doubtful ones warnings; guesses are left out.
std::vector<doctor::ToldFinding> findings_of(const diagnosis::Diagnosis& diagnosis);

}  // namespace gpuwarden::logs
