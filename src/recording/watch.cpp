// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/recording/watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/use.hpp"

namespace gpuwarden::recording {
namespace {

using facts::GpuEvent;
using facts::GpuEventKind;
using facts::GpuRecord;
using facts::ThrottleReason;
using telemetry::Happening;
using telemetry::WallTime;

/// Nothing for events that are no news to somebody who reads a report (clocks, P-states).
std::optional<Happening> happening_of(const GpuEvent& event, WallTime now) {
  const WallTime time = event.time == WallTime{} ? now : event.time;
  switch (event.kind) {
    case GpuEventKind::xid:
      return Happening{time, std::string(kXidKind), event.uuid, fmt::format("Xid {}", event.data),
                       static_cast<std::int64_t>(event.data)};
    case GpuEventKind::ecc_double_bit:
      return Happening{time, std::string(kEccKind), event.uuid, "an uncorrected memory error"};
    case GpuEventKind::lost:
      return Happening{time, std::string(kLostKind), event.uuid, "it fell off the bus"};
    default:
      return std::nullopt;
  }
}

Happening happening_of(const telemetry::AlertChange& change, WallTime now) {
  const telemetry::Alert& alert = change.alert;
  const bool ended = change.kind == telemetry::AlertChange::Kind::ended;
  const std::string text = ended ? fmt::format("ended: {}", alert.rule)
                                 : fmt::format("{}: {}", to_lower(telemetry::to_string(alert.level)),
                                               alert.message.empty() ? alert.rule : alert.message);
  return {now, std::string(kAlertKind), alert.uuid, text};
}

/// What happenings of the kinds lost and failed tell, at once and with the cause.
bool tells_of_loss(const telemetry::Alert& alert) { return alert.rule == "gpu_lost" || alert.rule == "not_answering"; }

std::string cause_of(const GpuRecord& record) {
  return record.cause.empty() ? spaced(to_string(record.state)) : record.cause;
}

}  // namespace

std::string text_of(const std::vector<ThrottleReason>& reasons) {
  std::string text;
  for (const ThrottleReason reason : reasons) {
    if (facts::is_slowdown(reason)) text += fmt::format("{}{}", text.empty() ? "" : " ", to_string(reason));
  }
  return text;
}

std::vector<ThrottleReason> throttle_reasons_from_text(std::string_view text) {
  std::vector<ThrottleReason> reasons;
  for (const auto word : split_words(text)) {
    if (const auto reason = facts::throttle_reason_from(word)) reasons.push_back(*reason);
  }
  return reasons;
}

void ThrottleMeter::add(WallTime time, std::optional<std::vector<ThrottleReason>> reasons,
                        std::chrono::milliseconds longest) {
  using std::chrono::milliseconds;
  if (reasons_) {
    const auto lasted = std::chrono::duration_cast<milliseconds>(time - since_);
    const milliseconds counted = std::clamp(lasted, milliseconds(0), longest);
    times_.covered += counted;
    if (!reasons_->empty()) times_.any += counted;
    for (const ThrottleReason reason : *reasons_) times_.by_reason[reason] += counted;
  }
  if (reasons) {
    std::erase_if(*reasons, [](ThrottleReason reason) { return !facts::is_slowdown(reason); });
    for (const ThrottleReason reason : *reasons) times_.by_reason.try_emplace(reason);
  }
  reasons_ = std::move(reasons);
  since_ = time;
}

Uuid place_name(GpuIndex index) {
  GpuRecord nameless;
  nameless.gpu.index = index;
  return facts::identity_of(nameless);
}

void Watch::identify(facts::Snapshot& snapshot) {
  for (GpuRecord& record : snapshot.gpus) {
    if (!record.gpu.uuid.value.empty()) continue;
    const auto place =
        std::ranges::find_if(seen_, [&](const auto& entry) { return entry.second.index == record.gpu.index; });
    // One that never told its UUID is called by its place from the first reading on, not from the second.
    record.gpu.uuid = place != seen_.end() ? place->first : facts::identity_of(record);
  }
}

/// A GPU that tells its UUID at last is the one that was known by its place.
void Watch::take_over(const GpuRecord& record, Seen& seen) {
  if (record.gpu.uuid == place_name(record.gpu.index)) return;
  const auto nameless = seen_.find(place_name(record.gpu.index));
  if (nameless == seen_.end()) return;
  seen = std::move(nameless->second);
  seen_.erase(nameless);
}

void Watch::judge_gpu(const GpuRecord& record, WallTime time, std::vector<Happening>& out) {
  const Uuid uuid = facts::identity_of(record);
  const auto [entry, first] = seen_.try_emplace(uuid);
  Seen& seen = entry->second;
  if (first) take_over(record, seen);
  seen.index = record.gpu.index;
  const bool usable = facts::is_usable(record);
  const bool was_usable = seen.usable && seen.listed;
  if (was_usable && !usable) {
    const bool lost = record.state == facts::GpuState::lost;
    out.push_back({time, std::string(lost ? kLostKind : kFailedKind), uuid, cause_of(record)});
  }
  // A reading may have begun before the event came that tells of a loss: the next one knows.
  const bool too_early = std::exchange(seen.just_lost, false) && usable;
  if (!was_usable && usable && !too_early) out.push_back({time, std::string(kBackKind), uuid, "it answers again"});
  seen.usable = usable && !too_early;
  seen.listed = true;
  // What cannot be read any more holds no clocks back.
  std::optional<std::string> throttling;
  if (record.sample.throttle_reasons) throttling = text_of(*record.sample.throttle_reasons);
  if (!usable && seen.throttling) throttling = "";
  if (throttling && throttling != seen.throttling) {
    seen.throttling = throttling;
    out.push_back({time, std::string(kThrottleKind), uuid, *throttling});
  }
}

void Watch::judge_event(const GpuEvent& event, const facts::Snapshot& snapshot, std::vector<Happening>& out) {
  auto happening = happening_of(event, snapshot.taken_at);
  if (!happening) return;
  const auto known = seen_.find(event.uuid);
  if (happening->kind == kLostKind && known != seen_.end()) {
    Seen& seen = known->second;
    if (!seen.usable || !seen.listed) return;
    seen.usable = false;
    seen.just_lost = true;
    const auto record = std::ranges::find(snapshot.gpus, event.uuid, [](const GpuRecord& one) { return one.gpu.uuid; });
    if (record != snapshot.gpus.end() && !record->cause.empty()) happening->text = record->cause;
  }
  out.push_back(std::move(*happening));
}

void Watch::judge_missing(const facts::Snapshot& snapshot, std::vector<Happening>& out) {
  for (auto& [uuid, seen] : seen_) {
    const bool listed =
        std::ranges::any_of(snapshot.gpus, [&](const GpuRecord& record) { return facts::identity_of(record) == uuid; });
    if (listed || !seen.listed) continue;
    seen.listed = false;
    const std::string why = snapshot.problem ? snapshot.problem->message : "the driver no longer reports this GPU";
    if (seen.usable) out.push_back({snapshot.taken_at, std::string(kLostKind), uuid, why});
  }
}

std::vector<Happening> Watch::judge(const telemetry::Reading& reading) {
  const WallTime now = reading.snapshot.taken_at;
  std::vector<Happening> out;
  for (const GpuEvent& event : reading.events) judge_event(event, reading.snapshot, out);
  for (const GpuRecord& record : reading.snapshot.gpus) judge_gpu(record, now, out);
  judge_missing(reading.snapshot, out);
  for (const telemetry::AlertChange& change : alerts_.judge(reading)) {
    if (change.kind != telemetry::AlertChange::Kind::repeated && !tells_of_loss(change.alert))
      out.push_back(happening_of(change, now));
  }
  return out;
}

}  // namespace gpuwarden::recording
