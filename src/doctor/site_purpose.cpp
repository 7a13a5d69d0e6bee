// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/doctor/site_purpose.hpp"

#include <algorithm>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::doctor {

Result<Purpose> read_purpose(std::string_view text, const knowledge::Knowledge& knowledge) {
  auto purpose = parse_purpose(text);
  const bool is_the_sites = std::ranges::any_of(knowledge.rules(), [&](const knowledge::SiteRule& rule) {
    return !rule.workload.empty() && contains_ignoring_case(text, rule.workload);
  });
  if (!purpose && is_the_sites) return Purpose{.text = std::string(text)};
  return purpose;
}

}  // namespace gpuwarden::doctor
