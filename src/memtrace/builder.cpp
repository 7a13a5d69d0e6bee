// SPDX-License-Identifier: Apache-2.0
#include "memtrace/builder.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace gpuwarden::memtrace {
namespace {

constexpr std::string_view kTooManyStreams = "is on one more than 65,536 streams";

}  // namespace

std::uint64_t SizeFormula::at(std::uint64_t tokens) const {
  const auto length = static_cast<double>(tokens);
  const double size = c0 + c1 * length + c2 * length * length;
  // Written so that what is no number comes out as 1, too.
  if (!(size >= 1)) return 1;
  return static_cast<std::uint64_t>(std::min(size, static_cast<double>(kLargestBlock)));
}

std::optional<std::uint16_t> TraceBuilder::position_of(std::uint64_t stream) {
  if (const auto known = streams_.find(stream); known != streams_.end()) return known->second;
  if (trace_.streams.size() > std::numeric_limits<std::uint16_t>::max()) return std::nullopt;
  const auto position = static_cast<std::uint16_t>(trace_.streams.size());
  trace_.streams.push_back(stream);
  streams_.emplace(stream, position);
  return position;
}

std::string_view TraceBuilder::add(std::uint64_t key, std::uint64_t size, std::uint64_t stream) {
  if (size > kLargestBlock) return "is larger than the memory of any GPU";
  if (trace_.blocks == std::numeric_limits<std::uint32_t>::max()) return "is one more than 4,294,967,295 allocations";
  const auto position = position_of(stream);
  if (!position) return kTooManyStreams;
  Block& block = blocks_[key];
  if (block.live) return "allocates what is live already";
  block = {trace_.blocks++, true};
  next_ = {.size = std::max<std::uint64_t>(size, 1), .block = block.number, .stream = *position};
  return {};
}

std::string_view TraceBuilder::live_before(std::uint64_t key, std::uint64_t size, std::uint64_t stream) {
  if (const auto wrong = add(key, size, stream); !wrong.empty()) return wrong;
  trace_.before.push_back(next_);
  keys_before_.push_back(key);
  return {};
}

std::string_view TraceBuilder::allocate(std::uint64_t key, std::uint64_t size, std::uint64_t stream,
                                        std::int64_t time_us) {
  if (const auto wrong = add(key, size, stream); !wrong.empty()) return wrong;
  next_.time_us = since_start(time_us);
  trace_.events.push_back(next_);
  return {};
}

std::string_view TraceBuilder::free(std::uint64_t key, std::uint64_t size, std::uint64_t stream, std::int64_t time_us) {
  auto found = blocks_.find(key);
  if (found == blocks_.end()) {
    if (unknown_ == Unknown::is_wrong) return "frees what was never allocated";
    if (const auto wrong = live_before(key, size, stream); !wrong.empty()) return wrong;
    found = blocks_.find(key);
  }
  if (!found->second.live) return "frees what has been freed already";
  const auto position = position_of(stream);
  if (!position) return kTooManyStreams;
  found->second.live = false;
  trace_.events.push_back(
      {.time_us = since_start(time_us), .block = found->second.number, .stream = *position, .frees = true});
  return {};
}

std::int64_t TraceBuilder::since_start(std::int64_t time_us) {
  if (!start_) start_ = time_us;
  // In unsigned numbers, because a damaged file may hold any.
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(time_us) - static_cast<std::uint64_t>(*start_));
}

Trace TraceBuilder::finish(bool by_key) {
  if (by_key) {
    std::vector<std::size_t> order(keys_before_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t i) { return keys_before_[i]; });
    std::vector<Event> sorted;
    sorted.reserve(order.size());
    for (const std::size_t i : order) sorted.push_back(trace_.before[i]);
    trace_.before = std::move(sorted);
  }
  return std::move(trace_);
}

}  // namespace gpuwarden::memtrace
