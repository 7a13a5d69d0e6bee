// SPDX-License-Identifier: Apache-2.0
// The scopes that are open on this thread, of all profilers: depth, and which of a scope's time was that of others.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace gpuwarden::profile {

/// Scopes usually end in reverse order, but generators and coroutines end theirs as they like; what is nested deeper
/// than kDeepest counts as not nested. One for each thread.
class OpenScopes {
 public:
  static constexpr std::size_t kDeepest = 64;

  /// A number for the scope, and how many of this profiler's are open around it.
  struct Opened {
    std::uint64_t number = 0;
    unsigned depth = 0;
  };
  Opened open(const void* profiler) {
    static std::atomic<std::uint64_t> last{0};
    const std::uint64_t number = last.fetch_add(1, std::memory_order_relaxed) + 1;
    unsigned depth = 0;
    for (std::size_t i = 0; i < count_; ++i) depth += frames_[i].profiler == profiler ? 1 : 0;
    if (count_ < kDeepest) frames_[count_++] = {profiler, number, {}};
    return {number, depth};
  }

  /// The time of scopes within this one; what it took is put on the one around it. Zero for a scope of another thread.
  std::chrono::nanoseconds close(std::uint64_t number, std::chrono::nanoseconds took) {
    std::size_t at = count_;
    while (at > 0 && frames_[at - 1].number != number) --at;
    if (at == 0) return {};
    const Frame closed = frames_[at - 1];
    for (std::size_t i = at; i < count_; ++i) frames_[i - 1] = frames_[i];
    --count_;
    for (std::size_t i = at - 1; i > 0; --i) {
      if (frames_[i - 1].profiler != closed.profiler) continue;
      frames_[i - 1].within += took;
      break;
    }
    return closed.within;
  }

 private:
  struct Frame {
    const void* profiler = nullptr;
    std::uint64_t number = 0;
    std::chrono::nanoseconds within{};
  };
  std::array<Frame, kDeepest> frames_{};
  std::size_t count_ = 0;
};

}  // namespace gpuwarden::profile
