// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/diagnosis/overview.hpp"

#include <algorithm>
#include <cmath>

#include "diagnosis/calibration.hpp"
#include "diagnosis/line.hpp"
#include "diagnosis/rules.hpp"
#include "gpuwarden/knowledge/diagnosis.hpp"
#include "gpuwarden/knowledge/platform_steps.hpp"

namespace gpuwarden::diagnosis {

double weight_among(const Diagnosis& diagnosis, const Cause& cause) {
  constexpr double kNearlyOne = 1 - 1e-9;  // of which the curve still has a weight
  constexpr double kParts = 1e9;           // what the way there and back loses
  const double first = diagnosis.causes.empty() ? cause.confidence : diagnosis.causes.front().confidence;
  if (first <= 0) return 0;
  const double weight = std::clamp(weight_of(std::min(first, kNearlyOne)), 0.0, 1.0);
  return std::round(cause.confidence / first * weight * kParts) / kParts;
}

std::size_t independent_failures(const Diagnosis& diagnosis) {
  std::vector<const Cause*> failures;
  for (const Cause& cause : diagnosis.causes) {
    const knowledge::DiagnosisCause* row = knowledge::diagnosis_cause(cause.id);
    if (row == nullptr || weight_among(diagnosis, cause) < kLikelyCause) continue;
    const bool same = std::ranges::any_of(failures, [&](const Cause* other) {
      const bool line_shared = std::ranges::find_first_of(cause.evidence, other->evidence) != cause.evidence.end();
      return line_shared || knowledge::diagnosis_cause(other->id)->area == row->area;
    });
    if (!same) failures.push_back(&cause);
  }
  return failures.size();
}

std::vector<const Evidence*> distinct_evidence(const Cause& cause) {
  std::vector<const Evidence*> lines;
  for (const Evidence& evidence : cause.evidence) {
    if (std::ranges::none_of(lines, [&](const Evidence* other) { return *other == evidence; }))
      lines.push_back(&evidence);
  }
  return lines;
}

PlainAdvice plain_advice(const Diagnosis& diagnosis) {
  if (!diagnosis.ordinary) return {};
  const Rules& rules = Rules::all();
  for (const int index : rules.fitting(normalise(diagnosis.ordinary->text).text)) {
    const knowledge::DiagnosisRule& rule = rules.rule(index);
    if (rule.role == knowledge::Role::ordinary && !rule.says.empty())
      return {std::string(rule.says), knowledge::steps_on(diagnosis.platform, {rule.fix.begin(), rule.fix.end()})};
  }
  return {};
}

}  // namespace gpuwarden::diagnosis
