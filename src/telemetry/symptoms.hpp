// SPDX-License-Identifier: Apache-2.0
// Symptoms that the book of health itself finds: they are seen in no record.
#pragma once

#include <string_view>

#include "gpuwarden/telemetry/health.hpp"

namespace gpuwarden::telemetry {

/// The row of the table with this id; it must have one.
const Symptom& symptom_named(std::string_view id);
/// A GPU that was there and is not listed any more.
inline constexpr std::string_view kMissing = "missing";
/// No driver answers for the GPU.
inline constexpr std::string_view kNoDriver = "no_driver";

}  // namespace gpuwarden::telemetry
