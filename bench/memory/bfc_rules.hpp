// SPDX-License-Identifier: Apache-2.0
// The policy of TensorFlow's BFC allocator, written anew from its description (comments of
// tsl/framework/bfc_allocator.h). Not TensorFlow.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "memory/device.hpp"

namespace gpuwarden::bench {

/// Sizes round to 256 B; 21 bins by powers of two, each ordered by size and address; the first chunk that fits is split
/// if it is twice the request or 128 MiB would be wasted; chunks merge with free neighbours of their region; regions
/// grow by doubling from 2 MiB, a tenth less until one fits; before giving up, free regions go back. Knows no streams.
class BfcRules {
 public:
  explicit BfcRules(CountingDevice& device) : device_(device) {}

  std::uint64_t allocate(std::uint64_t size, std::uint32_t) {
    const std::lock_guard lock(mutex_);
    size = round_up(size, kGrain);
    Handle found = find(size);
    if (found == kNone) {
      extend(size);
      found = find(size);
    }
    live_[chunks_[found].address] = found;
    return chunks_[found].address;
  }

  void free(std::uint64_t address, std::uint64_t, std::uint32_t) {
    const std::lock_guard lock(mutex_);
    const auto at = live_.find(address);
    Handle handle = at->second;
    live_.erase(at);
    chunks_[handle].free = true;
    if (const Handle next = chunks_[handle].after; next != kNone && chunks_[next].free) {
      unbin(next);
      merge(handle, next);
    }
    if (const Handle previous = chunks_[handle].before; previous != kNone && chunks_[previous].free) {
      unbin(previous);
      merge(previous, handle);
      handle = previous;
    }
    bin(handle);
  }

 private:
  using Handle = std::uint32_t;
  static constexpr Handle kNone = ~Handle{0};
  static constexpr std::uint64_t kGrain = 256;
  static constexpr unsigned kBins = 21;
  struct Chunk {
    std::uint64_t address = 0;
    std::uint64_t size = 0;
    Handle before = kNone;
    Handle after = kNone;
    bool free = true;
  };
  using Key = std::pair<std::pair<std::uint64_t, std::uint64_t>, Handle>;

  static unsigned bin_of(std::uint64_t size) {
    return std::min(kBins - 1, static_cast<unsigned>(std::bit_width(size / kGrain)) - 1);
  }
  Key key(Handle handle) const { return {{chunks_[handle].size, chunks_[handle].address}, handle}; }
  void bin(Handle handle) { bins_[bin_of(chunks_[handle].size)].insert(key(handle)); }
  void unbin(Handle handle) { bins_[bin_of(chunks_[handle].size)].erase(key(handle)); }

  Handle make(Chunk chunk) {
    if (unused_.empty()) {
      chunks_.push_back(chunk);
      return static_cast<Handle>(chunks_.size() - 1);
    }
    const Handle handle = unused_.back();
    unused_.pop_back();
    chunks_[handle] = chunk;
    return handle;
  }

  void merge(Handle into, Handle gone) {
    chunks_[into].size += chunks_[gone].size;
    chunks_[into].after = chunks_[gone].after;
    if (chunks_[into].after != kNone) chunks_[chunks_[into].after].before = into;
    unused_.push_back(gone);
  }

  Handle find(std::uint64_t size) {
    for (unsigned number = bin_of(size); number < kBins; ++number) {
      const auto at = bins_[number].lower_bound({{size, 0}, 0});
      if (at == bins_[number].end()) continue;
      const Handle handle = at->second;
      bins_[number].erase(at);
      const std::uint64_t have = chunks_[handle].size;
      if (have >= 2 * size || have - size >= 128 * kMiB) split(handle, size);
      chunks_[handle].free = false;
      return handle;
    }
    return kNone;
  }

  void split(Handle handle, std::uint64_t size) {
    const Chunk chunk = chunks_[handle];
    const Handle rest = make({chunk.address + size, chunk.size - size, handle, chunk.after, true});
    if (chunk.after != kNone) chunks_[chunk.after].before = rest;
    chunks_[handle].size = size;
    chunks_[handle].after = rest;
    bin(rest);
  }

  void extend(std::uint64_t size) {
    const bool doubled = size > region_;
    while (size > region_) region_ *= 2;
    std::uint64_t wanted = region_;
    std::uint64_t address = device_.allocate(wanted);
    bool released = false;
    while (address == 0) {
      wanted = static_cast<std::uint64_t>(static_cast<double>(wanted) * 0.9) / kGrain * kGrain;
      if (wanted < size) {
        if (released) throw OutOfMemory("the BFC rules ran out of memory");
        released = true;
        release_free_regions();
        wanted = std::max(size, region_);
      }
      address = device_.allocate(wanted);
    }
    if (!doubled) region_ *= 2;
    bin(make({address, wanted, kNone, kNone, true}));
  }

  void release_free_regions() {
    for (auto& bin : bins_) {
      for (auto at = bin.begin(); at != bin.end();) {
        const Chunk& chunk = chunks_[at->second];
        if (chunk.before != kNone || chunk.after != kNone) {
          ++at;
          continue;
        }
        device_.free(chunk.size);
        unused_.push_back(at->second);
        at = bin.erase(at);
      }
    }
  }

  CountingDevice& device_;
  std::mutex mutex_;
  std::array<std::set<Key>, kBins> bins_;
  std::vector<Chunk> chunks_;
  std::vector<Handle> unused_;
  std::unordered_map<std::uint64_t, Handle> live_;
  std::uint64_t region_ = 2 * kMiB;
};

}  // namespace gpuwarden::bench
