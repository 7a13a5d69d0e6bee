// SPDX-License-Identifier: Apache-2.0
// A replay's memory over its operations, in as many columns as there is room for.
#pragma once

#include <cstddef>
#include <vector>

#include "gpuwarden/memtrace/replay.hpp"

namespace gpuwarden::memtrace {

/// The most that was live and reserved in a column.
struct MemoryColumn {
  Bytes live;
  Bytes reserved;
};

/// `width` columns of equally many operations; what was between two samples is in the later one's, and a column without
/// a sample is as the one before; those before the first sample are empty.
std::vector<MemoryColumn> columns_of(const Replay& replay, std::size_t width);

}  // namespace gpuwarden::memtrace
