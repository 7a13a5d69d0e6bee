// SPDX-License-Identifier: Apache-2.0
// torch.profiler's trace put on the clock of ours.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "gpuwarden/profile/trace.hpp"

namespace gpuwarden::profile {

/// Its events, an array; "ts" as microseconds since trace.steady_origin. Fails as chrome_trace() does.
Result<nlohmann::json> foreign_events(std::string_view text, const Trace& trace);

}  // namespace gpuwarden::profile
