// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memtrace/columns.hpp"

#include <algorithm>
#include <cstdint>

namespace gpuwarden::memtrace {

std::vector<MemoryColumn> columns_of(const Replay& replay, std::size_t width) {
  std::vector<MemoryColumn> result(width);
  if (width == 0 || replay.operations == 0) return result;
  std::vector<bool> sampled(width);
  for (const ReplaySample& sample : replay.samples) {
    const std::uint64_t before = std::max<std::uint64_t>(sample.operation, 1) - 1;
    const std::size_t at = std::min<std::size_t>(before * width / replay.operations, width - 1);
    sampled[at] = true;
    result[at].live = std::max(result[at].live, sample.live);
    result[at].reserved = std::max(result[at].reserved, sample.reserved);
  }
  for (std::size_t i = 1; i < width; ++i) {
    if (!sampled[i]) result[i] = result[i - 1];
  }
  return result;
}

}  // namespace gpuwarden::memtrace
