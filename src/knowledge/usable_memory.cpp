// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/usable_memory.hpp"

#include <algorithm>
#include <array>

namespace gpuwarden::knowledge {

namespace {

constexpr auto kUsable = std::to_array<UsableMemory>({
#include "knowledge/usable.inc"
});

}  // namespace

std::span<const UsableMemory> usable_memories() { return kUsable; }

const UsableMemory* find_usable_memory(std::string_view name) {
  const auto* const found = std::ranges::find(kUsable, name, &UsableMemory::name);
  return found == kUsable.end() ? nullptr : found;
}

}  // namespace gpuwarden::knowledge
