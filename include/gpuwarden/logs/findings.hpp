// SPDX-License-Identifier: Apache-2.0
// What a diagnosis says, in the doctor's words: so that one answer can hold what facts and messages of one text tell.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/diagnosis/diagnosis.hpp"
#include "gpuwarden/doctor/doctor.hpp"

namespace gpuwarden::logs {

/// The causes as findings "diagnose:CAUSE", likeliest first, each with the checks that say the same of facts. Sure ones
/// are errors (of the driver and the hardware critical), doubtful ones warnings; guesses are left out.
std::vector<doctor::ToldFinding> findings_of(const diagnosis::Diagnosis& diagnosis);

/// How bad a cause of the diagnosis is in the doctor's words: what ranks it among findings of facts. A guess is of no
/// weight (info).
doctor::Severity severity_of(const diagnosis::Diagnosis& diagnosis, const diagnosis::Cause& cause);
/// The checks that say of facts, or of the same line, what a cause says.
std::vector<std::string> checks_like(std::string_view cause);

}  // namespace gpuwarden::logs
