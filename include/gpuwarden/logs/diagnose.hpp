// SPDX-License-Identifier: Apache-2.0
// From files, folders of logs and archives to the cause of a failure, in one call:
//
//   const auto report = logs::diagnose({"run/logs"});
//   for (const auto& cause : report.diagnosis.causes) std::cout << cause.title << '\n';
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/diagnosis/diagnosis.hpp"
#include "gpuwarden/doctor/finding.hpp"
#include "gpuwarden/logs/read.hpp"

namespace gpuwarden::knowledge {
class Knowledge;
}

namespace gpuwarden::logs {

/// Causes of less weight (diagnosis::weight_among) are a guess on the threshold of what is said at all, and no alarm.
/// As the first cause's confidence it is 0.6.
inline constexpr double kLeastWeight = 0.3;

struct Options {
  /// The machine on which it happened, where its facts are known; else only the logs tell of theirs.
  const facts::Snapshot* machine = nullptr;
  /// Causes that are less sure are left out; empty: those below kLeastWeight.
  std::optional<double> min_confidence = std::nullopt;
  /// Where it is given, the doctor judges the environment that the same text tells of.
  const knowledge::Knowledge* knowledge = nullptr;
};

/// One answer among all: a cause, or a finding about the environment, by its place in the report's list of them.
struct Answer {
  bool is_cause = true;
  std::size_t index = 0;
};

/// What was read, and what was concluded from it.
struct Report {
  Logs logs;
  diagnosis::Diagnosis diagnosis;
  /// What the doctor finds wrong (errors and worse) with the environment in the text, beyond what the causes say. Where
  /// one says the same, the cause has its commands, which are for that machine.
  std::vector<doctor::Finding> environment;
  /// Causes and findings as one list, root first: a dead driver stands before the failure that follows from it.
  std::vector<Answer> answers;
  std::string machine;       ///< whose facts were looked at beside the logs: "SIMULATED h100x8"; empty: nobody's
  bool simulated = false;    ///< that machine is
  std::size_t doubtful = 0;  ///< causes that were left out: less sure than min_confidence, or guesses
};

/// Diagnoses files, folders, archives and gpuwarden's bundles; "-" is standard input. What could not be read stands in
/// logs.problems, and the rest is diagnosed all the same.
Report diagnose(const std::vector<std::string>& paths, const Options& options = {});

/// The report of a diagnosis that was made before: nothing is known but its causes.
Report report_of(diagnosis::Diagnosis diagnosis);

/// Whether anything is wrong: a cause, consequences of one that is not visible, or a finding.
bool shows_failure(const Report& report);

/// How sure a cause must be: from 0 to 1. Fails with invalid_argument.
Result<double> parse_confidence(std::string_view text);

/// The diagnosis as `gpuwarden diagnose --json` prints it (docs/json.md).
nlohmann::json to_json(const Report& report);

}  // namespace gpuwarden::logs
