// SPDX-License-Identifier: Apache-2.0
// The physical pages of a pool: those that are mapped nowhere, how many there are in all, and how many there may be.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "gpuwarden/memory/budget.hpp"
#include "gpuwarden/memory/upstream.hpp"
#include "memory/region.hpp"

namespace gpuwarden::memory {

/// Behind the pool's lock for slow work. Counts upstream calls; after ErrorCode::unavailable it makes no more.
class PageStore {
 public:
  /// `total`: what the device has; `usable_in`: what the common path asks, which no process is once the context is
  /// gone.
  // NOLINTNEXTLINE(readability-function-size): it is made in one place, of what Core has
  PageStore(Upstream& upstream, Bytes total, std::optional<Bytes> limit, Bytes keep_free,
            std::shared_ptr<MemoryBudget> budget, std::atomic<std::uint64_t>& usable_in)
      : upstream_(upstream),
        usable_in_(usable_in),
        total_(total),
        limit_(limit),
        keep_free_(keep_free),
        budget_(std::move(budget)) {}
  PageStore(const PageStore&) = delete;
  PageStore& operator=(const PageStore&) = delete;
  /// What could not be given back is no longer charged: the context is gone, and its memory with it.
  ~PageStore() {
    if (budget_) budget_->give(reserved());
  }

  /// Pages that are mapped nowhere.
  std::size_t spare() const { return spare_pages_; }
  std::uint64_t pages() const { return pages_; }
  Bytes reserved() const { return kPage * pages_; }
  Bytes peak_reserved() const { return kPage * peak_pages_; }
  Bytes limit() const { return limit_.value_or(total_); }
  /// Empty: what the device has.
  void set_limit(std::optional<Bytes> limit) { limit_ = limit; }
  Bytes total() const { return total_; }
  /// The limit that was set, if one was.
  std::optional<Bytes> own_limit() const { return limit_; }
  const MemoryBudget* budget() const { return budget_.get(); }

  /// Makes the pieces, which say how many pages they are to have, as if they had been taken; all or none. unsatisfied:
  /// the limit, what is kept for others, or the device.
  Result<void> create(std::span<PageHandle> pieces);
  /// Spare pieces that have so many pages together, or as many as pieces allow, go back to the device, or none.
  Result<void> destroy(std::size_t count);
  /// Spare pieces that have at least so many pages together, as few as possible, or all there are, go back to the
  /// device; whether any did.
  bool destroy_whole(std::uint32_t pages);
  /// Takes spare pieces for at most so many pages, the largest first, to be mapped or put back.
  std::vector<PageHandle> take(std::uint32_t pages);
  void put_back(std::span<const PageHandle> pieces) noexcept;
  /// Puts pieces that were taken behind a hole of `region`, which begins at `base`.
  Result<void> map(DeviceAddress base, Region& region, Grains start, std::span<const PageHandle> pieces);
  /// Makes the pieces behind part of `region` spare.
  Result<void> unmap(DeviceAddress base, Region& region, Grains start, Grains size);

  /// Passes on what an upstream call said; counts it, and remembers that the context is gone: from then on the common
  /// path gives nothing out.
  template <class T>
  Result<T> called(Result<T> result) {
    ++calls;
    if (!result && result.error().code == ErrorCode::unavailable) {
      lost = true;
      usable_in_.store(~std::uint64_t{0}, std::memory_order_relaxed);
    }
    return result;
  }
  static std::unexpected<Error> gone() { return fail(ErrorCode::unavailable, "the device's context is gone"); }

  std::uint64_t calls = 0;
  std::uint64_t created = 0;
  bool lost = false;

 private:
  Upstream& upstream_;
  std::atomic<std::uint64_t>& usable_in_;
  const Bytes total_;
  std::optional<Bytes> limit_;
  Bytes keep_free_;
  std::shared_ptr<MemoryBudget> budget_;
  std::uint64_t pages_ = 0;
  std::uint64_t peak_pages_ = 0;
  Result<void> destroy_taken(std::span<const PageHandle> pieces);
  /// There is room in the lists for so many pieces more, and for those that were taken.
  void make_room(std::size_t pieces);

  std::vector<PageHandle> spare_;   ///< pieces of a page
  std::vector<PageHandle> pieces_;  ///< of several
  std::size_t spare_pages_ = 0;
  std::size_t taken_ = 0;  ///< pieces
};

}  // namespace gpuwarden::memory
