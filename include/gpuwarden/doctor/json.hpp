// SPDX-License-Identifier: Apache-2.0
// The doctor's answers as JSON (docs/json.md): a contract, keys are added and never renamed.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "gpuwarden/doctor/compare.hpp"
#include "gpuwarden/doctor/doctor.hpp"

namespace gpuwarden::doctor {

nlohmann::json to_json(const Finding& finding);
nlohmann::json to_json(const Examination& examination, bool simulated);
nlohmann::json to_json(const Comparison& comparison);

/// A verdict, and of what it is.
struct MachineReport {
  const Examination& examination;
  const facts::Snapshot& snapshot;
  const Purpose& purpose;
  const facts::BurnInRun* burn_in = nullptr;
};
/// As `gpuwarden doctor --json` prints it.
nlohmann::json to_json(const MachineReport& report);

/// The examination as a JUnit report: a suite for each area, a case for each check; a case fails where a finding is at
/// least `fail_on`.
std::string to_junit(const Examination& examination, Severity fail_on);

}  // namespace gpuwarden::doctor
