// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/launch/restarts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::launch {
namespace {

using knowledge::Restart;
using std::chrono::milliseconds;

constexpr double kJitter = 0.2;

/// What --heal would do, where it is not given.
std::string would_help(const Failure& failure) {
  if (!failure.remedy.empty()) return fmt::format("; --heal would set {}", settings_text(failure.remedy));
  if (!failure.other_remedy.empty()) return fmt::format("; --heal would start it {}", failure.other_remedy);
  return "";
}

}  // namespace

milliseconds pause_before(const RestartPolicy& policy, std::uint32_t number, double chance) {
  constexpr std::uint32_t kMostDoublings = 30;
  const double doublings = std::min(number == 0 ? 0U : number - 1, kMostDoublings);
  const double longest = static_cast<double>(policy.longest_pause.count());
  const double pause = std::min(static_cast<double>(policy.first_pause.count()) * std::exp2(doublings), longest);
  return milliseconds(std::llround(pause * (1 + kJitter * (2 * chance - 1))));
}

bool has_time(const TimeLimit& limit, Clock::SteadyTime now, milliseconds pause) {
  const milliseconds needed = limit.signal != 0 ? limit.before : milliseconds(0);
  return !limit.end || now + pause + needed < *limit.end;
}

std::string settings_text(const Environment& settings) {
  std::vector<std::string> words;
  for (const auto& [name, value] : settings) words.push_back(fmt::format("{}={}", name, value));
  return join(words, " ");
}

RestartDecision Restarts::decide(const Failure& failure, const TimeLimit& limit, Clock::SteadyTime now, double chance) {
  const auto refuse = [](std::string why) { return RestartDecision{.text = std::move(why)}; };
  if (policy_.max_restarts == 0) return {};
  if (!failure.final_because.empty()) return refuse(fmt::format("it is not started again: {}", failure.final_because));
  if (!any_left()) return refuse(fmt::format("no restart is left of {}", policy_.max_restarts));
  const bool helps = !failure.remedy.empty() || !failure.other_remedy.empty();
  const bool remedied = policy_.heal && helps;
  if (failure.restart == Restart::never && !remedied)
    return refuse(fmt::format("another try would end the same way: {}{}", failure.why, would_help(failure)));
  in_a_row_ = failure.lasted >= policy_.healthy ? 1 : in_a_row_ + 1;
  const milliseconds pause = pause_before(policy_, in_a_row_, chance);
  if (!has_time(limit, now, pause)) return refuse("no time is left for another try");
  ++counted_;
  return {.restarts = true, .remedied = remedied, .text = failure.why, .pause = pause};
}

bool Restarts::may_follow(const TimeLimit& limit, Clock::SteadyTime now, milliseconds lasted) const {
  const std::uint32_t number = lasted >= policy_.healthy ? 1 : in_a_row_ + 1;
  return any_left() && has_time(limit, now, pause_before(policy_, number, 1));
}

std::optional<milliseconds> Restarts::again_later(const TimeLimit& limit, Clock::SteadyTime now) {
  if (!any_left()) return std::nullopt;
  const milliseconds pause = pause_before(policy_, ++in_a_row_, 0.5);
  if (!has_time(limit, now, pause)) return std::nullopt;
  ++counted_;
  return pause;
}

}  // namespace gpuwarden::launch
