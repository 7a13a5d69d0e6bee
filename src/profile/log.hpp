// SPDX-License-Identifier: Apache-2.0
// The latest runs of operations, for a trace.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/profile/trace.hpp"

namespace gpuwarden::profile {

/// Keeps the last `capacity` runs. Thread-safe.
class Log {
 public:
  struct Record {
    const std::string* name = nullptr;  ///< outlives the log
    Clock::SteadyTime start{};
    std::chrono::nanoseconds wall{};
    std::int64_t thread = 0;
    unsigned depth = 0;
    std::optional<std::chrono::nanoseconds> device;
  };

  explicit Log(std::size_t capacity) : capacity_(std::max<std::size_t>(capacity, 1)) {}

  /// The record's serial number.
  std::uint64_t add(const Record& record) {
    const std::scoped_lock lock(mutex_);
    if (records_.size() < capacity_) {
      records_.push_back(record);
    } else {
      records_[next_ % capacity_] = record;
    }
    return next_++;
  }

  /// Fills in what was not known yet, unless the record was overwritten.
  void set_device(std::uint64_t serial, std::chrono::nanoseconds time) {
    const std::scoped_lock lock(mutex_);
    if (serial < first_ || serial >= next_ || next_ - serial > records_.size()) return;
    records_[serial % capacity_].device = time;
  }

  /// Into a trace: the records in their order, and how many are lost.
  void copy_to(Trace& trace) const {
    const std::scoped_lock lock(mutex_);
    const std::uint64_t oldest = next_ - records_.size();
    trace.dropped = oldest - first_;
    trace.events.reserve(records_.size());
    for (std::uint64_t serial = oldest; serial < next_; ++serial) {
      const Record& record = records_[serial % capacity_];
      trace.events.push_back({.name = *record.name,
                              .start = record.start,
                              .wall = record.wall,
                              .thread = record.thread,
                              .depth = record.depth,
                              .device = record.device});
    }
  }

  void clear() {
    const std::scoped_lock lock(mutex_);
    records_.clear();
    // Serial numbers go on, and keep standing for places: the next one has to be the first of the ring.
    next_ = (next_ / capacity_ + 1) * capacity_;
    first_ = next_;
  }

 private:
  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::deque<Record> records_;
  std::uint64_t first_ = 0;
  std::uint64_t next_ = 0;
};

}  // namespace gpuwarden::profile
