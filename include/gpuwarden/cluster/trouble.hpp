// SPDX-License-Identifier: Apache-2.0
// What is the matter with a node's GPUs, by what it tells itself. Pure.
#pragma once

#include <optional>

#include "gpuwarden/cluster/node.hpp"
#include "gpuwarden/facts/health.hpp"

namespace gpuwarden::cluster {

/// Whether one of its GPUs is judged unfit, or is an NVIDIA GPU that cannot be used and is not asleep.
bool has_gpu_in_trouble(const Node& node);

/// What keeps a GPU of the node from being given work, by its health; nothing where it may be.
std::optional<facts::Disabling> out_of_use(const Node& node, const Uuid& gpu);

}  // namespace gpuwarden::cluster
