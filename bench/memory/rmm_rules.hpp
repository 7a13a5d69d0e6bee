// SPDX-License-Identifier: Apache-2.0
// The policy of RMM's pool_memory_resource, written anew from its description (rapidsai/rmm, docs and header comments;
// see shared/facts/memory.md, 1.1): one address-ordered list of free blocks a stream, best fit by looking at all of
// them, growth by doubling. One stream here. Not RMM.
#pragma once

#include <algorithm>
#include <list>
#include <mutex>
#include <set>

#include "memory/peer.hpp"

namespace gpuwarden::bench {

class RmmPoolRules {
 public:
  explicit RmmPoolRules(CountingDevice& device) : device_(device) {}

  std::uint64_t allocate(std::uint64_t size, std::uint32_t) {
    const std::lock_guard lock(mutex_);
    size = round_up(size, kGrain);
    auto best = best_fit(size);
    if (best == free_.end()) {
      insert(grow(size));
      best = best_fit(size);
    }
    const std::uint64_t address = best->address;
    if (best->size > size) {
      *best = {address + size, best->size - size, false};
    } else {
      free_.erase(best);
    }
    return address;
  }

  void free(std::uint64_t address, std::uint64_t size, std::uint32_t) {
    const std::lock_guard lock(mutex_);
    // Records an event for each block.
    ++device_.calls;
    insert({address, round_up(size, kGrain), heads_.contains(address)});
  }

 private:
  static constexpr std::uint64_t kGrain = 256;
  struct Block {
    std::uint64_t address;
    std::uint64_t size;
    bool head;  ///< the first of an upstream block: not merged with what lies before
  };

  std::list<Block>::iterator best_fit(std::uint64_t size) {
    const auto best = std::ranges::min_element(
        free_, [size](const Block& a, const Block& b) { return a.size >= size && (b.size < size || a.size < b.size); });
    return best != free_.end() && best->size >= size ? best : free_.end();
  }

  void insert(Block block) {
    const auto next = std::ranges::find_if(free_, [&](const Block& other) { return other.address > block.address; });
    const auto previous = next == free_.begin() ? free_.end() : std::prev(next);
    const bool joins_previous =
        previous != free_.end() && previous->address + previous->size == block.address && !block.head;
    const bool joins_next = next != free_.end() && block.address + block.size == next->address && !next->head;
    if (joins_previous) {
      previous->size += block.size + (joins_next ? next->size : 0);
      if (joins_next) free_.erase(next);
    } else if (joins_next) {
      *next = {block.address, block.size + next->size, block.head};
    } else {
      free_.insert(next, block);
    }
  }

  Block grow(std::uint64_t size) {
    for (std::uint64_t wanted = std::max(size, device_.reserved);; wanted = std::max(size, wanted / 2)) {
      const std::uint64_t address = device_.allocate(wanted);
      if (address != 0) {
        heads_.insert(address);
        return {address, wanted, true};
      }
      if (wanted == size) throw OutOfMemory("the RMM pool rules ran out of memory");
    }
  }

  CountingDevice& device_;
  std::mutex mutex_;
  std::list<Block> free_;
  std::set<std::uint64_t> heads_;
};

}  // namespace gpuwarden::bench
