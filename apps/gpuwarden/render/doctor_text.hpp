// SPDX-License-Identifier: Apache-2.0
// The doctor's answers for people.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "gpuwarden/doctor/compare.hpp"
#include "gpuwarden/doctor/doctor.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli {

/// The verdict, the one thing to do first, and the findings, worst first. `reasons`: with sources and links.
std::string doctor_text(const doctor::Examination& examination, const std::string& subject, bool reasons,
                        const Style& style);
/// The verdict as --json prints it: with what was looked at, and for what.
nlohmann::json doctor_document(const doctor::Examination& examination, const facts::Snapshot& snapshot,
                               const doctor::Purpose& purpose);
/// All checks, by area, and the site's rules.
std::string check_list(const knowledge::Knowledge& knowledge);
std::string comparison_text(const doctor::Comparison& comparison);
/// The commands of all findings as a script to read before it is run.
std::string fix_script(const doctor::Examination& examination);

}  // namespace gpuwarden::cli
