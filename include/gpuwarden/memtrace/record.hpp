// SPDX-License-Identifier: Apache-2.0
// A script run once through a pool, with everything that happened noted down: for snapshots and pictures.
#pragma once

#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/memory/layout.hpp"
#include "gpuwarden/memtrace/replay.hpp"
#include "gpuwarden/memtrace/script.hpp"

namespace gpuwarden::memtrace {

enum class Happening : std::uint8_t { allocated, freed, mapped, unmapped, out_of_memory };

struct RecordedEvent {
  std::uint64_t address = 0;
  std::uint64_t size = 0;       ///< bytes: asked for, or mapped
  std::uint64_t stream = 0;     ///< the handle in the trace
  std::int64_t time_us = 0;     ///< since the beginning of the first step
  std::uint64_t operation = 0;  ///< how many were run before
  std::uint32_t block = 0;      ///< of an allocation or free: which one of the trace
  Happening what = Happening::allocated;
};

struct Recording {
  std::vector<RecordedEvent> events;
  std::vector<memory::SegmentLayout> segments;  ///< at the end
  std::vector<std::uint64_t> steps;             ///< with which operation each begins
  std::uint64_t operations = 0;
  std::vector<bool> was_before;  ///< whether a block of the trace was live before the recording
  Bytes device_memory;
};

/// Runs the script that was made of the trace; rounds and samples do not count. What happens after memory ran out is
/// not run. invalid_argument: more than 50 million operations, which would take gigabytes to note.
Result<Recording> record(const Trace& trace, const Script& script, const ReplayOptions& options);

}  // namespace gpuwarden::memtrace
