// SPDX-License-Identifier: Apache-2.0
// From what users call GPUs to the GPUs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/placement/request.hpp"

namespace gpuwarden::placement {

/// A range of more GPUs is none: no machine has them, and a slip of the pen must not fill the memory.
inline constexpr std::int64_t kMostInRange = 4096;

/// "0-3" becomes 0, 1, 2, 3; other names, and ranges of more than kMostInRange, stay as they are.
std::vector<GpuName> expand_ranges(const std::vector<std::string>& names);

/// Keeps the GPUs of a snapshot that are named as in a Request (an instance stands for its GPU); all where there are no
/// names. Fails as select() does, with invalid_argument: for a name that fits none, and says which GPUs there are; for
/// one that fits several.
Result<void> keep_named(const std::vector<GpuName>& names, facts::Snapshot& snapshot);

}  // namespace gpuwarden::placement
