// SPDX-License-Identifier: Apache-2.0
// Locks for short sections: a plain one, and one that costs its usual thread no atomic read-modify-write.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "memory/ticks.hpp"

namespace gpuwarden::memory {

/// Waits a little longer with each call.
class Patience {
 public:
  void wait() {
    if (++waits_ > 64) {
      std::this_thread::yield();
      return;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

 private:
  int waits_ = 0;
};

/// A lock of one byte that is seldom contended; yields when it has to wait long.
class SpinLock {
 public:
  void lock() {
    while (taken_.exchange(true, std::memory_order_acquire)) {
      for (Patience patience; taken_.load(std::memory_order_relaxed);) patience.wait();
    }
  }
  void unlock() { taken_.store(false, std::memory_order_release); }
  /// Whether somebody has it, at a glance.
  bool is_taken() const { return taken_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> taken_ = false;
};

/// A lock that favours one thread: to that thread it is two plain stores. Another thread has all threads pass a barrier
/// (membarrier(2)), so that either it sees the favoured one inside, or that one sees the revocation. If others come
/// often, nobody is favoured any more. (Dice, Moir, Scherer: "Quickly reacquirable locks".)
class BiasedLock {
 public:
  /// The thread that makes it, or the one that locks it first; the latter gives way sooner.
  enum class Favours : std::uint8_t { maker, first_comer };
  /// For tests: locks made from now on favour nobody, as where the kernel knows no membarrier.
  [[gnu::visibility("hidden")]] inline static std::atomic<bool> favours_nobody = false;
  explicit BiasedLock(Favours favours = Favours::maker);

  /// The favoured thread's way alone; false: nothing happened, lock() may have to wait.
  bool try_lock_favoured() {
    if (favoured_.load(std::memory_order_relaxed) != self()) [[unlikely]]
      return false;
    inside_.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (revocations_.load(std::memory_order_acquire) == 0) [[likely]]
      return true;
    inside_.store(false, std::memory_order_release);
    return false;
  }

  /// After try_lock_favoured() alone.
  void unlock_favoured() { inside_.store(false, std::memory_order_release); }

  void lock() {
    if (!try_lock_favoured()) lock_shared_way(true);
  }

  /// The same without becoming the first comer.
  void lock_in_passing() {
    if (!try_lock_favoured()) lock_shared_way(false);
  }

  /// Whether another thread is favoured, or, where nobody is, has it now; at a glance.
  bool is_others() const {
    const void* const favoured = favoured_.load(std::memory_order_relaxed);
    return favoured != nullptr ? favoured != self() : lock_.is_taken();
  }

  void unlock() {
    if (inside_.load(std::memory_order_relaxed) && favoured_.load(std::memory_order_relaxed) == self()) [[likely]] {
      unlock_favoured();
      return;
    }
    unlock_shared_way();
  }

 private:
  /// A value of its own for each thread that runs.
  static const void* self() {
    // initial-exec: an address from one register, not from a call, in shared libraries, too.
    [[gnu::tls_model("initial-exec")]] static thread_local constinit char mark = 0;
    return &mark;
  }
  void lock_shared_way(bool stays);
  void unlock_shared_way();

  const unsigned patience_;  ///< after so many visits of others nobody is favoured any more
  std::atomic<const void*> favoured_ = nullptr;
  std::atomic<std::uint32_t> revocations_ = 0;
  SpinLock lock_;
  bool revoked_ = false;             ///< behind lock_
  unsigned visits_ = 0;              ///< of others; behind lock_
  std::uint64_t visited_ = ticks();  ///< when they last were a multiple of `patience_`; behind lock_
  /// Written by the favoured thread only; not beside what others look at.
  alignas(64) std::atomic<bool> inside_ = false;
};

}  // namespace gpuwarden::memory
