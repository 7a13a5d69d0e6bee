// SPDX-License-Identifier: Apache-2.0
// A learned step: what a lane is expected to do, operation by operation, and the address that each allocation gets.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/steps/placement.hpp"
#include "memory/steps/tape.hpp"

namespace gpuwarden::memory {

/// One expected operation, made for one comparison: `key` is the size of an allocation, or word::kFree and the address
/// of a free; `value` is what the other one needs, the address or the size. Of an operation that is not planned the key
/// is its word without the distance, with word::kApart, and the value its whole word.
struct ScriptEntry {
  std::uint64_t key;
  std::uint64_t value;
};

/// Fits nothing: the end of a script, and what a lane without one has.
inline constexpr ScriptEntry kNoEntry{~std::uint64_t{0}, 0};

struct Script {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  /// The last `period` operations of a tape; `blocks` becomes what is planned: allocated and given back within them, on
  /// the lane's own stream. Places are yet to be found.
  Script(const StepTape& tape, std::uint32_t period, std::vector<PlannedBlock>& blocks);
  Script() = default;

  std::uint32_t period() const { return static_cast<std::uint32_t>(partner.size()); }
  std::uint32_t at(const ScriptEntry* entry) const { return static_cast<std::uint32_t>(entry - entries.data()); }
  bool is_birth(std::uint32_t at) const { return partner[at] != kNone && partner[at] > at; }
  /// The blocks stand `base` bytes above their start.
  void place(std::span<const PlannedBlock> blocks, std::uint64_t base);
  /// What the tape would hold of an operation.
  std::uint64_t word(std::uint32_t at) const;
  std::size_t bytes() const {
    return entries.size() * (sizeof(ScriptEntry) + sizeof(Grains)) + partner.size() * sizeof(std::uint32_t);
  }

  std::vector<ScriptEntry> entries;    ///< of each operation, and kNoEntry
  std::vector<std::uint32_t> partner;  ///< of a planned one, the free or the allocation of its block; else kNone
  std::vector<Grains> live_at;         ///< of planned blocks, before each operation and at the end
  Grains crest = 0;                    ///< the most of it
  Grains ordinary = 0;                 ///< the most by which blocks that are not planned grow in between
  std::uint32_t planned = 0;           ///< blocks
};

}  // namespace gpuwarden::memory
