// SPDX-License-Identifier: Apache-2.0
// What a history's file keeps of a GPU besides its readings: the figures that do not change, which derived metrics
// need.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gpuwarden/facts/gpu.hpp"

namespace gpuwarden::telemetry {

/// Before the UUID in the key of the file's table `meta`. It sorts behind the facts about the file.
inline constexpr std::string_view kGpuFactsKey = "~gpu.";

/// As JSON: thresholds, limits, and what the GPU can have at most. Two GPUs of the same figures have the same text.
std::string gpu_facts_text(const facts::Gpu& gpu);
/// Those that the text has and that can be; a stranger's file may say anything.
facts::Gpu gpu_facts_from(std::string_view text);

}  // namespace gpuwarden::telemetry
