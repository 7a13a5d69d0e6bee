// SPDX-License-Identifier: Apache-2.0
// The physical pages of a pool: those that are mapped nowhere, how many there are in all, and how many there may be.
#pragma once

#include <optional>
#include <vector>

#include "gpuwarden/memory/upstream.hpp"
#include "memory/region.hpp"

namespace gpuwarden::memory {

/// Behind the pool's lock for slow work. Counts upstream calls; after ErrorCode::unavailable it makes no more.
class PageStore {
 public:
  PageStore(Upstream& upstream, std::optional<Bytes> limit, Bytes keep_free)
      : upstream_(upstream), limit_(limit), keep_free_(keep_free) {}

  std::size_t spare() const { return spare_.size(); }
  std::uint64_t pages() const { return pages_; }
  Bytes reserved() const { return kPage * pages_; }
  Bytes peak_reserved() const { return kPage * peak_pages_; }
  Bytes limit();

  /// So many pages more, spare; all or none. unsatisfied: the limit, what is kept for others, or the device.
  Result<void> create(std::size_t count);
  /// So many spare pages less, or none.
  Result<void> destroy(std::size_t count);
  /// Puts spare pages behind a hole of `region`, which begins at `base`; there are enough.
  Result<void> map(DeviceAddress base, Region& region, Grains start, Grains size);
  /// Makes the pages behind part of `region` spare.
  Result<void> unmap(DeviceAddress base, Region& region, Grains start, Grains size);

  /// Passes on what an upstream call said; counts it, and remembers that the context is gone.
  template <class T>
  Result<T> called(Result<T> result) {
    ++calls;
    if (!result && result.error().code == ErrorCode::unavailable) lost = true;
    return result;
  }

  std::uint64_t calls = 0;
  std::uint64_t created = 0;
  bool lost = false;

 private:
  Upstream& upstream_;
  std::optional<Bytes> limit_;
  Bytes keep_free_;
  std::uint64_t pages_ = 0;
  std::uint64_t peak_pages_ = 0;
  std::vector<PageHandle> spare_;
};

}  // namespace gpuwarden::memory
