// SPDX-License-Identifier: Apache-2.0
#include "telemetry/happened.hpp"

#include <fmt/format.h>

#include "gpuwarden/knowledge/compatibility.hpp"

namespace gpuwarden::telemetry {
namespace {

std::string words_of(const facts::GpuEvent& event) {
  using Kind = facts::GpuEventKind;
  switch (event.kind) {
    case Kind::xid: {
      const auto* xid = knowledge::Knowledge::built_in().xid(static_cast<int>(event.data));
      return fmt::format("Xid {}{}", event.data, xid == nullptr ? "" : fmt::format(": {}", xid->description));
    }
    case Kind::ecc_single_bit:
      return "a corrected memory error";
    case Kind::ecc_double_bit:
      return "an uncorrectable memory error";
    case Kind::mig_config:
      return "its MIG instances changed";
    case Kind::lost:
      return "the GPU fell off the bus";
    default:
      return "";  // clocks and P-states change all the time
  }
}

std::string words_of(const AlertChange& change) {
  const auto& alert = change.alert;
  const std::string_view what = change.kind == AlertChange::Kind::ended ? "ended" : "began";
  return fmt::format("{} {}: {}: {}", to_string(alert.level), what, alert.rule, alert.message);
}

bool is_fit(facts::HealthState state) {
  return state == facts::HealthState::available || state == facts::HealthState::busy;
}

}  // namespace

std::vector<Happening> happenings_in(const Reading& reading, const std::vector<AlertChange>& alerts,
                                     const std::vector<HealthChange>& health) {
  std::vector<Happening> list;
  const auto now = reading.snapshot.taken_at;
  for (const facts::GpuEvent& event : reading.events) {
    auto words = words_of(event);
    if (words.empty()) continue;
    Happening happening{event.time, std::string(facts::to_string(event.kind)), event.uuid, std::move(words)};
    if (event.kind == facts::GpuEventKind::xid) happening.number = static_cast<std::int64_t>(event.data);
    list.push_back(std::move(happening));
  }
  for (const AlertChange& change : alerts) {
    if (change.kind != AlertChange::Kind::repeated) list.push_back({now, "alert", change.alert.uuid, words_of(change)});
  }
  for (const HealthChange& change : health) {
    if (is_fit(change.before.state) && is_fit(change.now.state)) continue;
    const auto& to = change.now;
    list.push_back({now, "health", to.uuid,
                    fmt::format("{}{}", facts::to_string(to.state), to.reason.empty() ? "" : ": " + to.reason)});
  }
  return list;
}

}  // namespace gpuwarden::telemetry
