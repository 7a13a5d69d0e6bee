// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memtrace/columns.hpp"

#include <algorithm>

namespace gpuwarden::memtrace {

std::vector<MemoryColumn> columns_of(const Replay& replay, std::size_t width) {
  std::vector<MemoryColumn> result(width);
  for (const ReplaySample& sample : replay.samples) {
    const std::size_t at = std::min<std::size_t>((sample.operation - 1) * width / replay.operations, width - 1);
    result[at].live = std::max(result[at].live, sample.live);
    result[at].reserved = std::max(result[at].reserved, sample.reserved);
  }
  for (std::size_t i = 1; i < width; ++i) {
    if (result[i].reserved.value == 0) result[i] = result[i - 1];
  }
  return result;
}

}  // namespace gpuwarden::memtrace
