// SPDX-License-Identifier: Apache-2.0
// A field that threads may look at without the lock behind which it is changed.
#pragma once

#include <atomic>

namespace gpuwarden::memory {

/// One thread at a time writes it; to that thread it is like a T. Others see some value that it has had, no older than
/// what they know of otherwise. Plain moves on common processors.
template <class T>
class Relaxed {
 public:
  Relaxed() = default;
  constexpr Relaxed(T value) : value_(value) {}  // NOLINT(google-explicit-constructor): it is like a T
  Relaxed(const Relaxed& other) : value_(static_cast<T>(other)) {}
  ~Relaxed() = default;
  Relaxed& operator=(const Relaxed& other) { return *this = static_cast<T>(other); }  // NOLINT(*-unconventional-*)
  Relaxed& operator=(T value) {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }
  /// What was written before is there for whoever reads this value and follows it.
  void publish(T value) { value_.store(value, std::memory_order_release); }
  operator T() const { return value_.load(std::memory_order_relaxed); }  // NOLINT(google-explicit-constructor)
  Relaxed& operator+=(T more) { return *this = *this + more; }
  Relaxed& operator-=(T less) { return *this = *this - less; }
  Relaxed& operator++() { return *this += 1; }

 private:
  std::atomic<T> value_;
};

}  // namespace gpuwarden::memory
