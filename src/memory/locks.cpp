// SPDX-License-Identifier: Apache-2.0
#include "memory/locks.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace gpuwarden::memory {
namespace {

/// After so many visits of others nobody is favoured any more, if they come closer together than this: each visit costs
/// some microseconds, an operation without favour some nanoseconds more. A thread that only reads counters now and then
/// thus changes nothing.
constexpr unsigned kPatience = 256;
constexpr unsigned kLittlePatience = 16;
constexpr std::uint64_t kClose = 250'000;  // ticks: about 0.1 ms

/// Stands for the thread that will come first.
constexpr char kFirstComer = 0;

// ThreadSanitizer does not know membarrier.
#if defined(__SANITIZE_THREAD__)
constexpr bool kFavours = false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool kFavours = false;
#else
constexpr bool kFavours = true;
#endif
#else
constexpr bool kFavours = true;
#endif

bool has_barrier() {
  static const bool registered =
      kFavours && ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0U, 0) == 0;
  return registered;
}

}  // namespace

BiasedLock::BiasedLock(Favours favours) : patience_(favours == Favours::maker ? kPatience : kLittlePatience) {
  if (has_barrier() && !favours_nobody.load(std::memory_order_relaxed))
    favoured_.store(favours == Favours::maker ? self() : &kFirstComer, std::memory_order_relaxed);
}

void BiasedLock::lock_shared_way(bool stays) {
  lock_.lock();
  revoked_ = false;
  const void* const favoured = favoured_.load(std::memory_order_relaxed);
  if (favoured == &kFirstComer) {
    if (stays) favoured_.store(self(), std::memory_order_relaxed);
    return;
  }
  if (favoured == nullptr || favoured == self()) return;
  revoked_ = true;
  revocations_.fetch_add(1, std::memory_order_seq_cst);
  ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0U, 0);
  for (Patience patience; inside_.load(std::memory_order_acquire);) patience.wait();
  if (++visits_ % patience_ != 0) return;
  const std::uint64_t now = ticks();
  const bool close = now - std::exchange(visited_, now) < patience_ * kClose;
  if (close) favoured_.store(nullptr, std::memory_order_relaxed);
}

void BiasedLock::unlock_shared_way() {
  if (revoked_) {
    revoked_ = false;
    // Once nobody is favoured, the revocation stays for a thread that has not noticed yet.
    if (favoured_.load(std::memory_order_relaxed) != nullptr) revocations_.fetch_sub(1, std::memory_order_release);
  }
  lock_.unlock();
}

}  // namespace gpuwarden::memory
