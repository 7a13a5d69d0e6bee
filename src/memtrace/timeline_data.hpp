// SPDX-License-Identifier: Apache-2.0
// What a timeline shows, worked out of a recording.
#pragma once

#include <cstdint>
#include <vector>

#include "gpuwarden/memtrace/record.hpp"

namespace gpuwarden::memtrace {

/// One block from its allocation to its free, or to the end.
struct Lifetime {
  std::uint64_t size = 0;
  std::uint64_t place = 0;  ///< in grains from the bottom of the picture
  std::uint64_t stream = 0;
  std::uint64_t begin = 0;  ///< operation
  std::uint64_t end = 0;
  std::int64_t begin_us = 0;
  std::int64_t end_us = 0;
  std::uint32_t block = 0;
  bool before = false;  ///< live when the recording began
  bool freed = false;
};

/// Pages that had memory from one operation to another.
struct MappedRun {
  std::uint64_t place = 0;  ///< in grains from the bottom of the picture
  std::uint64_t size = 0;   ///< in grains
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::int64_t begin_us = 0;
  std::int64_t end_us = 0;
};

/// The most that was live and mapped since the point before.
struct CurvePoint {
  std::uint64_t operation = 0;
  std::int64_t time_us = 0;
  std::uint64_t live = 0;
  std::uint64_t mapped = 0;
};

struct TimelineData {
  std::vector<Lifetime> blocks;  ///< those that are drawn, in the order of their beginning
  std::uint64_t left_out = 0;
  std::vector<MappedRun> mapped;
  std::vector<CurvePoint> curve;
  std::uint64_t height = 0;  ///< of the picture, in grains
  std::uint64_t operations = 0;
  std::int64_t duration_us = 0;
};

/// At most `blocks` lifetimes and about `points` points.
TimelineData timeline_data(const Recording& recording, std::size_t blocks, std::size_t points);

}  // namespace gpuwarden::memtrace
