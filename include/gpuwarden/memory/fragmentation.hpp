// SPDX-License-Identifier: Apache-2.0
// How much of a pool's memory cannot be used as it lies, now and over time.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/quantity.hpp"

namespace gpuwarden::memory {

/// Blocks of at least `from` bytes and less than twice that.
struct SizeClassUse {
  Bytes from;  ///< a power of two
  std::uint64_t live_blocks = 0;
  Bytes live;
  std::uint64_t free_blocks = 0;
  Bytes free;
};

/// Share of free memory that is not in the largest free block: 1 - largest / free, as XLA's BFC allocator reports it; 0
/// without free memory. Blocks kept for reuse (cached) are not free.
inline double external_fragmentation(Bytes free, Bytes largest_free) {
  return free.value == 0 ? 0 : 1 - ratio(largest_free < free ? largest_free : free, free);
}

/// At one moment. Sizes in bytes.
struct FragmentationSample {
  std::optional<Clock::SteadyTime> time;  ///< empty where nobody told it
  std::uint64_t allocations = 0;          ///< so far
  Bytes reserved;
  Bytes live;
  Bytes requested;
  Bytes cached;
  Bytes free;
  Bytes largest_free;

  double external() const { return external_fragmentation(free, largest_free); }
  /// Share of live memory that was not asked for (rounding): 1 - requested / live.
  double internal() const { return live.value == 0 ? 0 : 1 - ratio(requested, live); }
  /// Share of reserved memory that is not live: 1 - live / reserved.
  double overhead() const { return reserved.value == 0 ? 0 : 1 - ratio(live, reserved); }
};

/// The same with its size classes, those without blocks left out, the smallest first.
struct Fragmentation {
  FragmentationSample now;
  std::vector<SizeClassUse> classes;
  /// Bytes of free memory in whole pages, which can be moved to where they are needed.
  Bytes movable;
};

/// The last samples, the oldest first. Safe to use from several threads.
class FragmentationHistory {
 public:
  explicit FragmentationHistory(std::size_t capacity) : capacity_(capacity) {}

  void add(const FragmentationSample& sample) {
    const std::lock_guard lock(mutex_);
    if (capacity_ == 0) return;
    if (samples_.size() < capacity_) {
      samples_.push_back(sample);
      return;
    }
    samples_[next_] = sample;
    next_ = (next_ + 1) % capacity_;
  }

  std::vector<FragmentationSample> samples() const {
    const std::lock_guard lock(mutex_);
    std::vector<FragmentationSample> result;
    result.reserve(samples_.size());
    for (std::size_t i = 0; i < samples_.size(); ++i) result.push_back(samples_[(next_ + i) % samples_.size()]);
    return result;
  }

 private:
  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::vector<FragmentationSample> samples_;
  std::size_t next_ = 0;
};

}  // namespace gpuwarden::memory
