// SPDX-License-Identifier: Apache-2.0
// CUDA_VISIBLE_DEVICES as CUDA reads it. Source: CUDA C programming guide, "CUDA environment variables": integers are
// positions in CUDA's order, UUIDs may be cut short if they stay unique, and an invalid entry hides itself and all
// entries after it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/placement/request.hpp"

namespace gpuwarden::placement {

/// What the variable leaves visible.
struct VisibleDevices {
  bool restricted = false;  ///< the variable is set
  bool cpu_only = false;    ///< set to nothing, or to "-1"
  std::vector<Uuid> uuids;  ///< of GPUs and MIG instances, in the variable's order
  std::vector<std::string> warnings;
};

/// Reads the variable against the GPUs there are. Fails with invalid_argument where it names nothing, or where
/// integers cannot be mapped to GPUs with certainty (different models, unknown CUDA order).
Result<VisibleDevices> read_visible_devices(const Visibility& visibility, const facts::Snapshot& snapshot);

/// The GPUs in CUDA's order: PCI order for CUDA_DEVICE_ORDER=PCI_BUS_ID and where all are of one model, else as the
/// CUDA driver told; nothing where that is unknown.
std::optional<std::vector<Uuid>> cuda_order(const Visibility& visibility, const facts::Snapshot& snapshot);

}  // namespace gpuwarden::placement
