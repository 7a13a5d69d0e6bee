// SPDX-License-Identifier: Apache-2.0
// Many machines judged by what each of them told, and compared with each other. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "gpuwarden/doctor/doctor.hpp"
#include "gpuwarden/doctor/outliers.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::doctor {

/// What a machine sent: a snapshot as JSON (gpuwarden snapshot), or why not.
struct MachineAnswer {
  std::string machine;
  std::string output;
  std::string problem;
};

/// What the machines are, those that could not be looked at, and how they compare.
struct Survey {
  std::vector<NamedMachine> machines;
  std::vector<Examination> examinations;  ///< of each of these
  std::vector<MachineAnswer> not_looked_at;
  std::vector<Outlier> outliers;
  /// Whether one has an error, stands apart, or was not looked at.
  bool is_bad() const;
};

Survey survey(std::vector<MachineAnswer> answers, const knowledge::Knowledge& knowledge);

/// {"nodes": [{"node", "simulated", "examination"}], "outliers", "not_looked_at": [{"node", "reason"}]}.
nlohmann::json to_json(const Survey& survey);

}  // namespace gpuwarden::doctor
