// SPDX-License-Identifier: Apache-2.0
// GPUs of which one reading failed while the others came.
#pragma once

#include <string_view>

#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::facts {

/// How the cause of such a record begins: nvidia-smi prints ERR! where a sensor, the fan or the power reading failed
/// (source: nvidia-smi manual, ERR! beside N/A).
inline constexpr std::string_view kFailedReading = "nvidia-smi shows ERR! for its ";

/// Usable, with a sensor, fan or power reading that failed: of no other usable GPU is there something to do.
inline bool has_failed_reading(const GpuRecord& record) {
  return is_usable(record) && !record.cause.empty() && !record.next_step.empty();
}

}  // namespace gpuwarden::facts
