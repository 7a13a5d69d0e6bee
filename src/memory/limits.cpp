// SPDX-License-Identifier: Apache-2.0
// A pool's limits, changed while it is in use.
#include <fmt/format.h>

#include <algorithm>

#include "memory/core.hpp"

namespace gpuwarden::memory {

Result<std::optional<Bytes>> Pool::Core::hard_limit(const PoolLimits& limits, Bytes total) {
  if (!limits.limit_fraction) return limits.limit;
  const double fraction = *limits.limit_fraction;
  if (!(fraction > 0 && fraction <= 1))
    return fail(ErrorCode::invalid_argument, fmt::format("a pool cannot be limited to {} of a device", fraction),
                "a share is above 0 and at most 1");
  const Bytes share = MemoryLimit{.bytes = std::nullopt, .fraction = fraction}.of(total);
  return std::min(limits.limit.value_or(share), share);
}

Result<void> Pool::Core::set_limit(const PoolLimits& limits) {
  GPUWARDEN_TRY(const std::optional<Bytes> hard, hard_limit(limits, pages_.total()));
  const std::lock_guard slow(slow_);
  const auto is_met = [&] { return !hard || pages_.reserved() <= *hard; };
  const std::uint64_t kept = hard ? hard->value / kPage.value : ~std::uint64_t{0};
  shrink_to(kept, true);
  if (!is_met()) {
    // What other streams may still use comes free once their work is done.
    for_each_lane([&](Lane& lane) { block_until_done(lane); });
    shrink_to(kept, true);
  }
  if (pages_.lost) return PageStore::gone();
  if (is_met()) {
    pages_.set_limit(hard);
    soft_limit_ = limits.soft_limit;
    return {};
  }
  const Bytes live(live_bytes());
  if (live > *hard)
    return fail(ErrorCode::unsatisfied,
                fmt::format("the pool cannot be limited to {} bytes: {} are live", hard->value, live.value),
                "free some of it before, or set a higher limit");
  return fail(ErrorCode::unsatisfied,
              fmt::format("the pool cannot be limited to {} bytes: its {} live bytes hold pages of {}", hard->value,
                          live.value, pages_.reserved().value),
              captures_underway_ != 0
                  ? "end the capture that is under way: meanwhile no page can be given back"
                  : "free more of it before, or set a higher limit; memory of captured graphs counts until they go");
}

std::uint64_t Pool::Core::segments() {
  const std::lock_guard slow(slow_);
  std::uint64_t runs = 0;
  // Pages come and go behind the lock for slow work only.
  for_each_lane([&](const Lane& lane) {
    for (const Region& region : lane.regions) {
      bool inside = false;
      for (const PageHandle page : region.handles()) {
        if (page.value != 0 && !inside) ++runs;
        inside = page.value != 0;
      }
    }
  });
  return runs;
}

}  // namespace gpuwarden::memory
