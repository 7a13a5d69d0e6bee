// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/doctor/fixes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::doctor {
namespace {

FixOutcome outcome_of(const Fix& fix, const FixRun& how) {
  if (how.agree && !how.agree(fix)) return {fix, FixState::declined, ""};
  const auto done = how.run({.argv = {"sh", "-c", fix.command}, .deadline = how.deadline});
  if (!done) return {fix, FixState::failed, done.error().message};
  if (done->exit_code == 0) return {fix, FixState::done, ""};
  if (done->timed_out)
    return {
        fix, FixState::failed,
        fmt::format("timed out after {} s", std::chrono::duration_cast<std::chrono::seconds>(how.deadline).count())};
  return {fix, FixState::failed, std::string(trim(done->standard_error))};
}

}  // namespace

bool is_drastic(std::string_view step) {
  constexpr auto kDrastic = std::to_array<std::string_view>({"reboot", "--gpu-reset", "kill ", "rmmod ", "rm -"});
  return std::ranges::any_of(kDrastic, [&](std::string_view word) { return step.contains(word); });
}

std::vector<Fix> safe_fixes(const Examination& examination) {
  std::vector<Fix> fixes;
  for (const Finding& finding : examination.findings) {
    if (!finding.safe) continue;
    for (const std::string& step : finding.fix) {
      if (is_command(step) && !is_drastic(step)) fixes.push_back({finding.id, step});
    }
  }
  return fixes;
}

std::string fix_script(const Examination& examination) {
  std::string text =
      "#!/bin/sh\n# What gpuwarden doctor proposes, worst first. Read it before you run it.\n"
      "# Advice, and what stops work or restarts the machine, stands in comments.\n";
  for (const Finding& finding : examination.findings) {
    if (finding.fix.empty()) continue;
    text += fmt::format("\n# {}: {}\n", finding.id, printable(finding.title));
    for (const std::string& step : finding.fix)
      text += (is_command(step) && !is_drastic(step) ? "" : "# ") + printable(step) + "\n";
  }
  return text;
}

std::vector<FixOutcome> apply_fixes(const std::vector<Fix>& fixes, const FixRun& how) {
  std::vector<FixOutcome> outcomes;
  for (const Fix& fix : fixes) {
    outcomes.push_back(outcome_of(fix, how));
    if (how.told) how.told(outcomes.back());
  }
  return outcomes;
}

}  // namespace gpuwarden::doctor
