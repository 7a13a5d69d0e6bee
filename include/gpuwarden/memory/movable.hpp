// SPDX-License-Identifier: Apache-2.0
// Buffers that may be moved while nobody has them pinned, so that pages with little live data on them become free.
// Addresses that were handed out as such (to PyTorch, for example) never move.
//
//   MovableMemory memory(*pool);
//   auto buffer = memory.allocate(300_KiB, stream);
//   auto pinned = memory.pin(*buffer, stream);    // the address holds until it is unpinned
//   ...                                           // submit work to stream
//   memory.unpin(*buffer, stream);
//   memory.defragment({.max_bytes = 256_MiB});
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "gpuwarden/memory/pool.hpp"

namespace gpuwarden::memory {

/// A buffer that may move; 0 is none.
struct MovableId {
  std::uint64_t value = 0;
  auto operator<=>(const MovableId&) const = default;
};

/// Where a buffer is while it is pinned.
struct PinnedBuffer {
  DeviceAddress address;
  Bytes size;
  std::uint64_t generation = 0;  ///< how often it has moved
};

/// What one pass of defragmentation may do.
struct DefragmentLimits {
  Bytes max_bytes = Bytes(~std::uint64_t{0});
  std::uint64_t max_moves = ~std::uint64_t{0};
};

struct DefragmentStatistics {
  Bytes bytes_moved;
  std::uint64_t moves = 0;
  std::uint64_t pages_freed = 0;  ///< pages of 2 MiB without a user more than before
};

/// Safe to use from several threads. The pool must outlive it; what is live goes back to the pool at its end.
class MovableMemory {
 public:
  /// Copies on a stream; source and target do not overlap.
  using Copy = std::function<Result<void>(DeviceAddress to, DeviceAddress from, Bytes size, StreamId stream)>;

  /// Without `copy` the pool's upstream copies.
  explicit MovableMemory(Pool& pool, Copy copy = {});
  MovableMemory(const MovableMemory&) = delete;
  MovableMemory& operator=(const MovableMemory&) = delete;
  ~MovableMemory();

  /// Errors as of Pool::allocate.
  Result<MovableId> allocate(Bytes size, StreamId stream);
  /// Gives a buffer back as of the work submitted so far to its stream and to those that it was unpinned on.
  /// invalid_argument: there is no such buffer, or it is pinned.
  Result<void> deallocate(MovableId id);

  /// Keeps the buffer where it is and tells where, for work on `stream`, which is made to wait for a move that is still
  /// under way. Pins are counted. invalid_argument: there is no such buffer.
  Result<PinnedBuffer> pin(MovableId id, StreamId stream);
  /// Takes one pin back, as of the work submitted to `stream` so far. invalid_argument: it is not pinned.
  Result<void> unpin(MovableId id, StreamId stream);

  /// One pass: moves unpinned buffers away from pages that nothing else uses, where fewer pages are needed afterwards.
  /// Without moves in the statistics there is nothing more to gain. An error of the copy or of an event stops the pass;
  /// what was moved until then is good, and in statistics().
  Result<DefragmentStatistics> defragment(const DefragmentLimits& limits = {});
  /// All passes together.
  DefragmentStatistics statistics() const;

 private:
  struct Buffer {
    DeviceAddress address;
    Bytes size;
    Bytes held;  ///< in whole grains
    StreamId stream;
    unsigned pins = 0;
    std::uint64_t generation = 0;
    std::vector<StreamId> users;                           ///< other streams that worked on it since the last move
    std::vector<std::pair<StreamId, std::uint64_t>> seen;  ///< which streams wait for which move
  };
  /// Buffers that have to leave together for pages to become free.
  struct Group {
    std::vector<Buffer*> buffers;
    std::set<std::uint64_t> leaving;  ///< the pages that they lie on
    Bytes bytes;
    std::uint64_t pages = 0;  ///< that become free
  };
  class PageMap;

  Buffer* find(MovableId id);
  static std::vector<std::uint64_t> pages_of(const Buffer& buffer);
  static Group group_of(const PageMap& map, std::uint64_t page);
  Result<bool> move_group(const Group& group, DefragmentStatistics& pass);
  Result<void> move_to(Buffer& buffer, DeviceAddress target);

  Pool& pool_;
  Copy copy_;
  mutable std::mutex mutex_;
  std::map<MovableId, Buffer> buffers_;
  std::uint64_t last_id_ = 0;
  DefragmentStatistics total_;
};

}  // namespace gpuwarden::memory
