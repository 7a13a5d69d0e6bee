// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/diagnosis.hpp"

#include <algorithm>

namespace gpuwarden::knowledge {
namespace {

#include "knowledge/diagnosis.inc"

}  // namespace

std::string_view to_string(Role role) {
  switch (role) {
    case Role::root:
      return "root";
    case Role::symptom:
      return "symptom";
    case Role::weak:
      return "weak";
    case Role::context:
      return "context";
    case Role::silence:
      return "silence";
    case Role::ordinary:
      return "ordinary";
  }
  return "unknown";
}

std::span<const DiagnosisRule> diagnosis_rules() { return kRules; }
std::span<const DiagnosisCause> diagnosis_causes() { return kCauses; }

const DiagnosisCause* diagnosis_cause(std::string_view id) {
  const auto found = std::ranges::find(kCauses, id, &DiagnosisCause::id);
  return found == std::end(kCauses) ? nullptr : found;
}

}  // namespace gpuwarden::knowledge
