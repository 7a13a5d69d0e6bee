// SPDX-License-Identifier: Apache-2.0
// NVIDIA's GPUs in the files of a system that is not running here: a mounted host, a copied tree.
#pragma once

#include <filesystem>

#include "gpuwarden/facts/snapshot.hpp"

namespace gpuwarden::probe {

/// Adds the GPUs that `root`/sys and `root`/proc show, and which kernel module serves them. Nothing is read from the
/// GPUs: one that NVIDIA's module does not serve is `disabled`, with the cause; of the others only names are known.
/// Where there is no such tree nothing is added.
void list_root_gpus(const std::filesystem::path& root, facts::Snapshot& snapshot);

}  // namespace gpuwarden::probe
