// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/loss_memory.hpp"

#include <array>

namespace gpuwarden::knowledge {

namespace {

constexpr auto kLosses = std::to_array<LossMemory>({
#include "knowledge/loss.inc"
});

}  // namespace

std::span<const LossMemory> loss_memories() { return kLosses; }

}  // namespace gpuwarden::knowledge
