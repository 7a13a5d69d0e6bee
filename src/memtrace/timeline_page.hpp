// SPDX-License-Identifier: Apache-2.0
// The parts of the timeline's page that are the same for all.
#pragma once

#include <string_view>

namespace gpuwarden::memtrace {

extern const std::string_view kTimelineStyle;
extern const std::string_view kTimelineBody;
extern const std::string_view kTimelineScript;

}  // namespace gpuwarden::memtrace
