// SPDX-License-Identifier: Apache-2.0
// Counts what goes through: now, at most, in all; and what an operation took and left.
#pragma once

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gpuwarden/memory/resource.hpp"

namespace gpuwarden::memory {

struct AllocationStatistics {
  Bytes live;
  Bytes peak;
  Bytes total;  ///< ever given out
  std::uint64_t live_blocks = 0;
  std::uint64_t peak_blocks = 0;
  std::uint64_t total_blocks = 0;
  std::uint64_t failures = 0;
};

/// What one scope saw; `left` is what is live at its end beyond what was at its beginning (negative: freed).
struct ScopeReport {
  std::string name;
  std::int64_t left = 0;
  Bytes peak;  ///< most live bytes above those at the beginning
  std::uint64_t allocations = 0;
};

/// The inner resource must outlive it.
template <DeviceResource Inner>
class StatisticsResource {
 public:
  explicit StatisticsResource(Inner& inner) : inner_(inner) {}

  Result<DeviceAddress> allocate(Bytes size, StreamId stream) {
    auto address = inner_.allocate(size, stream);
    const std::lock_guard lock(mutex_);
    if (!address) {
      ++counts_.failures;
      return address;
    }
    counts_.live += size;
    counts_.total += size;
    counts_.peak = std::max(counts_.peak, counts_.live);
    counts_.peak_blocks = std::max(counts_.peak_blocks, ++counts_.live_blocks);
    ++counts_.total_blocks;
    for (Scope& scope : scopes_) scope.peak = std::max(scope.peak, counts_.live);
    return address;
  }

  Result<void> deallocate(DeviceAddress address, Bytes size, StreamId stream) {
    auto result = inner_.deallocate(address, size, stream);
    if (!result) return result;
    const std::lock_guard lock(mutex_);
    counts_.live -= size;
    --counts_.live_blocks;
    return result;
  }

  AllocationStatistics statistics() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }

  /// Begins a scope inside the current one.
  void push(std::string name) {
    const std::lock_guard lock(mutex_);
    scopes_.push_back({std::move(name), counts_.live, counts_.live, counts_.total_blocks});
  }

  /// Ends the innermost scope; there is one.
  ScopeReport pop() {
    const std::lock_guard lock(mutex_);
    Scope scope = std::move(scopes_.back());
    scopes_.pop_back();
    return {std::move(scope.name), static_cast<std::int64_t>(counts_.live.value - scope.begin.value),
            scope.peak - scope.begin, counts_.total_blocks - scope.blocks};
  }

 private:
  struct Scope {
    std::string name;
    Bytes begin;
    Bytes peak;
    std::uint64_t blocks;
  };

  Inner& inner_;
  mutable std::mutex mutex_;
  AllocationStatistics counts_;
  std::vector<Scope> scopes_;
};

/// A scope that ends with the block it stands in: MemoryScope scope(resource, "forward", report).
template <class Statistics>
class MemoryScope {
 public:
  MemoryScope(Statistics& statistics, std::string name, ScopeReport& report)
      : statistics_(statistics), report_(report) {
    statistics_.push(std::move(name));
  }
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;
  ~MemoryScope() { report_ = statistics_.pop(); }

 private:
  Statistics& statistics_;
  ScopeReport& report_;
};

}  // namespace gpuwarden::memory
