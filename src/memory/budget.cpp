// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memory/budget.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::memory {
namespace {

constexpr std::string_view kHelp = "write a size such as 12GiB, or a share of the device's memory such as 0.5 or 50%";

}  // namespace

Bytes MemoryLimit::of(Bytes total) const {
  const auto share = static_cast<std::uint64_t>(std::floor(static_cast<double>(total.value) * fraction));
  return std::min({bytes.value_or(total), Bytes(share), total});
}

Result<MemoryLimit> parse_memory_limit(std::string_view text) {
  const std::string_view whole = trim(text);
  const bool percent = whole.ends_with('%');
  const auto number = parse_number(percent ? trim(whole.substr(0, whole.size() - 1)) : whole);
  if (number && (percent || *number <= 1)) {
    const double share = percent ? *number / 100 : *number;
    if (share <= 0 || share > 1)
      return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a share of a device's memory", printable(text)),
                  std::string(kHelp));
    return MemoryLimit{.bytes = std::nullopt, .fraction = share};
  }
  const auto size = parse_size(whole);
  if (!size || size->value == 0)
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a memory limit", printable(text)),
                std::string(kHelp));
  return MemoryLimit{.bytes = *size};
}

bool MemoryBudget::take(Bytes size) {
  std::uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    // Never above the limit, so that the difference cannot wrap around.
    if (size.value > limit_.value - used) return false;
  } while (!used_.compare_exchange_weak(used, used + size.value, std::memory_order_relaxed));
  return true;
}

}  // namespace gpuwarden::memory
