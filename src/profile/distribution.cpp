// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/profile/distribution.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace gpuwarden::profile {
namespace {

// The first 16 values have bins of their own; each further power of two is divided by 16.
constexpr unsigned kBits = 4;
constexpr std::uint64_t kParts = 1U << kBits;

std::size_t bin_of(std::uint64_t value) {
  if (value < kParts) return static_cast<std::size_t>(value);
  const auto exponent = static_cast<unsigned>(std::bit_width(value)) - 1;
  const std::uint64_t part = (value >> (exponent - kBits)) & (kParts - 1);
  return static_cast<std::size_t>(kParts + (exponent - kBits) * kParts + part);
}

/// The middle of a bin.
std::int64_t value_of(std::size_t bin) {
  if (bin < kParts) return static_cast<std::int64_t>(bin);
  const std::size_t shift = bin / kParts - 1;
  const std::uint64_t low = (kParts + bin % kParts) << shift;
  return static_cast<std::int64_t>(low + ((std::uint64_t{1} << shift) - 1) / 2);
}

}  // namespace

void Distribution::add(std::chrono::nanoseconds duration) {
  const std::int64_t value = std::max<std::int64_t>(duration.count(), 0);
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = std::max(max_, value);
  ++count_;
  total_ += value;
  const std::size_t bin = bin_of(static_cast<std::uint64_t>(value));
  if (bin >= bins_.size()) bins_.resize(bin + 1);
  if (bins_[bin] < std::numeric_limits<std::uint32_t>::max()) ++bins_[bin];
}

std::chrono::nanoseconds Distribution::at_share(double share) const {
  std::uint64_t counted = 0;
  for (const auto bin : bins_) counted += bin;
  const auto wanted = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(counted)));
  std::uint64_t below = 0;
  for (std::size_t bin = 0; bin < bins_.size(); ++bin) {
    below += bins_[bin];
    if (below >= wanted && below > 0) return std::chrono::nanoseconds(std::clamp(value_of(bin), min_, max_));
  }
  return std::chrono::nanoseconds(max_);
}

Durations Distribution::summary() const {
  if (count_ == 0) return {};
  using std::chrono::nanoseconds;
  return {.count = count_,
          .total = nanoseconds(total_),
          .min = nanoseconds(min_),
          .mean = nanoseconds(total_ / static_cast<std::int64_t>(count_)),
          .max = nanoseconds(max_),
          .p95 = at_share(0.95)};
}

}  // namespace gpuwarden::profile
