// SPDX-License-Identifier: Apache-2.0
// What a pool knows when it has no more: who holds what, what was tried, and what would help.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/memory/rung.hpp"
#include "gpuwarden/memory/types.hpp"

namespace gpuwarden::memory {

/// The one thing that would help; each is said only where it is true.
enum class Advice : std::uint8_t {
  ask_for_less,     ///< the request alone is more than the device, or the limit, can ever give
  raise_limit,      ///< the device has enough free, the pool's or the process's limit forbids it
  lower_keep_free,  ///< the device has enough free, but it is kept for others
  end_capture,      ///< streams are being captured into a graph: pages may not move and nobody may wait
  release_graphs,   ///< memory kept for captured graphs would be enough
  end_others,       ///< others on the device hold what is missing
  try_again,        ///< enough could be made ready, but a call of the driver failed
  move_buffers,     ///< enough is free, but in pieces beside live blocks that cannot move
  use_less,         ///< what is live is really needed
};

std::string_view to_string(Advice advice);

/// What one stream holds in the pool.
struct StreamMemory {
  StreamId stream;
  bool captured = false;  ///< kept for a graph that was captured on that stream
  Bytes live;
  Bytes cached;  ///< in quick lists, or given back on another stream and not yet taken over
  Bytes free;
  std::uint64_t live_blocks = 0;

  Bytes held() const { return live + cached + free; }
};

/// Why an allocation failed. Sizes in bytes; what the device does not tell is empty.
struct OutOfMemoryReport {
  Bytes requested;
  Bytes rounded;  ///< in whole grains
  StreamId stream;
  std::string reason;  ///< what the upstream or a limit said last; may be empty

  std::optional<Bytes> device_total;
  std::optional<Bytes> device_free;
  std::optional<Bytes> limit;        ///< the pool's own
  std::optional<Bytes> budget_left;  ///< of the process's limit
  Bytes keep_free;

  Bytes reserved;
  Bytes live;
  Bytes cached;
  Bytes free;
  Bytes captured;            ///< the part of `free` and `cached` that is kept for graphs
  Bytes largest_free;        ///< the largest free block that is not kept for a captured graph
  Bytes largest_obtainable;  ///< the largest request that moving idle pages and taking what the device has can meet
  bool capturing = false;    ///< a stream is being captured into a graph

  std::vector<StreamMemory> streams;  ///< the largest first
  std::size_t more_streams = 0;       ///< not in `streams`
  /// What this request tried (0 or 1) and for how long; `helped` is what the rung has done for the pool's requests so
  /// far.
  std::array<RungCount, kRungs> rungs{};
  std::string who_holds_what;  ///< from PoolConfig

  Advice advice = Advice::use_less;

  /// As fragmentation.hpp has it.
  double external_fragmentation() const;
  /// In PyTorch's words, so that people and tools recognise it.
  std::string sentence() const;
  /// The advice in words, with figures.
  std::string help() const;
  /// The whole report in lines.
  std::string to_text() const;
};

/// The advice that fits the report's figures. Pure.
Advice advice_for(const OutOfMemoryReport& report);

}  // namespace gpuwarden::memory
