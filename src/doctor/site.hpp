// SPDX-License-Identifier: Apache-2.0
// A site's own rules as findings.
#pragma once

#include <string>
#include <vector>

#include "gpuwarden/doctor/doctor.hpp"
#include "gpuwarden/knowledge/site_rules.hpp"

namespace gpuwarden::doctor {

/// "site:our-model".
std::string site_id(const knowledge::SiteRule& rule);
/// The driver's, or the device's for rules about use.
Area site_area(const knowledge::SiteRule& rule);
/// What a rule says about the machine's GPUs; GPUs of which it says the same are one finding.
std::vector<Finding> site_findings(const Subject& subject, const knowledge::SiteRule& rule);

}  // namespace gpuwarden::doctor
