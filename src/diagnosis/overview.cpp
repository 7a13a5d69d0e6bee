// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/diagnosis/overview.hpp"

#include <algorithm>

#include "gpuwarden/knowledge/diagnosis.hpp"

namespace gpuwarden::diagnosis {

std::size_t independent_failures(const Diagnosis& diagnosis) {
  std::vector<const Cause*> failures;
  for (const Cause& cause : diagnosis.causes) {
    const knowledge::DiagnosisCause* row = knowledge::diagnosis_cause(cause.id);
    if (row == nullptr || cause.confidence < kLikelyCause) continue;
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

}  // namespace gpuwarden::diagnosis
