// SPDX-License-Identifier: Apache-2.0
// Which GPUs people mean when they put some back into use.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/health.hpp"
#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::machine {

/// The GPUs of these names, as placement::keep_named() takes them; a UUID that the machine does not have may still be
/// that of a GPU that is out of use, and was taken out. Fails as keep_named() does.
Result<std::vector<Uuid>> gpus_to_enable(const std::vector<std::string>& names, const facts::Snapshot& snapshot,
                                         std::span<const facts::Disabling> out_of_use);

/// All that are out of use, without those of which only root can say otherwise where the caller is not root.
std::vector<Uuid> all_to_enable(std::span<const facts::Disabling> out_of_use, bool is_root);

}  // namespace gpuwarden::machine
