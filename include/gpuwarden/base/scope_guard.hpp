// SPDX-License-Identifier: Apache-2.0
// Runs a clean-up at the end of a scope unless released.
#pragma once

#include <utility>

namespace gpuwarden {

/// Calls `cleanup` on destruction; release() drops the duty.
template <class Cleanup>
class ScopeGuard {
 public:
  explicit ScopeGuard(Cleanup cleanup) : cleanup_(std::move(cleanup)) {}
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;
  ~ScopeGuard() {
    if (armed_) cleanup_();
  }
  void release() { armed_ = false; }

 private:
  Cleanup cleanup_;
  bool armed_ = true;
};

}  // namespace gpuwarden
