// SPDX-License-Identifier: Apache-2.0
// Recorded allocations of GPU memory: what was live when the recording began, and what was allocated and freed since.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/quantity.hpp"

namespace gpuwarden::memtrace {

/// One allocation, or one free.
struct Event {
  std::uint64_t size = 0;    ///< bytes asked for, 1 to kLargestBlock; of a free 0
  std::int64_t time_us = 0;  ///< since the first recorded event
  std::uint32_t block = 0;   ///< which allocation, counted from 0; its free has the same number
  std::uint16_t stream = 0;  ///< position in Trace::streams
  bool frees = false;
};

/// No allocation of a trace is larger: 16 TiB are more than any GPU has.
inline constexpr std::uint64_t kLargestBlock = std::uint64_t{1} << 44U;

/// A size that depends on the length T of a sequence, in tokens: c0 + c1*T + c2*T^2 bytes, at least 1.
struct SizeFormula {
  double c0 = 0;
  double c1 = 0;
  double c2 = 0;
  std::uint64_t at(std::uint64_t tokens) const;
};

/// What the allocator that was recorded had taken from the driver meanwhile.
struct RecordedAllocator {
  std::string name;
  Bytes peak_reserved;
  Bytes reserved_at_end;
  std::uint64_t segments_taken = 0;     ///< by cudaMalloc, or mapped
  std::uint64_t segments_returned = 0;  ///< by cudaFree, or unmapped
};

struct Trace {
  std::string format;                     ///< "PyTorch snapshot (pickle)"
  std::vector<Event> before;              ///< allocations that were live when the recording began
  std::vector<Event> events;              ///< in the order in which they happened
  std::uint32_t blocks = 0;               ///< how many allocations, those before included
  std::vector<std::uint64_t> streams{0};  ///< handles; the first is the default stream
  /// Of each block; empty where sizes are fixed. Then the events' sizes are those at T = 0.
  std::vector<SizeFormula> formulas;
  std::optional<RecordedAllocator> recorded;
  std::uint64_t failed_allocations = 0;          ///< out of memory while recording
  std::uint32_t device = 0;                      ///< whose events these are
  std::vector<std::uint64_t> events_of_devices;  ///< where a snapshot tells of several

  bool depends_on_tokens() const { return !formulas.empty(); }
};

}  // namespace gpuwarden::memtrace
