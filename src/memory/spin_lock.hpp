// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <thread>

namespace gpuwarden::memory {

/// A lock of one byte for short sections that are seldom contended; yields when it has to wait long.
class SpinLock {
 public:
  void lock() {
    while (taken_.exchange(true, std::memory_order_acquire)) wait();
  }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  void wait() {
    for (int spins = 0; taken_.load(std::memory_order_relaxed); ++spins) {
      if (spins < 64) {
        relax();
      } else {
        std::this_thread::yield();
      }
    }
  }

  std::atomic<bool> taken_ = false;
};

}  // namespace gpuwarden::memory
