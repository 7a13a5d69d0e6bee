// SPDX-License-Identifier: Apache-2.0
// Who holds how much of each GPU's memory.
#pragma once

#include <optional>
#include <string>

#include "gpuwarden/facts/snapshot.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli {

/// Rows for GPUs, and below each one its processes, those with most memory first.
std::string memory_table(const facts::Snapshot& snapshot, const Style& style);

/// Used memory that no listed process accounts for; empty where one of the figures is not known.
std::optional<Bytes> unaccounted_memory(const facts::GpuRecord& record);

}  // namespace gpuwarden::cli
