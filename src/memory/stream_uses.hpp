// SPDX-License-Identifier: Apache-2.0
// Which streams beside its own use a block, and which of their work it waits for once it is given back.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "gpuwarden/memory/types.hpp"

namespace gpuwarden::memory {

/// Block::user of a block that waits for several streams.
inline constexpr std::uint16_t kSeveralUsers = 0xFFFF;

/// A lane's stream, and the epoch of its last work on the block; 0 while the block is live.
struct StreamUse {
  std::uint16_t lane;
  std::uint32_t epoch;
};

/// By address. Behind the pool's lock for slow work.
class StreamUses {
 public:
  void add(DeviceAddress address, std::uint16_t lane, std::uint32_t epoch = 0) {
    auto& uses = uses_[address.value];
    const auto known = std::ranges::find(uses, lane, &StreamUse::lane);
    if (known == uses.end()) uses.push_back({lane, epoch});
  }
  /// Of a block that is there.
  std::span<StreamUse> of(DeviceAddress address) { return uses_.at(address.value); }
  /// A lane's epochs begin anew behind `done`, which is done.
  void rebase(std::uint16_t lane, std::uint32_t done) {
    for (auto& [address, uses] : uses_) {
      for (StreamUse& use : uses) {
        if (use.lane == lane) use.epoch -= std::min(use.epoch, done);
      }
    }
  }
  void erase(DeviceAddress address) { uses_.erase(address.value); }
  std::size_t bytes() const {
    return uses_.size() * (sizeof(std::vector<StreamUse>) + 2 * sizeof(StreamUse) + 4 * sizeof(void*));
  }

 private:
  std::unordered_map<std::uint64_t, std::vector<StreamUse>> uses_;
};

}  // namespace gpuwarden::memory
