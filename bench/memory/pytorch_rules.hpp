// SPDX-License-Identifier: Apache-2.0
// PyTorch's caching policy, written anew from its published description (comments of c10/cuda/CUDACachingAllocator.cpp
// and docs/source/notes/cuda.rst, 2.x), classic and with expandable segments. Not PyTorch.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "memory/device.hpp"

namespace gpuwarden::bench {

/// Sizes round to 512 B; up to 1 MiB from segments of 2 MiB, up to 10 MiB from segments of 20 MiB, larger ones from
/// segments of their own; best fit within a stream, split, merged within the segment. What another stream has used is
/// free once an event behind that use is done, looked at before each allocation. When memory is out, everything
/// pending is waited for and free segments (expandable: free granules) go back.
class PyTorchRules {
 public:
  PyTorchRules(CountingDevice& device, bool expandable) : device_(device), expandable_(expandable) {}
  ~PyTorchRules();
  PyTorchRules(const PyTorchRules&) = delete;
  PyTorchRules& operator=(const PyTorchRules&) = delete;

  std::uint64_t allocate(std::uint64_t size, std::uint32_t stream);
  /// `stream` is where the block was used last; it goes back to the stream that it was allocated on.
  void free(std::uint64_t address, std::uint64_t size, std::uint32_t stream);

 private:
  struct Pool;
  struct Block {
    std::uint32_t stream = 0;
    std::uint64_t size = 0;
    std::uint64_t address = 0;
    std::uint64_t segment = 0;  ///< where its segment begins
    Pool* pool = nullptr;
    Block* before = nullptr;
    Block* after = nullptr;
    bool allocated = false;
    bool mapped = true;
  };
  struct BySize {
    bool operator()(const Block* a, const Block* b) const {
      if (a->stream != b->stream) return a->stream < b->stream;
      if (a->size != b->size) return a->size < b->size;
      return a->address < b->address;
    }
  };
  struct ByAddress {
    bool operator()(const Block* a, const Block* b) const {
      if (a->stream != b->stream) return a->stream < b->stream;
      return a->address < b->address;
    }
  };
  struct Pool {
    bool small = false;
    std::set<Block*, BySize> free;
    std::set<Block*, ByAddress> unmapped;

    std::uint64_t granule() const { return small ? 2 * kMiB : 20 * kMiB; }
  };

  Block* find(Pool& pool, std::uint64_t size, std::uint32_t stream);
  Block* make_segment(Pool& pool, std::uint64_t size, std::uint32_t stream);
  Block* expand(Pool& pool, std::uint64_t size, std::uint32_t stream);
  Block* find_expandable(Pool& pool, std::uint64_t size, std::uint32_t stream);
  bool map(Block* block, std::uint64_t size);
  void unmap(Block* block);
  void merge(Block* into, Block* gone);
  void merge_neighbours(Block* block);
  Block* cut(Block* block, std::uint64_t size);
  void give_back(Block* block);
  void poll_pending();
  void release_cached();

  CountingDevice& device_;
  const bool expandable_;
  std::recursive_mutex mutex_;
  Pool small_{.small = true, .free = {}, .unmapped = {}};
  Pool large_;
  std::unordered_map<std::uint64_t, Block*> live_;
  std::map<std::uint32_t, std::deque<std::pair<Moment, Block*>>> pending_;
};

}  // namespace gpuwarden::bench
