// SPDX-License-Identifier: Apache-2.0
// The doctor's answers for people.
#pragma once

#include <string>

#include "gpuwarden/doctor/compare.hpp"
#include "gpuwarden/doctor/doctor.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli {

/// The verdict, the one thing to do first, and the findings, worst first. `reasons`: with sources and links.
std::string doctor_text(const doctor::Examination& examination, const std::string& subject, bool reasons,
                        const Style& style);
/// All checks, by area, and the site's rules.
std::string check_list(const knowledge::Knowledge& knowledge);
std::string comparison_text(const doctor::Comparison& comparison);

}  // namespace gpuwarden::cli
