// SPDX-License-Identifier: Apache-2.0
// The physical pages of a pool: those that are mapped nowhere, how many there are in all, and how many there may be.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
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

  std::size_t spare() const { return spare_.size() + joined_pages_; }
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

  /// So many pages more, spare; all or none. unsatisfied: the limit, what is kept for others, or the device.
  Result<void> create(std::size_t count);
  /// So many spare pages less, or none; where only larger pieces are left, up to `most`, or fewer.
  Result<void> destroy(std::size_t count, std::size_t most);
  /// Puts spare pages behind a hole of `region`, which begins at `base`; there are enough. Pieces that do not fit are
  /// given back and made anew; where the device refuses that there are fewer pages afterwards.
  Result<void> map(DeviceAddress base, Region& region, Grains start, Grains size);
  /// Makes the pages behind part of `region`, in which pieces lie whole, spare.
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

  std::size_t joined = 1;  ///< pages that a new piece may have
  std::uint64_t calls = 0;
  std::uint64_t created = 0;
  bool lost = false;

 private:
  /// Pages with one handle.
  struct Piece {
    PageHandle handle;
    std::size_t pages;
  };

  /// Whether the limits leave so much.
  Result<void> admit(Bytes wanted);
  Result<void> create_pieces(std::span<PageHandle> pages);
  /// No longer spare, `count` pages that are spare; pieces first.
  Result<std::vector<PageHandle>> take(std::size_t count);
  /// Spare, from now on.
  void keep(std::span<const PageHandle> pages);
  /// A piece of at most so many pages; empty: there is none.
  std::optional<Piece> take_piece(std::size_t most);
  /// So many of these pages become pieces of their own, and so does the rest.
  Result<void> remake(std::vector<PageHandle> pages, std::size_t first);
  /// Whether so many spare single pages are better one piece.
  bool is_worth_joining(std::size_t count) const { return joined > 1 && count >= kJoinFrom; }
  static constexpr std::size_t kJoinFrom = 4;
  void count_gone(std::size_t pages);

  Upstream& upstream_;
  std::atomic<std::uint64_t>& usable_in_;
  const Bytes total_;
  std::optional<Bytes> limit_;
  Bytes keep_free_;
  std::shared_ptr<MemoryBudget> budget_;
  std::uint64_t pages_ = 0;
  std::uint64_t peak_pages_ = 0;
  std::vector<PageHandle> spare_;  ///< of one page each
  std::vector<Piece> joined_;      ///< spare, of several pages each
  std::size_t joined_pages_ = 0;
};

}  // namespace gpuwarden::memory
