// SPDX-License-Identifier: Apache-2.0
// The parts of a page that are no charts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/recording/summary.hpp"

namespace gpuwarden::recording {

/// Title, machine, command, window.
std::string head_of(const Summary& summary, std::string_view title);
/// The few figures that stand for all.
std::string tiles_of(const Summary& summary);
/// What was wasted, and what is to be known before the figures are believed.
std::string findings_of(const Summary& summary);
std::string gpu_table_of(const Summary& summary);
/// Users and jobs; empty where nothing is known of them.
std::string uses_of(const Summary& summary);
/// Empty where nothing happened.
std::string happenings_of(const Summary& summary);
/// The differences between two recordings.
std::string comparison_of(const Summary& a, const Summary& b);

/// A whole document around a body. Its policy allows its own style and script and nothing else.
std::string page_of(std::string_view title, std::string_view body);
/// Of a text, as a Content-Security-Policy names it: 'sha256-…'.
std::string policy_hash(std::string_view text);
/// A text of strangers in HTML.
std::string safe(std::string_view text);

}  // namespace gpuwarden::recording
