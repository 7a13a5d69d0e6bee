// SPDX-License-Identifier: Apache-2.0
#include "memory/page_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace gpuwarden::memory {
namespace {

DeviceAddress address_of(DeviceAddress base, Grains start) {
  return {base.value + (static_cast<std::uint64_t>(start) << kGrainShift)};
}

}  // namespace

void PageStore::make_room(std::size_t pieces) {
  for (auto* const list : {&spare_, &pieces_}) {
    const std::size_t wanted = list->size() + taken_ + pieces;
    if (list->capacity() < wanted) list->reserve(std::max(wanted, 2 * list->capacity()));
  }
}

Result<void> PageStore::create(std::span<PageHandle> pieces) {
  if (lost) return gone();
  const std::uint64_t count = pages_in(pieces);
  const Bytes wanted = kPage * count;
  if (limit_ && reserved() + wanted > *limit_)
    return fail(ErrorCode::unsatisfied, fmt::format("the pool's limit of {} bytes is reached", limit_->value));
  if (keep_free_.value != 0) {
    GPUWARDEN_TRY(const auto device, called(upstream_.memory()));
    if (device.free < keep_free_ || device.free - keep_free_ < wanted)
      return fail(ErrorCode::unsatisfied, fmt::format("{} bytes are kept free for others", keep_free_.value));
  }
  make_room(pieces.size());
  if (budget_ && !budget_->take(wanted))
    return fail(ErrorCode::unsatisfied,
                fmt::format("the process's limit of {} bytes is reached", budget_->limit().value));
  const auto result = called(upstream_.create(pieces));
  calls += pieces.size() - 1;  // a driver makes them one by one
  if (!result) {
    if (budget_) budget_->give(wanted);
    return result;
  }
  taken_ += pieces.size();
  pages_ += count;
  peak_pages_ = std::max(peak_pages_, pages_);
  created += count;
  return {};
}

Result<void> PageStore::destroy(std::size_t count) {
  if (count == 0 || spare_pages_ == 0) return {};
  if (lost) return gone();
  return destroy_taken(take(static_cast<std::uint32_t>(std::min(count, spare_pages_))));
}

Result<void> PageStore::destroy_taken(std::span<const PageHandle> pieces) {
  if (pieces.empty()) return {};
  if (auto result = called(upstream_.destroy(pieces)); !result) {
    put_back(pieces);
    return result;
  }
  taken_ -= pieces.size();
  const std::uint64_t pages = pages_in(pieces);
  calls += pieces.size() - 1;
  pages_ -= pages;
  if (budget_) budget_->give(kPage * pages);
  return {};
}

bool PageStore::destroy_whole(std::uint32_t pages) {
  if (lost) return false;
  std::vector<PageHandle> pieces = take(pages);
  // What is left are larger ones.
  if (pages_in(pieces) < pages && !pieces_.empty()) {
    const auto least = std::ranges::min_element(pieces_, {}, &PageHandle::pages);
    put_back(pieces);
    pieces.assign(1, *least);
    spare_pages_ -= least->pages;
    ++taken_;
    pieces_.erase(least);
  }
  return !pieces.empty() && destroy_taken(pieces).has_value();
}

std::vector<PageHandle> PageStore::take(std::uint32_t pages) {
  std::vector<PageHandle> result;
  // Before anything is taken, since what throws later would lose it. A piece has a page at least.
  result.reserve(std::min<std::size_t>(pages, pieces_.size() + spare_.size()));
  while (pages > 0 && !pieces_.empty()) {
    auto best = pieces_.end();
    for (auto at = pieces_.begin(); at != pieces_.end(); ++at) {
      if (at->pages <= pages && (best == pieces_.end() || at->pages > best->pages)) best = at;
    }
    if (best == pieces_.end()) break;
    pages -= best->pages;
    spare_pages_ -= best->pages;
    result.push_back(*best);
    *best = pieces_.back();
    pieces_.pop_back();
    ++taken_;
  }
  const std::size_t singles = std::min<std::size_t>(pages, spare_.size());
  const auto first = spare_.end() - static_cast<std::ptrdiff_t>(singles);
  result.insert(result.end(), first, spare_.end());
  spare_.erase(first, spare_.end());
  spare_pages_ -= singles;
  taken_ += singles;
  return result;
}

void PageStore::put_back(std::span<const PageHandle> pieces) noexcept {
  for (const PageHandle piece : pieces) {
    (piece.pages == 1 ? spare_ : pieces_).push_back(piece);
    spare_pages_ += piece.pages;
    --taken_;
  }
}

Result<void> PageStore::map(DeviceAddress base, Region& region, Grains start, std::span<const PageHandle> pieces) {
  if (lost) return gone();
  auto& handles = region.handles();
  const std::size_t first = start / kPageGrains;
  const std::size_t before = handles.size();
  const std::size_t count = pages_in(pieces);
  if (before < first + count) handles.resize(first + count, PageHandle{});
  if (auto result = called(upstream_.map(address_of(base, start), pieces)); !result) {
    handles.resize(before);
    return result;
  }
  std::size_t page = first;
  for (const PageHandle& piece : pieces) {
    handles[page++] = piece;
    for (std::uint32_t rest = 1; rest < piece.pages; ++rest) handles[page++] = {piece.value, 0};
    --taken_;
  }
  return {};
}

Result<void> PageStore::unmap(DeviceAddress base, Region& region, Grains start, Grains size) {
  if (lost) return gone();
  make_room(size / kPageGrains);
  GPUWARDEN_CHECK(called(upstream_.unmap(address_of(base, start), bytes(size))));
  for (std::size_t page = start / kPageGrains; page < (std::size_t{start} + size) / kPageGrains; ++page) {
    const PageHandle piece = std::exchange(region.handles()[page], PageHandle{});
    if (piece.pages == 0) continue;
    (piece.pages == 1 ? spare_ : pieces_).push_back(piece);
    spare_pages_ += piece.pages;
  }
  return {};
}

}  // namespace gpuwarden::memory
