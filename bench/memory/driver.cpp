// SPDX-License-Identifier: Apache-2.0
#include "memory/driver.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace gpuwarden::bench {
namespace {

constexpr std::array<const char*, kCalls> kNames{
    "cuMemAlloc_v2", "cuMemFree_v2",  "cuMemCreate",  "cuMemMap",          "cuMemSetAccess",     "cuMemUnmap",
    "cuMemRelease",  "cuEventRecord", "cuEventQuery", "cuStreamWaitEvent", "cuStreamSynchronize"};
constexpr double kMebibyte = 1 << 20;

}  // namespace

std::uint64_t CallCounts::memory() const {
  return std::accumulate(of.begin(), of.begin() + static_cast<int>(Call::event_record), std::uint64_t{0});
}

std::uint64_t CallCounts::all() const { return std::accumulate(of.begin(), of.end(), std::uint64_t{0}); }

void Driver::call(Call which, std::uint64_t bytes, std::uint64_t times, std::uint64_t pieces) {
  const auto index = static_cast<std::size_t>(which);
  Sums& sums = sums_[index];
  // Plain stores: an atomic addition on each of a peer's frees would be timed as the peer's work.
  const auto add = [](std::atomic<std::uint64_t>& sum, std::uint64_t more) {
    sum.store(sum.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  };
  add(sums.calls, times);
  if (bytes != 0) {
    add(sums.pieces, times * pieces);
    add(sums.bytes, times * bytes);
  }
  if (prices_.factor() > 0)
    clock_.spend(prices_.of_call(kNames[index], static_cast<double>(bytes) / kMebibyte, static_cast<double>(pieces)) *
                 static_cast<double>(times));
}

void Driver::call_map(memory::DeviceAddress address, std::span<const memory::PageHandle> pieces) {
  for (const memory::PageHandle& piece : pieces) call(Call::mem_map, memory::kPage.value * piece.pages);
  call(Call::mem_set_access, memory::kPage.value * memory::pages_in(pieces), 1, pieces.size());
  const std::lock_guard lock(mutex_);
  std::uint64_t page = address.value / memory::kPage.value;
  for (const memory::PageHandle& piece : pieces) {
    mapped_.insert(page);
    page += piece.pages;
  }
}

void Driver::call_unmap(memory::DeviceAddress address, Bytes size) {
  std::uint64_t pieces = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto first = mapped_.lower_bound(address.value / memory::kPage.value);
    const auto end = mapped_.lower_bound((address.value + size.value) / memory::kPage.value);
    pieces = static_cast<std::uint64_t>(std::distance(first, end));
    mapped_.erase(first, end);
  }
  call(Call::mem_unmap, size.value, 1, pieces);
}

void Driver::submit(std::uint64_t stream, std::int64_t nanoseconds) {
  const std::lock_guard lock(mutex_);
  has_work_.store(true);
  Moment& until = busy_until_[stream];
  until = std::max(until, clock_.now()) + nanoseconds;
}

Moment Driver::record(std::uint64_t stream) {
  call(Call::event_record);
  if (!has_work_.load(std::memory_order_relaxed)) return 0;
  const std::lock_guard lock(mutex_);
  const auto found = busy_until_.find(stream);
  return found == busy_until_.end() ? 0 : found->second;
}

bool Driver::is_done(Moment event) {
  call(Call::event_query);
  return event == 0 || event <= clock_.now();
}

void Driver::wait(std::uint64_t stream, Moment event) {
  call(Call::stream_wait_event);
  if (event == 0) return;
  const std::lock_guard lock(mutex_);
  Moment& until = busy_until_[stream];
  until = std::max(until, event);
}

void Driver::synchronize(Moment event) {
  call(Call::synchronize);
  if (event != 0) clock_.wait_until(event);
}

CallCounts Driver::counts() const {
  const cuda::server::Latencies published;
  const auto load = [](const std::atomic<std::uint64_t>& sum) { return sum.load(std::memory_order_relaxed); };
  CallCounts counts;
  for (std::size_t i = 0; i < kCalls; ++i) {
    const Sums& sums = sums_[i];
    counts.of[i] = load(sums.calls);
    const auto pieces = static_cast<double>(load(load(sums.bytes) > 0 ? sums.pieces : sums.calls));
    counts.nanoseconds += published.of_call(kNames[i], static_cast<double>(load(sums.bytes)) / kMebibyte, pieces);
  }
  return counts;
}

}  // namespace gpuwarden::bench
