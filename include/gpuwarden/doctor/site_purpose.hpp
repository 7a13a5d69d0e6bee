// SPDX-License-Identifier: Apache-2.0
// A purpose in the words of a site, too.
#pragma once

#include <string_view>

#include "gpuwarden/doctor/purpose.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::doctor {

/// As parse_purpose; what a rule of the site calls a workload is a purpose, even where nothing else knows it.
Result<Purpose> read_purpose(std::string_view text, const knowledge::Knowledge& knowledge);

}  // namespace gpuwarden::doctor
