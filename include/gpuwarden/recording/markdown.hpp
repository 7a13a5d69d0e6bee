// SPDX-License-Identifier: Apache-2.0
// A recording as Markdown, for a ticket or a merge request.
#pragma once

#include <string>

#include "gpuwarden/recording/summary.hpp"

namespace gpuwarden::recording {

std::string to_markdown(const Summary& summary);
/// Two recordings side by side.
std::string compare_markdown(const Summary& a, const Summary& b);

}  // namespace gpuwarden::recording
