// SPDX-License-Identifier: Apache-2.0
#include "memory/driver.hpp"

#include <algorithm>
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

void Driver::call(Call which, std::uint64_t bytes, std::uint64_t times) {
  const auto index = static_cast<std::size_t>(which);
  // A plain store: an atomic addition on each of a peer's frees would be timed as the peer's work.
  auto& count = counts_[index];
  count.store(count.load(std::memory_order_relaxed) + times, std::memory_order_relaxed);
  if (prices_.factor() > 0)
    clock_.spend(prices_.of_call(kNames[index], static_cast<double>(bytes) / kMebibyte) * static_cast<double>(times));
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
  CallCounts counts;
  for (std::size_t i = 0; i < kCalls; ++i) counts.of[i] = counts_[i].load(std::memory_order_relaxed);
  return counts;
}

}  // namespace gpuwarden::bench
