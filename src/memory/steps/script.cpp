// SPDX-License-Identifier: Apache-2.0
#include "memory/steps/script.hpp"

#include <algorithm>

namespace gpuwarden::memory {
namespace {

/// For each operation of the last `period` ones its partner, if it has one among them.
std::vector<std::uint32_t> pair_up(const StepTape& tape, std::uint32_t period) {
  std::vector<std::uint32_t> partner(period, Script::kNone);
  const std::uint32_t first = tape.op() - period;
  for (std::uint32_t at = 0; at < period; ++at) {
    const std::uint64_t free = tape[first + at];
    const std::uint32_t distance = word::distance(free);
    if (!word::is_free(free) || (free & word::kApart) != 0 || distance > at || distance == 0) continue;
    const std::uint32_t birth = at - distance;
    // Numbers wrap around, so that an old block may seem to be a young one: only what fits is believed.
    if (tape[first + birth] != word::bytes(free) || partner[birth] != Script::kNone) continue;
    partner[at] = birth;
    partner[birth] = at;
  }
  return partner;
}

}  // namespace

Script::Script(const StepTape& tape, std::uint32_t period, std::vector<PlannedBlock>& blocks)
    : partner(pair_up(tape, period)) {
  const std::uint32_t first = tape.op() - period;
  entries.reserve(std::size_t{period} + 1);
  live_at.reserve(std::size_t{period} + 1);
  std::uint64_t live = 0;
  std::int64_t growth = 0;
  for (std::uint32_t at = 0; at < period; ++at) {
    const std::uint64_t recorded = tape[first + at];
    entries.push_back({(recorded & ~word::kDistance) | word::kApart, recorded});
    live_at.push_back(static_cast<Grains>(live));
    if (partner[at] == kNone) {
      growth += word::growth(recorded);
      ordinary = static_cast<Grains>(std::max<std::int64_t>(ordinary, growth));
      continue;
    }
    live += static_cast<std::uint64_t>(word::growth(recorded));
    crest = std::max(crest, static_cast<Grains>(live));
    if (is_birth(at)) blocks.push_back({.size = word::grains(recorded), .born = at, .gone = partner[at]});
  }
  entries.push_back(kNoEntry);
  live_at.push_back(static_cast<Grains>(live));
  planned = static_cast<std::uint32_t>(blocks.size());
}

void Script::place(std::span<const PlannedBlock> blocks, std::uint64_t base) {
  for (const PlannedBlock& block : blocks) {
    const std::uint64_t address = base + (std::uint64_t{block.start} << kGrainShift);
    const std::uint64_t size = word::bytes(entries[block.born].value);
    entries[block.born] = {size, address};
    entries[block.gone] = {word::kFree | address, size};
  }
}

std::uint64_t Script::word(std::uint32_t at) const {
  const ScriptEntry& entry = entries[at];
  if (partner[at] == kNone) return entry.value;
  if (is_birth(at)) return entry.key;
  return word::kFree | std::uint64_t{at - partner[at]} << word::kDistanceShift | entry.value;
}

}  // namespace gpuwarden::memory
