// SPDX-License-Identifier: Apache-2.0
// The CUDA toolkits of a machine side by side: what each is for, and why it is in use.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"
#include "gpuwarden/toolkits/toolkits.hpp"

namespace gpuwarden::toolkits {

/// What a snapshot tells of the software around the GPUs; empty where it tells nothing.
const facts::Environment& software_of(const facts::Snapshot& snapshot);

/// The driver in force, as itself, its module or an image's module file tells it. Libraries alone are no driver: a
/// package of another program may bring them.
std::optional<knowledge::Version> driver_of(const facts::Snapshot& snapshot);

/// The architectures of a snapshot's NVIDIA GPUs, one each, lowest first, as far as they are known.
std::vector<int> architectures_of(const facts::Snapshot& snapshot, const knowledge::Knowledge& knowledge);

/// choose_toolkit() among a snapshot's own, for an architecture that a user names: as parse_architecture() takes it, or
/// "native": of all GPUs that are there. Points into the snapshot. Fails as these do, and with unsatisfied where no
/// GPU's architecture is known.
Result<ToolkitChoice> choose_toolkit_for(std::string_view architecture, const facts::Snapshot& snapshot,
                                         const knowledge::Knowledge& knowledge);

struct ListedToolkit {
  facts::Toolkit toolkit;
  std::vector<std::string> reasons;  ///< as reasons_in_use()
  bool chosen = false;               ///< by an earlier activate()
  std::string targets;               ///< as targets_of()
  std::string on_driver;             ///< as on_driver()
};

struct ToolkitListing {
  bool simulated = false;
  std::string fleet;
  std::optional<knowledge::Version> driver;
  std::vector<ListedToolkit> toolkits;  ///< newest first
};

/// What is installed; `variables` are those of the shell that asks.
ToolkitListing list_toolkits(const facts::Snapshot& snapshot, const Environment& variables,
                             const knowledge::Knowledge& knowledge);

}  // namespace gpuwarden::toolkits
