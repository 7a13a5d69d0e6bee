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

Result<void> PageStore::create(std::size_t count) {
  if (lost) return gone();
  const Bytes wanted = kPage * count;
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
  spare_.resize(spare_.size() + count);
  const auto result = called(upstream_.create(std::span(spare_).last(count)));
  calls += count - 1;  // a driver makes them one by one
  if (!result) {
    spare_.resize(spare_.size() - count);
    if (budget_) budget_->give(wanted);
    return result;
  }
  pages_ += count;
  peak_pages_ = std::max(peak_pages_, pages_);
  created += count;
  return {};
}

Result<void> PageStore::destroy(std::size_t count) {
  if (count == 0) return {};
  if (lost) return gone();
  GPUWARDEN_CHECK(called(upstream_.destroy(std::span<const PageHandle>(spare_).last(count))));
  calls += count - 1;
  spare_.resize(spare_.size() - count);
  pages_ -= count;
  if (budget_) budget_->give(kPage * count);
  return {};
}

Result<void> PageStore::map(DeviceAddress base, Region& region, Grains start, Grains size) {
  if (lost) return gone();
  const std::size_t count = size / kPageGrains;
  const std::span<const PageHandle> pages(spare_.data() + spare_.size() - count, count);
  auto& handles = region.handles();
  const std::size_t first = start / kPageGrains;
  const std::size_t before = handles.size();
  if (before < first + count) handles.resize(first + count);
  if (auto result = called(upstream_.map(address_of(base, start), pages)); !result) {
    handles.resize(before);
    return result;
  }
  std::ranges::copy(pages, handles.begin() + static_cast<std::ptrdiff_t>(first));
  spare_.resize(spare_.size() - count);
  return {};
}

Result<void> PageStore::unmap(DeviceAddress base, Region& region, Grains start, Grains size) {
  if (lost) return gone();
  GPUWARDEN_CHECK(called(upstream_.unmap(address_of(base, start), bytes(size))));
  for (std::size_t page = start / kPageGrains; page < (std::size_t{start} + size) / kPageGrains; ++page) {
    spare_.push_back(region.handles()[page]);
    region.handles()[page] = {};
  }
  return {};
}

}  // namespace gpuwarden::memory
