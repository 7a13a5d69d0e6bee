// SPDX-License-Identifier: Apache-2.0
// Tries again what may pass: exponential backoff with jitter, on a clock that is handed in.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <utility>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"

namespace gpuwarden::manager {

struct RetryPolicy {
  unsigned attempts = 3;  ///< in all, at least 1
  std::chrono::milliseconds first{100};
  double factor = 2;                         ///< of each pause to the one before, at least 1
  std::chrono::milliseconds longest{10000};  ///< no pause is longer
  double jitter = 0.2;                       ///< share by which a pause is longer or shorter at random, 0 to 1

  bool operator==(const RetryPolicy&) const = default;
};

/// The pause after the n-th failure (from 1). `chance` is drawn from 0 to 1: 0 gives the shortest pause, 1 the longest.
std::chrono::milliseconds pause_after(const RetryPolicy& policy, unsigned failures, double chance);

/// Whether trying again can help: what is unavailable, out of memory, timed out or failed for a reason of its own, but
/// not wrong input, missing things, missing rights, corrupt data or a stop.
bool is_transient(const Error& error);

/// What a retry waits on and whom it tells.
struct RetryHooks {
  Clock* clock = &system_clock();
  std::stop_token stop;
  std::function<double()> chance;  ///< 0 to 1; empty: no jitter
  /// Hears each failure, before the pause; may be empty.
  std::function<void(const Error& error, unsigned attempt, bool will_retry)> failed;
};

namespace detail {
/// Whether to try again after this failure; waits for the pause. False too where it was stopped.
bool wait_to_retry(const RetryPolicy& policy, const RetryHooks& hooks, const Error& error, unsigned attempt);
}  // namespace detail

/// `work()`'s result, which is a Result: of the first attempt that does not fail, or of the last.
template <class Work>
auto with_retries(const RetryPolicy& policy, const RetryHooks& hooks, Work&& work) -> decltype(work()) {
  for (unsigned attempt = 1;; ++attempt) {
    auto result = work();
    if (result || !detail::wait_to_retry(policy, hooks, result.error(), attempt)) return result;
  }
}

}  // namespace gpuwarden::manager
