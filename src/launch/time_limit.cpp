// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/time_limit.hpp"

#include <fmt/format.h>

#include <csignal>
#include <cstring>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::launch {

using std::chrono::milliseconds;

std::optional<int> parse_signal(std::string_view text) {
  if (const auto number = parse_integer(text))
    return *number > 0 && *number < NSIG ? std::optional(static_cast<int>(*number)) : std::nullopt;
  if (text.starts_with("SIG")) text.remove_prefix(3);
  for (int signal = 1; signal < NSIG; ++signal) {
    const char* name = sigabbrev_np(signal);
    if (name != nullptr && text == name) return signal;
  }
  return std::nullopt;
}

Result<TimeLimit> parse_early_signal(std::string_view text) {
  if (text.starts_with("R:") || text.starts_with("B:")) text.remove_prefix(2);
  const std::size_t at = text.find('@');
  const std::string_view name = text.substr(0, at);
  const auto signal = parse_signal(name);
  if (!signal)
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a signal", printable(name)),
                "for example USR1@60");
  TimeLimit limit;
  limit.signal = *signal;
  if (at == std::string_view::npos) return limit;
  const std::string_view time = text.substr(at + 1);
  const auto seconds = parse_integer(time);
  if (seconds && *seconds >= 0 && *seconds < 1000000000) {
    limit.before = std::chrono::seconds(*seconds);
    return limit;
  }
  GPUWARDEN_TRY(limit.before, parse_duration(time));
  return limit;
}

std::optional<milliseconds> left_by_slurm(const Environment& environment, Clock::WallTime now) {
  const auto found = environment.find("SLURM_JOB_END_TIME");
  const auto end = found == environment.end() ? std::nullopt : parse_integer(found->second);
  if (!end || *end <= 0) return std::nullopt;
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::time_point(std::chrono::seconds(*end)) -
                                                  now);
}

TimeLimit with_end(TimeLimit limit, std::optional<milliseconds> own, std::optional<milliseconds> slurm,
                   Clock::SteadyTime now) {
  if (own && (!slurm || *own <= *slurm)) {
    limit.end = now + *own;
  } else if (slurm && (own || limit.signal != 0)) {
    limit.end = now + *slurm;
    limit.ends_job = false;
  }
  return limit;
}

}  // namespace gpuwarden::launch
