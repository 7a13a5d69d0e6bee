// SPDX-License-Identifier: Apache-2.0
// What findings propose to do, as commands: which of them may run unasked, all of them as a script, and their running.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/doctor/doctor.hpp"

namespace gpuwarden::doctor {

/// Whether a step stops work, restarts the machine or destroys something: whoever runs it is to decide on it.
bool is_drastic(std::string_view step);

/// A command of a finding.
struct Fix {
  std::string finding;  ///< id of its check
  std::string command;
  bool operator==(const Fix&) const = default;
};

/// The commands that undo easily and stop no work, worst finding first.
std::vector<Fix> safe_fixes(const Examination& examination);

/// The commands of all findings, worst first, to be read before they are run: advice and drastic steps are comments.
std::string fix_script(const Examination& examination);

enum class FixState { declined, done, failed };

struct FixOutcome {
  Fix fix;
  FixState state = FixState::declined;
  std::string problem;  ///< of one that failed: what it wrote to standard error, or why it could not run
};

/// How fixes are carried out.
struct FixRun {
  std::function<bool(const Fix&)> agree;                         ///< false: it is left out
  std::function<Result<Completed>(const Command&)> run;          ///< run_command, or a test's stand-in
  std::function<void(const FixOutcome&)> told = {};              ///< of each, as soon as it is known
  std::chrono::milliseconds deadline = std::chrono::minutes(5);  ///< for each
};

/// Runs the fixes one after another in a shell; one that fails does not keep the others from running.
std::vector<FixOutcome> apply_fixes(const std::vector<Fix>& fixes, const FixRun& how);

}  // namespace gpuwarden::doctor
