// SPDX-License-Identifier: Apache-2.0
// Which GPUs -i means.
#pragma once

#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::cli {

/// Keeps the GPUs of these names: indices, UUIDs or their beginnings, PCI bus ids; all where there are no names. Fails
/// with invalid_argument for a name that fits none.
Result<void> keep_named(const std::vector<std::string>& names, facts::Snapshot& snapshot);

}  // namespace gpuwarden::cli
