// SPDX-License-Identifier: Apache-2.0
// The policy of RMM's pool_memory_resource, written anew from its description (rapidsai/rmm, documentation and header
// comments of stream_ordered_memory_resource and coalescing_free_list, 2026-07). Not RMM.
#pragma once

#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <set>

#include "memory/device.hpp"

namespace gpuwarden::bench {

/// One address-ordered list of free blocks a stream; sizes round to 256 B; best fit by looking at the whole list; then
/// other streams' lists, waiting for their last event; then their lists merged into one's own; then growth by doubling
/// what is held, halved until it fits. An event for every free.
class RmmPoolRules {
 public:
  explicit RmmPoolRules(CountingDevice& device) : device_(device) {}

  std::uint64_t allocate(std::uint64_t size, std::uint32_t stream) {
    const std::lock_guard lock(mutex_);
    size = round_up(size, kGrain);
    List& own = lists_[stream];
    if (const auto address = take(own, size)) return address;
    for (auto& [other, list] : lists_) {
      if (other == stream) continue;
      if (const auto address = take(list, size)) {
        device_.driver.wait(stream, list.event);
        return address;
      }
    }
    for (auto& [other, list] : lists_) {
      if (other == stream || list.free.empty()) continue;
      device_.driver.wait(stream, list.event);
      for (const Block& block : list.free) insert(own, block);
      list.free.clear();
      if (const auto address = take(own, size)) return address;
    }
    insert(own, grow(size));
    return take(own, size);
  }

  /// The block belongs to `stream` from now on.
  void free(std::uint64_t address, std::uint64_t size, std::uint32_t stream) {
    const std::lock_guard lock(mutex_);
    List& own = lists_[stream];
    own.event = device_.driver.record(stream);
    insert(own, {address, round_up(size, kGrain), heads_.contains(address)});
  }

 private:
  static constexpr std::uint64_t kGrain = 256;
  struct Block {
    std::uint64_t address;
    std::uint64_t size;
    bool head;  ///< the first of an upstream block: not merged with what lies before
  };
  struct List {
    std::list<Block> free;
    Moment event = 0;
  };

  /// Address of the best fitting block's begin; 0 if none fits. The rest stays in the list.
  static std::uint64_t take(List& list, std::uint64_t size) {
    const auto best = std::ranges::min_element(list.free, [size](const Block& a, const Block& b) {
      return a.size >= size && (b.size < size || a.size < b.size);
    });
    if (best == list.free.end() || best->size < size) return 0;
    const std::uint64_t address = best->address;
    if (best->size > size) {
      *best = {address + size, best->size - size, false};
    } else {
      list.free.erase(best);
    }
    return address;
  }

  static void insert(List& list, Block block) {
    auto& free = list.free;
    const auto next = std::ranges::find_if(free, [&](const Block& other) { return other.address > block.address; });
    const auto previous = next == free.begin() ? free.end() : std::prev(next);
    const bool joins_previous =
        previous != free.end() && previous->address + previous->size == block.address && !block.head;
    const bool joins_next = next != free.end() && block.address + block.size == next->address && !next->head;
    if (joins_previous) {
      previous->size += block.size + (joins_next ? next->size : 0);
      if (joins_next) free.erase(next);
    } else if (joins_next) {
      *next = {block.address, block.size + next->size, block.head};
    } else {
      free.insert(next, block);
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
  std::map<std::uint32_t, List> lists_;
  std::set<std::uint64_t> heads_;
};

}  // namespace gpuwarden::bench
