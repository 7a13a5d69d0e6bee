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

Bytes PageStore::limit() {
  if (limit_) return *limit_;
  const auto device = upstream_.memory();
  return device ? device->total : Bytes{};
}

Result<void> PageStore::create() {
  if (lost) return fail(ErrorCode::unavailable, "the device's context is gone");
  if (limit_ && reserved() + kPage > *limit_)
    return fail(ErrorCode::unsatisfied, fmt::format("the pool's limit of {} bytes is reached", limit_->value));
  if (keep_free_.value != 0) {
    GPUWARDEN_TRY(const auto device, called(upstream_.memory()));
    if (device.free < keep_free_ + kPage)
      return fail(ErrorCode::unsatisfied, fmt::format("{} bytes are kept free for others", keep_free_.value));
  }
  GPUWARDEN_TRY(const auto page, called(upstream_.create()));
  spare_.push_back(page);
  peak_pages_ = std::max(peak_pages_, ++pages_);
  ++created;
  return {};
}

Result<void> PageStore::destroy() {
  GPUWARDEN_CHECK(called(upstream_.destroy(spare_.back())));
  spare_.pop_back();
  --pages_;
  return {};
}

Result<void> PageStore::map(DeviceAddress base, Region& region, Grains start, Grains size) {
  const std::size_t count = size / kPageGrains;
  const std::span<const PageHandle> pages(spare_.data() + spare_.size() - count, count);
  GPUWARDEN_CHECK(called(upstream_.map(address_of(base, start), pages)));
  auto& handles = region.handles();
  const std::size_t first = start / kPageGrains;
  if (handles.size() < first + count) handles.resize(first + count);
  std::ranges::copy(pages, handles.begin() + static_cast<std::ptrdiff_t>(first));
  spare_.resize(spare_.size() - count);
  return {};
}

Result<void> PageStore::unmap(DeviceAddress base, Region& region, Grains start, Grains size) {
  if (lost) return fail(ErrorCode::unavailable, "the device's context is gone");
  GPUWARDEN_CHECK(called(upstream_.unmap(address_of(base, start), Bytes(std::uint64_t{size} << kGrainShift))));
  for (std::size_t page = start / kPageGrains; page < (std::size_t{start} + size) / kPageGrains; ++page) {
    spare_.push_back(region.handles()[page]);
    region.handles()[page] = {};
  }
  return {};
}

}  // namespace gpuwarden::memory
