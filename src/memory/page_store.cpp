// SPDX-License-Identifier: Apache-2.0
#include "memory/page_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

namespace gpuwarden::memory {
namespace {

DeviceAddress address_of(DeviceAddress base, Grains start) {
  return {base.value + (static_cast<std::uint64_t>(start) << kGrainShift)};
}

}  // namespace

Result<void> PageStore::admit(Bytes wanted) {
  if (limit_ && reserved() + wanted > *limit_)
    return fail(ErrorCode::unsatisfied, fmt::format("the pool's limit of {} bytes is reached", limit_->value));
  if (keep_free_.value != 0) {
    GPUWARDEN_TRY(const auto device, called(upstream_.memory()));
    if (device.free < keep_free_ || device.free - keep_free_ < wanted)
      return fail(ErrorCode::unsatisfied, fmt::format("{} bytes are kept free for others", keep_free_.value));
  }
  if (budget_ && !budget_->take(wanted))
    return fail(ErrorCode::unsatisfied,
                fmt::format("the process's limit of {} bytes is reached", budget_->limit().value));
  return {};
}

Result<void> PageStore::create_pieces(std::span<PageHandle> pages) {
  for (std::size_t made = 0; made < pages.size();) {
    const std::size_t length = joined < 2 ? pages.size() : std::min(joined, pages.size() - made);
    const std::span<PageHandle> next = pages.subspan(made, length);
    auto result = called(length < 2 || joined < 2 ? upstream_.create(next) : upstream_.create_joined(next));
    if (joined < 2) calls += length - 1;  // a driver makes them one by one
    if (!result) {
      if (made > 0 && !lost) static_cast<void>(called(upstream_.destroy(pages.first(made))));
      return result;
    }
    made += length;
  }
  return {};
}

Result<void> PageStore::create(std::size_t count) {
  if (lost) return gone();
  const Bytes wanted = kPage * count;
  std::vector<PageHandle> made(count);
  spare_.reserve(spare_.size() + count);
  joined_.reserve(joined_.size() + count);
  GPUWARDEN_CHECK(admit(wanted));
  if (auto result = create_pieces(made); !result) {
    if (budget_) budget_->give(wanted);
    return result;
  }
  keep(made);
  pages_ += count;
  peak_pages_ = std::max(peak_pages_, pages_);
  created += count;
  return {};
}

void PageStore::keep(std::span<const PageHandle> pages) {
  for_each_piece(pages, [&](std::span<const PageHandle> piece) {
    if (piece.size() == 1) {
      spare_.push_back(piece.front());
    } else {
      joined_.push_back({piece.front(), piece.size()});
      joined_pages_ += piece.size();
    }
  });
}

void PageStore::count_gone(std::size_t pages) {
  pages_ -= pages;
  if (budget_) budget_->give(kPage * pages);
}

std::optional<PageStore::Piece> PageStore::take_piece(std::size_t most) {
  auto best = joined_.end();
  for (auto at = joined_.begin(); at != joined_.end(); ++at) {
    if (at->pages <= most && (best == joined_.end() || at->pages > best->pages)) best = at;
  }
  if (best == joined_.end()) return std::nullopt;
  const Piece taken = std::exchange(*best, joined_.back());
  joined_.pop_back();
  joined_pages_ -= taken.pages;
  return taken;
}

Result<void> PageStore::destroy(std::size_t count, std::size_t most) {
  if (count == 0) return {};
  if (lost) return PageStore::gone();
  std::vector<PageHandle> gone;
  gone.reserve(spare());
  const auto take_pieces = [&](std::size_t at_most) {
    while (gone.size() < count) {
      const auto piece = take_piece(at_most - gone.size());
      if (!piece) return;
      gone.insert(gone.end(), piece->pages, piece->handle);
    }
  };
  take_pieces(count);
  const auto from = spare_.end() - static_cast<std::ptrdiff_t>(std::min(count - gone.size(), spare_.size()));
  gone.insert(gone.end(), from, spare_.end());
  spare_.erase(from, spare_.end());
  take_pieces(std::max(most, count));
  if (gone.empty()) return {};
  if (auto result = called(upstream_.destroy(gone)); !result) {
    keep(gone);
    return result;
  }
  for_each_piece(gone, [&](auto) { ++calls; });
  --calls;
  count_gone(gone.size());
  return {};
}

Result<void> PageStore::remake(std::vector<PageHandle> pages, std::size_t first) {
  if (auto result = called(upstream_.destroy(pages)); !result) {
    keep(pages);
    return result;
  }
  --calls;
  for_each_piece(pages, [&](auto) { ++calls; });
  const std::span all(pages);
  std::size_t made = 0;
  for (const auto part : {all.first(first), all.subspan(first)}) {
    if (auto result = create_pieces(part); !result) {
      keep(all.first(made));
      count_gone(pages.size() - made);
      return result;
    }
    made += part.size();
  }
  keep(pages);
  return {};
}

Result<std::vector<PageHandle>> PageStore::take(std::size_t count) {
  std::vector<PageHandle> taken;
  taken.reserve(count);
  const auto take_pieces = [&] {
    while (taken.size() < count) {
      const auto piece = take_piece(count - taken.size());
      if (!piece) return;
      taken.insert(taken.end(), piece->pages, piece->handle);
    }
  };
  take_pieces();
  const std::size_t missing = count - taken.size();
  if (missing > 0 && (spare_.size() < missing || is_worth_joining(missing))) {
    // A piece is cut, or, where there is none, single pages become one.
    std::vector<PageHandle> again;
    again.reserve(spare());
    if (const auto smallest = std::ranges::min_element(joined_, {}, &Piece::pages);
        smallest != joined_.end() && spare_.size() < missing) {
      const auto piece = take_piece(smallest->pages);
      again.assign(piece->pages, piece->handle);
    } else {
      const auto from = spare_.end() - static_cast<std::ptrdiff_t>(missing);
      again.assign(from, spare_.end());
      spare_.erase(from, spare_.end());
    }
    if (auto result = remake(std::move(again), missing); !result) {
      keep(taken);
      return std::unexpected(result.error());
    }
    take_pieces();
  }
  const auto from = spare_.end() - static_cast<std::ptrdiff_t>(count - taken.size());
  taken.insert(taken.end(), from, spare_.end());
  spare_.erase(from, spare_.end());
  return taken;
}

Result<void> PageStore::map(DeviceAddress base, Region& region, Grains start, Grains size) {
  if (lost) return gone();
  const std::size_t count = size / kPageGrains;
  auto& handles = region.handles();
  const std::size_t first = start / kPageGrains;
  const std::size_t before = handles.size();
  if (before < first + count) handles.resize(first + count);
  auto pages = take(count);
  if (pages) {
    if (const auto result = called(upstream_.map(address_of(base, start), *pages)); !result) {
      keep(*pages);
      pages = std::unexpected(result.error());
    }
  }
  if (!pages) {
    handles.resize(before);
    return std::unexpected(pages.error());
  }
  std::ranges::copy(*pages, handles.begin() + static_cast<std::ptrdiff_t>(first));
  return {};
}

Result<void> PageStore::unmap(DeviceAddress base, Region& region, Grains start, Grains size) {
  if (lost) return gone();
  const auto pages = std::span(region.handles()).subspan(start / kPageGrains, size / kPageGrains);
  spare_.reserve(spare_.size() + pages.size());
  joined_.reserve(joined_.size() + pages.size());
  GPUWARDEN_CHECK(called(upstream_.unmap(address_of(base, start), bytes(size))));
  keep(pages);
  std::ranges::fill(pages, PageHandle{});
  return {};
}

}  // namespace gpuwarden::memory
