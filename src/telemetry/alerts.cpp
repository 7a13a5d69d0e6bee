// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/alerts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <tuple>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/use.hpp"
#include "telemetry/alert_moment.hpp"
#include "telemetry/alert_rule_text.hpp"
#include "telemetry/columns_metrics.hpp"
#include "telemetry/elapsed.hpp"

namespace gpuwarden::telemetry {
namespace {

using AlertTime = std::chrono::system_clock::time_point;

/// Since when a condition holds. While it is not known, time stands still.
void follow(std::optional<AlertTime>& since, std::optional<bool> holds, AlertTime now, AlertTime before) {
  if (!holds && since) {
    *since += now - before;
  } else if (holds == false) {
    since.reset();
  } else if (holds == true && !since) {
    since = now;
  }
}

bool has_held(const std::optional<AlertTime>& since, std::optional<bool> holds, AlertTime now,
              std::chrono::milliseconds time) {
  return holds == true && since && now - *since >= time;
}

const Variable* first_number(const Expression& expression) {
  const auto& variables = expression.variables();
  const auto found = std::ranges::find_if(variables, [](const Variable* variable) { return !variable->is_text(); });
  return found == variables.end() ? nullptr : *found;
}

/// Of several numbers the last, which is the newest Xid.
void refresh_value(Alert& alert, const Expression& expression, const Subject& subject) {
  const Variable* variable = first_number(expression);
  if (variable == nullptr) return;
  alert.unit = variable->unit;
  const Value value = value_of(*variable, subject);
  if (const auto* number = std::get_if<double>(&value)) alert.value = *number;
  const auto* numbers = std::get_if<Numbers>(&value);
  if (numbers != nullptr && !numbers->known.empty()) alert.value = numbers->known.back();
}

/// A GPU's state as a sentence has it: "is lost", "needs a reset".
std::string words_for_state(const Subject& subject) {
  if (subject.gpu == nullptr) return "is in a state that is not known";
  const facts::GpuState state = subject.gpu->state;
  if (state == facts::GpuState::needs_reset) return "needs a reset";
  if (state == facts::GpuState::not_answering) return "does not answer";
  if (state == facts::GpuState::no_permission) return "may not be used by this user";
  return fmt::format("is {}", to_string(state));
}

std::string fill(std::string_view text, const Alert& alert, const Subject& subject) {
  return printable(fill_gaps(text, [&](std::string_view name) -> std::optional<std::string> {
    if (name == "value") return show(alert.value ? Value(*alert.value) : Value(), alert.unit);
    if (name == "state_words") return words_for_state(subject);
    const Variable* variable = find_variable(name);
    if (variable == nullptr) return std::nullopt;
    return show(value_of(*variable, subject), variable->unit);
  }));
}

void refresh_words(Alert& alert, const AlertRule& rule, const Subject& subject) {
  alert.message = fill(rule.message, alert, subject);
  alert.next_step = fill(rule.next_step, alert, subject);
  // Nothing but a name of which nothing is known.
  if (alert.next_step == "-") alert.next_step.clear();
}

/// What is known of a GPU that the driver does not list any more.
facts::GpuRecord missing(const facts::Gpu& gpu) {
  facts::GpuRecord record;
  record.gpu = gpu;
  record.state = facts::GpuState::lost;
  record.cause = "the driver does not list it any more";
  return record;
}

}  // namespace

std::string_view to_string(AlertChange::Kind kind) {
  static constexpr std::array<std::string_view, 3> kNames{"began", "repeated", "ended"};
  return kNames.at(static_cast<std::size_t>(kind));
}

AlertBook::AlertBook(std::vector<AlertRule> rules) { set_rules(std::move(rules)); }

const AlertRule* AlertBook::find_rule(std::string_view id) const {
  const auto found = std::ranges::find(rules_, id, &AlertRule::id);
  return found == rules_.end() ? nullptr : &*found;
}

std::vector<AlertChange> AlertBook::judge(const Reading& reading, std::span<const facts::Health> health) {
  const Time now = std::chrono::floor<std::chrono::milliseconds>(reading.snapshot.taken_at);
  Time before = now;
  if (resumed_) {
    resume(now, reading);
  } else if (judged_ != Time{}) {
    const Elapsed time = elapsed_between({to_millis(judged_), judged_when_}, {to_millis(now), reading.when});
    if (time.set != 0) shift(std::chrono::milliseconds(time.set), true);
    before = now - std::chrono::milliseconds(time.passed);
  }
  judged_when_ = reading.when;
  Moment moment{now, before, reading, health, {}, {}, {}};
  for (const auto& event : reading.events) moment.events[event.uuid.value].push_back(event);
  std::erase_if(silences_, [&](const Silence& silence) { return silence.until <= now; });
  end_without_rule(moment);
  for (const auto& record : reading.snapshot.gpus) judge_gpu(record, key_of(record), moment);
  // A driver that does not answer lists no GPUs, or not by their names: that says nothing about any of them.
  if (!reading.snapshot.problem) judge_missing(moment);
  free_orphans();
  judged_ = now;
  for (AlertChange& change : moment.changes) change.alert.also = parts_of(change.alert.id);
  return std::move(moment.changes);
}

/// Moves what is waited for, so that a time in which nobody looked, or by which the clock was set, does not count.
void AlertBook::shift(Time::duration gap, bool told_too) {
  for (auto& [key, track] : tracks_) {
    if (track.holds_since) *track.holds_since += gap;
    if (track.clear_since) *track.clear_since += gap;
    if (track.told && told_too) *track.told += gap;
  }
}

/// What was acknowledged of a GPU that is gone for good is dropped.
void AlertBook::resume(Time now, const Reading& reading) {
  shift(now - judged_, now < judged_);
  judged_ = now;
  std::map<std::string, bool> listed;
  for (const auto& record : reading.snapshot.gpus) listed[key_of(record)] = true;
  if (!reading.snapshot.problem) {
    // With what was folded into it.
    std::set<std::uint64_t> acknowledged;
    for (const auto& [key, track] : tracks_) {
      if (track.alert && !track.alert->acknowledged_by.empty()) acknowledged.insert(track.alert->id);
    }
    std::erase_if(tracks_, [&](const auto& entry) {
      const auto& [key, track] = entry;
      return !listed[key.second] && track.alert &&
             (acknowledged.contains(track.alert->id) || acknowledged.contains(track.alert->part_of));
    });
    std::erase_if(gpus_, [&](const auto& entry) {
      return !listed[entry.first] &&
             std::ranges::none_of(tracks_, [&](const auto& track) { return track.first.second == entry.first; });
    });
  }
  resumed_ = false;
}

void AlertBook::end_without_rule(Moment& moment) {
  for (auto at = tracks_.begin(); at != tracks_.end();) {
    auto& [key, track] = *at;
    const bool orphan = find_rule(key.first) == nullptr;
    if (orphan && track.alert && track.alert->part_of == 0) {
      track.alert->ended = moment.now;
      moment.changes.push_back({AlertChange::Kind::ended, *track.alert, !track.told});
    }
    at = orphan ? tracks_.erase(at) : std::next(at);
  }
}

/// A GPU whose UUID cannot be read is the one that was read at its place.
std::string AlertBook::key_of(const facts::GpuRecord& record) const {
  if (!record.gpu.uuid.value.empty()) return record.gpu.uuid.value;
  for (const auto& [uuid, known] : gpus_) {
    const bool same_place = record.gpu.pci_bus_id.empty() ? known.gpu.index == record.gpu.index
                                                          : known.gpu.pci_bus_id == record.gpu.pci_bus_id;
    if (same_place) return uuid;
  }
  return facts::identity_of(record).value;
}

void AlertBook::judge_gpu(const facts::GpuRecord& record, const std::string& uuid, Moment& moment) {
  Subject subject;
  subject.gpu = &record;
  subject.lease = facts::find_lease(moment.reading.leases, record);
  subject.host = moment.reading.snapshot.host;
  subject.events = moment.events[uuid];
  const auto health = std::ranges::find(moment.health, uuid, [](const auto& h) { return h.uuid.value; });
  if (health != moment.health.end()) subject.health = &*health;
  const bool named = !record.gpu.uuid.value.empty();
  if (named && !gpus_.contains(uuid)) name_tracks(record);
  Known nameless;
  Known& known = named || gpus_.contains(uuid) ? gpus_[uuid] : nameless;
  if (known.has_before) subject.before = &known.before;
  moment.seen.push_back(uuid);
  if (named) known.gpu = record.gpu;
  for (const std::size_t index : order_) judge_rule(rules_[index], subject, moment);
  if (needs_before_) remember(record.sample, known);
}

/// What was kept under the GPU's index, while its UUID could not be read, is kept under its UUID from now on.
void AlertBook::name_tracks(const facts::GpuRecord& record) {
  facts::GpuRecord nameless;
  nameless.gpu.index = record.gpu.index;
  const std::string before = facts::identity_of(nameless).value;
  std::vector<std::pair<std::string, Track>> moved;
  for (const auto& [key, track] : tracks_) {
    if (key.second == before) moved.emplace_back(key.first, track);
  }
  for (auto& [rule, track] : moved) {
    tracks_.erase({rule, before});
    if (track.alert) track.alert->uuid = record.gpu.uuid;
    tracks_[{rule, record.gpu.uuid.value}] = std::move(track);
  }
}

/// A counter that is not known this time is later compared with what it was when it was.
void AlertBook::remember(const facts::GpuSample& sample, Known& known) {
  for (const auto& metric : facts::metrics()) {
    if (metric.kind != facts::MetricKind::counter) continue;
    if (const auto value = facts::value_of(metric, sample)) facts::set_value(metric, known.before, value);
  }
  known.has_before = true;
}

void AlertBook::judge_missing(Moment& moment) {
  moment.gpu_is_missing = true;
  for (const auto& [uuid, known] : gpus_) {
    if (std::ranges::find(moment.seen, uuid) == moment.seen.end()) judge_gpu(missing(known.gpu), uuid, moment);
  }
}

void AlertBook::judge_rule(const AlertRule& rule, const Subject& subject, Moment& moment) {
  const Key key{rule.id, moment.seen.back()};
  const auto found = tracks_.find(key);
  const auto holds = rule.when.holds(subject);
  if (found == tracks_.end() && holds != true) return;
  Track& track = found == tracks_.end() ? tracks_[key] : found->second;
  if (track.alert) {
    go_on(rule, subject, track, moment);
  } else {
    follow(track.holds_since, holds, moment.now, moment.before);
    if (has_held(track.holds_since, holds, moment.now, rule.holds_for)) begin(rule, subject, track, moment);
  }
  if (!track.alert && !track.holds_since) tracks_.erase(key);
}

void AlertBook::begin(const AlertRule& rule, const Subject& subject, Track& track, Moment& moment) {
  Alert alert;
  alert.id = next_id_++;
  alert.rule = rule.id;
  alert.level = rule.level;
  alert.gpu = subject.gpu->gpu.index;
  alert.uuid = Uuid(moment.seen.back());
  alert.host = moment.reading.snapshot.host;
  alert.condition = rule.when.text();
  alert.since = moment.now;
  alert.simulated = moment.reading.snapshot.simulated;
  refresh_value(alert, rule.when, subject);
  refresh_words(alert, rule, subject);
  const bool silenced = is_silenced(alert, moment.now);
  const Alert* root = root_for(rule, moment.seen.back());
  // What nobody hears of cannot speak for another.
  if (root != nullptr && !silenced && (is_silenced(*root, moment.now) || !root->acknowledged_by.empty()))
    root = nullptr;
  track = {};
  if (root != nullptr) {
    alert.part_of = root->id;
    track.alert = std::move(alert);
    return;
  }
  if (!silenced) track.told = moment.now;
  moment.changes.push_back({AlertChange::Kind::began, alert, silenced});
  track.alert = std::move(alert);
  take_over(*track.alert, moment);
}

void AlertBook::go_on(const AlertRule& rule, const Subject& subject, Track& track, Moment& moment) {
  const auto holds = rule.when.holds(subject);
  refresh_value(*track.alert, rule.when, subject);
  if (holds == true && rule.when.about_events()) {
    ++track.alert->count;
    refresh_words(*track.alert, rule, subject);
  }
  auto over = rule.until ? rule.until->holds(subject) : holds.has_value() ? std::optional(!*holds) : std::nullopt;
  if (holds == true) over = false;
  if (moment.gpu_is_missing && over == true) over.reset();
  follow(track.clear_since, over, moment.now, moment.before);
  const bool is_over = has_held(track.clear_since, over, moment.now, rule.clear_for);
  // An event is over at once, what came of it is not; a state that has ended holds nothing together.
  const bool holds_parts = rule.when.about_events() && has_parts(track.alert->id);
  if (!is_over || holds_parts) return remind(rule, track, moment);
  if (track.alert->part_of != 0) {
    track = {};
    return;
  }
  track.alert->ended = moment.now;
  moment.changes.push_back({AlertChange::Kind::ended, *track.alert, !track.told});
  track = {};
}

/// Tells of it again, or for the first time where a silence has ended.
void AlertBook::remind(const AlertRule& rule, Track& track, Moment& moment) const {
  if (track.alert->part_of != 0 || !track.alert->acknowledged_by.empty() || is_silenced(*track.alert, moment.now))
    return;
  const bool due = !track.told || (rule.repeat && moment.now - *track.told >= *rule.repeat);
  if (!due) return;
  track.told = moment.now;
  moment.changes.push_back({AlertChange::Kind::repeated, *track.alert, false});
}

bool AlertBook::is_silenced(const Alert& alert, Time now) const {
  return std::ranges::any_of(silences_, [&](const Silence& silence) {
    return now < silence.until && (silence.rule.empty() || silence.rule == alert.rule) &&
           (silence.uuid.value.empty() || silence.uuid == alert.uuid);
  });
}

std::vector<Alert> AlertBook::active() const {
  std::vector<Alert> alerts;
  for (const auto& [key, track] : tracks_) {
    if (!track.alert || track.alert->part_of != 0) continue;
    alerts.push_back(*track.alert);
    alerts.back().also = parts_of(track.alert->id);
  }
  std::ranges::sort(alerts, [](const Alert& a, const Alert& b) {
    return std::tuple(b.level, a.since, a.id) < std::tuple(a.level, b.since, b.id);
  });
  return alerts;
}

Result<void> AlertBook::acknowledge(std::uint64_t id, std::string by) {
  for (auto& [key, track] : tracks_) {
    if (!track.alert || track.alert->id != id) continue;
    track.alert->acknowledged_by = std::move(by);
    return {};
  }
  return fail(ErrorCode::not_found, fmt::format("no alert {} is active", id), "it may have ended");
}

void AlertBook::silence(Silence silence) {
  silence.until = std::chrono::floor<std::chrono::milliseconds>(silence.until);
  std::erase_if(silences_,
                [&](const Silence& other) { return other.rule == silence.rule && other.uuid == silence.uuid; });
  silences_.push_back(std::move(silence));
}

bool AlertBook::end_silence(std::string_view rule, const Uuid& uuid) {
  return std::erase_if(silences_, [&](const Silence& one) { return one.rule == rule && one.uuid == uuid; }) > 0;
}

}  // namespace gpuwarden::telemetry
