// SPDX-License-Identifier: Apache-2.0
// Where a pool's memory lies and what it is used for, block by block: for snapshots and pictures.
#pragma once

#include <vector>

#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/memory/types.hpp"

namespace gpuwarden::memory {

enum class BlockUse : std::uint8_t {
  live,     ///< given out
  cached,   ///< given back, and kept as it is for the next request of its size
  pending,  ///< given back on another stream, whose work may still use it
  free,
};

struct BlockLayout {
  DeviceAddress address;
  Bytes size;
  Bytes requested;  ///< of a live block, what was asked for; else 0
  BlockUse use = BlockUse::free;
};

/// A run of addresses that all have memory, on one stream; its blocks lie side by side from its beginning to its end.
struct SegmentLayout {
  DeviceAddress address;
  Bytes size;
  StreamId stream;
  std::vector<BlockLayout> blocks;
};

}  // namespace gpuwarden::memory
