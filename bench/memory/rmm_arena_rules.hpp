// SPDX-License-Identifier: Apache-2.0
// The policy of RMM's arena_memory_resource, written anew from its description (docs.rapids.ai, librmm:
// arena_memory_resource, 2026-07). Not RMM.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "memory/device.hpp"

namespace gpuwarden::bench {

/// Free memory by address; neighbours are merged. Address-ordered first fit.
class FirstFit {
 public:
  /// 0: none fits.
  std::uint64_t take(std::uint64_t size) {
    const auto found = std::ranges::find_if(free_, [size](const auto& block) { return block.second >= size; });
    if (found == free_.end()) return 0;
    const auto [address, has] = *found;
    free_.erase(found);
    if (has > size) free_.emplace(address + size, has - size);
    return address;
  }
  /// Merges only within [low, high). The block that came of it.
  std::pair<std::uint64_t, std::uint64_t> give(std::uint64_t address, std::uint64_t size, std::uint64_t low,
                                               std::uint64_t high) {
    auto next = free_.lower_bound(address);
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first >= low && before->first + before->second == address) {
        address = before->first;
        size += before->second;
        free_.erase(before);
      }
    }
    if (next != free_.end() && next->first < high && next->first == address + size) {
      size += next->second;
      free_.erase(next);
    }
    free_.emplace(address, size);
    return {address, size};
  }
  void erase(std::uint64_t address) { free_.erase(address); }

 private:
  std::map<std::uint64_t, std::uint64_t> free_;
};

/// A global arena, taken at once: all but 64 MiB of the device, as in RMM's own benchmark (rapidsai/rmm,
/// cpp/benchmarks/random_allocations; else half of what is free). Each stream has an arena of superblocks from it, of 1
/// MiB at least (the description names no size), which go back when they are free as a whole. What is freed on another
/// stream goes to the arena that it came from, whose stream waits for that one.
class RmmArenaRules {
 public:
  explicit RmmArenaRules(CountingDevice& device) : device_(device) {
    const std::uint64_t kept = std::min(64 * kMiB, device.capacity() / 2);
    size_ = (device.capacity() - kept) / kGrain * kGrain;
    if (size_ == 0 || (base_ = device.allocate(size_)) == 0) return;
    global_.give(base_, size_, base_, base_ + size_);
  }

  std::uint64_t allocate(std::uint64_t size, std::uint32_t stream) {
    const std::lock_guard lock(mutex_);
    size = round_up(size, kGrain);
    FirstFit& own = arenas_[stream];
    if (const std::uint64_t address = own.take(size)) return address;
    const std::uint64_t wanted = std::max(size, kSuperblock);
    const std::uint64_t superblock = global_.take(wanted);
    if (superblock == 0) throw OutOfMemory("the RMM arena rules ran out of memory");
    device_.driver.wait(stream, returned_);
    superblocks_.emplace(superblock, Superblock{wanted, stream});
    if (wanted > size) own.give(superblock + size, wanted - size, superblock, superblock + wanted);
    return superblock;
  }

  void free(std::uint64_t address, std::uint64_t size, std::uint32_t stream) {
    const std::lock_guard lock(mutex_);
    const auto home = std::prev(superblocks_.upper_bound(address));
    const auto [begin, superblock] = *home;
    if (superblock.stream != stream) device_.driver.wait(superblock.stream, device_.driver.record(stream));
    FirstFit& arena = arenas_[superblock.stream];
    const auto merged = arena.give(address, round_up(size, kGrain), begin, begin + superblock.size);
    if (merged.second != superblock.size) return;
    arena.erase(begin);
    superblocks_.erase(home);
    global_.give(begin, superblock.size, base_, base_ + size_);
    returned_ = std::max(returned_, device_.driver.record(superblock.stream));
  }

 private:
  static constexpr std::uint64_t kGrain = 256;
  static constexpr std::uint64_t kSuperblock = kMiB;
  struct Superblock {
    std::uint64_t size;
    std::uint32_t stream;
  };

  CountingDevice& device_;
  std::mutex mutex_;
  std::uint64_t base_ = 0;
  std::uint64_t size_ = 0;
  FirstFit global_;
  std::map<std::uint32_t, FirstFit> arenas_;
  std::map<std::uint64_t, Superblock> superblocks_;  ///< by address
  Moment returned_ = 0;                              ///< the work on what went back to the global arena
};

}  // namespace gpuwarden::bench
