// SPDX-License-Identifier: Apache-2.0
// Lines that several answers about compatibility share.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gpuwarden/compat/answer.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli {

/// "driver         550.54.15 ...", broken at the terminal's width.
std::string labelled_line(std::string_view label, std::string_view text, const Style& style);
/// The same for a command, which is never broken.
std::string command_line(std::string_view label, std::string_view command);
std::string heading(std::string_view text, const Style& style);
/// "550 (production branch; supported until 2025-06)".
std::string branch_text(const compat::Asked& asked, int branch);
/// "12.8 or newer", "8.0 to 12.9".
std::string range_text(const knowledge::Version& first, const knowledge::Version& last);
/// The PyTorch releases that run, newest first.
std::string torch_text(const compat::Asked& asked, const std::vector<compat::Wheel>& wheels, const Style& style);
std::string recommendation_text(const compat::Asked& asked, const compat::Recommendation& recommended,
                                const Style& style);

}  // namespace gpuwarden::cli
