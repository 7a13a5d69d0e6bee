// SPDX-License-Identifier: Apache-2.0
// Pieces of larger segments: small cuMemAlloc blocks and the stream-ordered memory pools. A freed block remembers the
// work of which stream it waits for.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "sim/cuda/timeline.hpp"

namespace gpuwarden::cuda::server {

/// Which freed blocks of other streams may be taken; CUDA's pool attributes of the same names.
struct ReuseRules {
  bool follow_event_dependencies = true;
  bool allow_opportunistic = true;
  bool allow_internal_dependencies = true;
};

/// Call with the driver's lock held.
class Segments {
 public:
  /// `grow` gets the size of a new segment and gives its address, or 0; `shrink` gives one back.
  struct Upstream {
    std::function<std::uint64_t(std::uint64_t)> grow;
    std::function<void(std::uint64_t, std::uint64_t)> shrink;
  };
  Segments(std::uint64_t segment_size, std::uint64_t alignment, Upstream upstream);

  /// A block for work on `stream` (nullptr: for everybody, at once); 0 where no segment can be had. Taking a block that
  /// another stream still uses makes this stream wait for it, where the rules allow.
  std::uint64_t take(std::uint64_t size, StreamState* stream, Moment now, const ReuseRules& rules);
  /// Frees a block; work of `stream` that is already queued may still use it.
  bool give(std::uint64_t address, const StreamState* stream, Moment now);
  /// Gives back segments without a block or pending work, as long as more than `keep` bytes are reserved.
  void trim(std::uint64_t keep, Moment now);
  /// Gives all back.
  void clear();

  std::uint64_t reserved() const { return reserved_; }
  std::uint64_t used() const { return used_; }
  std::uint64_t reserved_high = 0;
  std::uint64_t used_high = 0;

 private:
  struct Block {
    std::uint64_t size = 0;
    std::uint64_t segment = 0;  // address of the segment it lies in
    bool free = false;
    std::uint64_t stream = 0;  // freed there; 0: nobody waits
    std::uint64_t work = 0;
    Moment at = 0;
  };
  using Blocks = std::map<std::uint64_t, Block>;

  std::uint64_t rounded(std::uint64_t size) const;
  Blocks::iterator find(std::uint64_t size, const StreamState* stream, Moment now, const ReuseRules& rules);
  bool is_usable(const Block& block, const StreamState* stream, Moment now, const ReuseRules& rules) const;
  std::uint64_t carve(Blocks::iterator block, std::uint64_t size);
  bool grow(std::uint64_t size);
  void settle(Moment now);
  void set_free(Blocks::iterator block);
  Blocks::iterator merge(Blocks::iterator block);

  std::uint64_t segment_size_;
  std::uint64_t alignment_;
  Upstream upstream_;
  Blocks blocks_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> free_;  // size, address
  std::map<std::uint64_t, std::uint64_t> segments_;         // address, size
  std::uint64_t reserved_ = 0;
  std::uint64_t used_ = 0;
};

}  // namespace gpuwarden::cuda::server
