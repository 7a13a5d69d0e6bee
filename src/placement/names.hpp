// SPDX-License-Identifier: Apache-2.0
// From what users call a GPU to the GPU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/placement/request.hpp"

namespace gpuwarden::placement {

/// GPUs and MIG instances whose UUID begins with `text`, letter case ignored; an exact match stands alone.
std::vector<Uuid> uuids_with_prefix(std::string_view text, const facts::Snapshot& snapshot);
/// "0 (NVIDIA H100 80GB HBM3), 1 (…)".
std::string describe_gpus(const facts::Snapshot& snapshot);
/// The UUIDs of named devices; a GPU in trouble without a UUID is named by its bus id. Fails with invalid_argument:
/// unknown (says which exist), ambiguous.
Result<std::vector<Uuid>> resolve(const std::vector<GpuName>& names, const facts::Snapshot& snapshot);

}  // namespace gpuwarden::placement
