// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/manager/retry.hpp"

#include <algorithm>
#include <cmath>

namespace gpuwarden::manager {

std::chrono::milliseconds pause_after(const RetryPolicy& policy, unsigned failures, double chance) {
  const auto first = static_cast<double>(policy.first.count());
  const auto longest = static_cast<double>(policy.longest.count());
  const double grown = first * std::pow(policy.factor, failures == 0 ? 0 : failures - 1);
  const double jittered = grown * (1 + policy.jitter * (2 * chance - 1));
  return std::chrono::milliseconds(std::llround(std::clamp(jittered, 0.0, longest)));
}

bool is_transient(const Error& error) {
  switch (error.code) {
    case ErrorCode::unavailable:
    case ErrorCode::unsatisfied:
    case ErrorCode::timed_out:
    case ErrorCode::failed:
      return true;
    case ErrorCode::invalid_argument:
    case ErrorCode::not_found:
    case ErrorCode::permission_denied:
    case ErrorCode::interrupted:
    case ErrorCode::corrupt:
      return false;
  }
  return false;
}

bool detail::wait_to_retry(const RetryPolicy& policy, const RetryHooks& hooks, const Error& error, unsigned attempt) {
  const bool again = is_transient(error) && attempt < policy.attempts && !hooks.stop.stop_requested();
  if (hooks.failed) hooks.failed(error, attempt, again);
  if (!again) return false;
  const double chance = hooks.chance ? hooks.chance() : 0.5;
  return hooks.clock->sleep_for(pause_after(policy, attempt, chance), hooks.stop);
}

}  // namespace gpuwarden::manager
