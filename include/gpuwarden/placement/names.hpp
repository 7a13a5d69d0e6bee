// SPDX-License-Identifier: Apache-2.0
// From what users call GPUs to the GPUs.
#pragma once

#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/placement/request.hpp"

namespace gpuwarden::placement {

/// "0-3" becomes 0, 1, 2, 3; other names stay as they are.
std::vector<GpuName> expand_ranges(const std::vector<std::string>& names);

/// Keeps the GPUs of a snapshot that are named, by index, UUID or its beginning, or PCI bus id; all where there are no
/// names. Fails with invalid_argument for a name that fits none, and says which GPUs there are.
Result<void> keep_named(const std::vector<GpuName>& names, facts::Snapshot& snapshot);

}  // namespace gpuwarden::placement
