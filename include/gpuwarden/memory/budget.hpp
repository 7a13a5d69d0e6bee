// SPDX-License-Identifier: Apache-2.0
// Limits on physical memory: as people write them, and shared by the pools of a process.
#pragma once

#include <atomic>
#include <optional>
#include <string_view>

#include "gpuwarden/base/quantity.hpp"
#include "gpuwarden/base/result.hpp"

namespace gpuwarden::memory {

/// A limit in bytes, as a share of a device's total memory, or both: then the smaller one holds.
struct MemoryLimit {
  std::optional<Bytes> bytes;
  double fraction = 1;  ///< above 0, at most 1

  /// The limit on a device with so much memory; never above it.
  Bytes of(Bytes total) const;
};

/// "12GiB", "0.5" (a share of the device's total), "50%". A number up to 1 without a unit is a share.
Result<MemoryLimit> parse_memory_limit(std::string_view text);

/// What all pools of a process may hold together on a device, with what else the process charges (its CUDA context, for
/// example). Safe to use from several threads.
class MemoryBudget {
 public:
  explicit MemoryBudget(Bytes limit) : limit_(limit) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  /// Charges `size`; false: it would exceed the limit, and nothing was charged.
  bool take(Bytes size);
  /// Gives back what was taken.
  void give(Bytes size) { used_.fetch_sub(size.value, std::memory_order_relaxed); }

  Bytes limit() const { return limit_; }
  Bytes used() const { return Bytes(used_.load(std::memory_order_relaxed)); }
  Bytes left() const { return limit_ - used(); }

 private:
  const Bytes limit_;
  std::atomic<std::uint64_t> used_ = 0;
};

}  // namespace gpuwarden::memory
