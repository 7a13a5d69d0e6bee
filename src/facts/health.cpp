// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/facts/health.hpp"

#include <algorithm>

#include "facts/archive.hpp"
#include "facts/names.hpp"
#include "gpuwarden/facts/json.hpp"

namespace gpuwarden::facts {
namespace {

constexpr Names<HealthState, 4> kHealthStates{{{HealthState::available, "available"},
                                               {HealthState::busy, "busy"},
                                               {HealthState::error, "error"},
                                               {HealthState::disabled, "disabled"}}};

template <class T>
Result<T> read_health_fact(const Json& json) {
  std::optional<Error> error;
  T value;
  Reader reader(json, error);
  describe(reader, value);
  if (error) return std::unexpected(*error);
  return value;
}

}  // namespace

const Disabling* find_disabling(std::span<const Disabling> disabled, const Uuid& uuid) {
  for (const Disabling& one : disabled) {
    if (one.uuid == uuid) return &one;
  }
  return nullptr;
}

std::string how_long_ago(std::chrono::system_clock::duration age) {
  const auto in = [&](auto unit) { return std::to_string(age / unit); };
  if (age < std::chrono::minutes(1)) return "just now";
  if (age < std::chrono::hours(1)) return in(std::chrono::minutes(1)) + " min ago";
  if (age < std::chrono::hours(24)) return in(std::chrono::hours(1)) + " h ago";
  return in(std::chrono::hours(24)) + " d ago";
}

std::string describe_disabling(const Disabling& disabling, std::chrono::system_clock::time_point now) {
  std::string what = (disabling.judged ? "" : "disabled: ") + disabling.reason;
  // What a look at the GPU shows is nobody's word.
  if (disabling.by.empty()) return what;
  return what + " (by " + disabling.by + ", " + how_long_ago(now - disabling.since) + ")";
}

bool lasts_until_reset(const Health& health) { return std::ranges::any_of(health.causes, &HealthCause::until_reset); }

std::string_view to_string(HealthState state) { return name_of(kHealthStates, state); }
std::optional<HealthState> health_state_from(std::string_view name) { return named(kHealthStates, name); }

// Found by argument-dependent lookup, which does not look into unnamed namespaces.
std::optional<HealthState> enum_named(const std::string& name, HealthState);
std::optional<HealthState> enum_named(const std::string& name, HealthState) { return health_state_from(name); }

template <class A>
static void describe(A& a, HealthCause& cause) {
  a.field("id", cause.id);
  a.field("reason", cause.reason);
  a.field("next_step", cause.next_step);
  a.field("until_reset", cause.until_reset);
}

template <class A>
static void describe(A& a, Health& health) {
  a.field("uuid", health.uuid);
  a.field("index", health.index);
  a.field("state", health.state);
  a.field("reason", health.reason);
  a.field("next_step", health.next_step);
  a.field("since_unix_ms", health.since);
  a.field("failures", health.failures);
  a.field("next_try_unix_ms", health.next_try);
  a.field("causes", health.causes);
}

template <class A>
static void describe(A& a, Disabling& disabling) {
  a.field("uuid", disabling.uuid);
  a.field("reason", disabling.reason);
  a.field("by", disabling.by);
  a.field("for_everybody", disabling.for_everybody);
  a.field("since_unix_ms", disabling.since);
  a.field("judged", disabling.judged);
  a.field("next_step", disabling.next_step);
}

Json to_json(const Health& health) { return Writer::encode(health); }
Json to_json(const Disabling& disabling) { return Writer::encode(disabling); }
Result<Health> health_from_json(const Json& json) { return read_health_fact<Health>(json); }
Result<Disabling> disabling_from_json(const Json& json) { return read_health_fact<Disabling>(json); }

}  // namespace gpuwarden::facts
