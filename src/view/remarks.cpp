// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/use.hpp"
#include "view/words.hpp"

namespace gpuwarden::view {
namespace {

using facts::ThrottleReason;

struct ThrottleWords {
  ThrottleReason reason;
  std::string_view words;
  Tone tone = Tone::warning;
};
constexpr auto kThrottleWords = std::to_array<ThrottleWords>({
    {ThrottleReason::hw_thermal_slowdown, "too hot (hardware)", Tone::fault},
    {ThrottleReason::sw_thermal_slowdown, "too hot", Tone::fault},
    {ThrottleReason::hw_power_brake, "power brake", Tone::fault},
    {ThrottleReason::hw_slowdown, "hardware slowdown", Tone::fault},
    {ThrottleReason::sw_power_cap, "power cap"},
    {ThrottleReason::sync_boost, "sync boost"},
    {ThrottleReason::display_clock_setting, "display clock"},
});

/// What a hardware slowdown is for stands beside it.
bool is_told_by_another(ThrottleReason reason, const std::vector<ThrottleReason>& all) {
  return reason == ThrottleReason::hw_slowdown && std::ranges::any_of(all, [](ThrottleReason other) {
           return other == ThrottleReason::hw_thermal_slowdown || other == ThrottleReason::hw_power_brake;
         });
}

/// The worst of them.
Tone throttle_tone(const std::vector<ThrottleReason>& all) {
  const bool fault = std::ranges::any_of(kThrottleWords, [&](const ThrottleWords& row) {
    return row.tone == Tone::fault && std::ranges::find(all, row.reason) != all.end();
  });
  return fault ? Tone::fault : Tone::warning;
}

/// Which of a GPU's fields says that something is wrong with its memory.
std::string memory_faults(const facts::GpuSample& sample) {
  if (sample.remapped_rows_failed.value_or(Count(0)).value > 0) return "row remapping failed";
  if (sample.ecc_uncorrected_volatile.value_or(Count(0)).value > 0)
    return fmt::format("{} uncorrected ECC", sample.ecc_uncorrected_volatile->value);
  if (sample.remapped_rows_pending.value_or(Count(0)).value > 0 ||
      sample.retired_pages_pending.value_or(Count(0)).value > 0)
    return "reset pending (ECC)";
  return "";
}

Tone tone_of(telemetry::AlertLevel level) {
  if (level == telemetry::AlertLevel::info) return Tone::plain;
  return level == telemetry::AlertLevel::warning ? Tone::warning : Tone::fault;
}

void add_health(const facts::Health& health, std::vector<Remark>& remarks) {
  if (health.state == facts::HealthState::disabled)
    remarks.push_back({health.reason.empty() ? "disabled" : health.reason, Tone::warning});
  if (health.state == facts::HealthState::error)
    remarks.push_back({health.reason.empty() ? "unhealthy" : health.reason, Tone::fault});
}

void add_condition(const facts::GpuRecord& record, std::vector<Remark>& remarks) {
  if (const std::string faults = memory_faults(record.sample); !faults.empty())
    remarks.push_back({faults, Tone::fault});
  if (std::string why = throttle_words(record.sample); !why.empty())
    remarks.push_back({std::move(why), throttle_tone(*record.sample.throttle_reasons)});
}

/// Of a GPU that nobody is seen to hold. Where it is not known whether somebody has reserved it, it is not free.
Remark use_words(facts::Use use, bool leases_known) {
  if (use == facts::Use::free && !leases_known) return {"leases unknown", Tone::warning};
  if (use == facts::Use::free) return {"free", Tone::good};
  return use == facts::Use::in_use ? Remark{"in use", Tone::plain} : Remark{spaced(facts::to_string(use)), Tone::dim};
}

/// "MIG 3g.20gb, 2g.10gb, 2 x 1g.5gb": what a GPU is divided into.
std::string instance_words(const facts::GpuRecord& record) {
  std::vector<std::pair<std::string, int>> profiles;
  for (const facts::MigDevice& mig : record.mig_devices) {
    const std::string profile = mig.profile.value_or("?");
    if (profiles.empty() || profiles.back().first != profile) profiles.emplace_back(profile, 0);
    ++profiles.back().second;
  }
  std::string text;
  for (const auto& [profile, count] : profiles)
    text += (text.empty() ? "MIG " : ", ") + (count > 1 ? fmt::format("{} x ", count) : "") + profile;
  return text;
}

}  // namespace

std::string throttle_words(const facts::GpuSample& sample) {
  if (!sample.throttle_reasons) return "";
  std::string text;
  for (const ThrottleWords& row : kThrottleWords) {
    const auto& all = *sample.throttle_reasons;
    if (std::ranges::find(all, row.reason) == all.end() || is_told_by_another(row.reason, all)) continue;
    text += (text.empty() ? "" : ", ") + std::string(row.words);
  }
  return text;
}

std::string holder_words(const GpuRow& row) {
  std::vector<std::string> users;
  const auto add = [&](const std::string& user) {
    if (std::ranges::find(users, user) == users.end()) users.push_back(user);
  };
  if (row.lease != nullptr) {
    for (const facts::LeaseHolder& holder : row.lease->holders) add(holder.user.empty() ? "?" : holder.user);
    if (users.empty()) users.emplace_back("not visible");
    const std::string idle = row.record != nullptr && facts::is_idle_lease(*row.record, row.lease) ? " (idle)" : "";
    return std::string(row.lease->shared ? "shared: " : "lease: ") + join(users, ",") + idle;
  }
  if (row.record == nullptr || !row.record->processes) return "";
  for (const facts::GpuProcess& process : *row.record->processes) add(process.user.value_or("?"));
  // Processes of nobody who is known: how the GPU is used says more.
  return users == std::vector<std::string>{"?"} ? "" : join(users, ",");
}

std::vector<Remark> remarks_on(const GpuRow& row, const Scene& scene) {
  std::vector<Remark> remarks;
  if (row.node->problem) {
    // Of another machine's GPUs nothing is known then but how they were.
    const std::string lost = row.node->url.empty() ? "" : "lost: ";
    remarks.push_back({lost + row.node->problem->message, Tone::fault});
  }
  if (const auto silent = staleness(*row.node, scene))
    remarks.push_back({fmt::format("stale {} s", silent->count()), Tone::warning});
  if (row.record == nullptr) return remarks;
  const facts::GpuRecord& record = *row.record;
  const bool usable = facts::is_usable(record);
  if (!usable) {
    const bool asleep = record.state == facts::GpuState::suspended;
    std::string text = facts::describe_trouble(record);
    if (asleep) text = record.cause.empty() ? "asleep" : "asleep: " + record.cause;
    remarks.push_back({std::move(text), asleep ? Tone::dim : Tone::fault});
  }
  if (row.health != nullptr && usable) add_health(*row.health, remarks);
  add_condition(record, remarks);
  if (const auto* orphan = row.lease != nullptr ? facts::find_orphan(*row.lease) : nullptr)
    remarks.push_back({facts::describe_orphan(*orphan), Tone::warning});
  if (row.alert != nullptr && remarks.empty())
    remarks.push_back({row.alert->message.empty() ? row.alert->rule : row.alert->message, tone_of(row.alert->level)});
  if (const std::string holder = holder_words(row); !holder.empty()) remarks.push_back({holder, Tone::plain});
  // Nobody can have the GPU as a whole: that it is free would say the wrong thing.
  if (const std::string instances = instance_words(record); !instances.empty())
    remarks.push_back({instances, Tone::plain});
  if (remarks.empty()) remarks.push_back(use_words(facts::use_of(record), !row.node->leases_problem));
  return remarks;
}

}  // namespace gpuwarden::view
