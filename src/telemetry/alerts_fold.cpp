// SPDX-License-Identifier: Apache-2.0
// One event, one alert: what follows from an alert on the same GPU is folded into it.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/telemetry/alerts.hpp"
#include "telemetry/alert_moment.hpp"

namespace gpuwarden::telemetry {
namespace {

/// Whether alerts of `rule` follow from those of `root`. What is worse than that is no mere consequence of it.
bool follows_from(const AlertRule& rule, const Alert& root) {
  if (root.rule == rule.id || root.level < rule.level) return false;
  return std::ranges::any_of(rule.part_of, [&](const std::string& id) {
    return id == kAnyError ? root.level >= AlertLevel::error : id == root.rule;
  });
}

/// Events tell what happened, states what came of it; what follows from everything is judged last.
int rank_of(const AlertRule& rule) {
  if (std::ranges::find(rule.part_of, kAnyError) != rule.part_of.end()) return 2;
  return rule.part_of.empty() || rule.when.about_events() ? 0 : 1;
}

}  // namespace

void AlertBook::set_rules(std::vector<AlertRule> rules) {
  rules_ = std::move(rules);
  needs_before_ = std::ranges::any_of(rules_, [](const AlertRule& rule) {
    return rule.when.about_increases() || (rule.until && rule.until->about_increases());
  });
  order_.clear();
  for (int rank = 0; rank <= 2; ++rank) {
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      if (rank_of(rules_[i]) == rank) order_.push_back(i);
    }
  }
}

/// The newest of those that it may follow from.
const Alert* AlertBook::root_for(const AlertRule& rule, const std::string& uuid) const {
  const Alert* root = nullptr;
  for (const auto& [key, track] : tracks_) {
    if (key.second != uuid || !track.alert || track.alert->part_of != 0 || !follows_from(rule, *track.alert)) continue;
    if (root == nullptr || track.alert->since >= root->since) root = &*track.alert;
  }
  return root;
}

/// What was told before its cause was known ends as an alert of its own.
void AlertBook::take_over(const Alert& root, Moment& moment) {
  for (auto& [key, track] : tracks_) {
    const AlertRule* rule = find_rule(key.first);
    if (key.second != root.uuid.value || !track.alert || track.alert->part_of != 0 || rule == nullptr) continue;
    if (track.alert->id == root.id || !follows_from(*rule, root)) continue;
    if (is_silenced(root, moment.now) && !is_silenced(*track.alert, moment.now)) continue;
    track.alert->part_of = root.id;
    Alert told = *track.alert;
    told.ended = moment.now;
    moment.changes.push_back({AlertChange::Kind::ended, std::move(told), !track.told});
    move_parts(track.alert->id, root.id);
  }
}

/// What was folded into the one is folded into the other.
void AlertBook::move_parts(std::uint64_t from, std::uint64_t to) {
  for (auto& [key, track] : tracks_) {
    if (track.alert && track.alert->part_of == from) track.alert->part_of = to;
  }
}

bool AlertBook::has_parts(std::uint64_t id) const {
  return std::ranges::any_of(
      tracks_, [&](const auto& entry) { return entry.second.alert && entry.second.alert->part_of == id; });
}

/// Those whose root has ended, by a reload of the rules, stand for themselves.
void AlertBook::free_orphans() {
  for (auto& [key, track] : tracks_) {
    if (!track.alert || track.alert->part_of == 0) continue;
    const std::uint64_t root = track.alert->part_of;
    const bool there = std::ranges::any_of(
        tracks_, [&](const auto& entry) { return entry.second.alert && entry.second.alert->id == root; });
    if (there) continue;
    track.alert->part_of = 0;
    track.told.reset();
  }
}

std::vector<std::string> AlertBook::parts_of(std::uint64_t id) const {
  std::vector<std::string> messages;
  for (const auto& [key, track] : tracks_) {
    if (track.alert && track.alert->part_of == id) messages.push_back(track.alert->message);
  }
  return messages;
}

Result<void> AlertBook::check(const Silence& silence) const {
  if (!silence.rule.empty() && find_rule(silence.rule) == nullptr) {
    std::vector<std::string> known;
    for (const AlertRule& rule : rules_) known.push_back(rule.id);
    const std::string close = closest_match(silence.rule, known);
    return fail(ErrorCode::not_found, fmt::format("there is no alert rule '{}'", printable(silence.rule)),
                close.empty() ? "docs/alerts.md lists the built-in ones" : fmt::format("did you mean '{}'?", close));
  }
  // Before the first reading no GPU is known.
  if (silence.uuid.value.empty() || gpus_.empty() || gpus_.contains(silence.uuid.value)) return {};
  // One that never told its UUID has alerts all the same.
  if (std::ranges::any_of(tracks_, [&](const auto& entry) { return entry.first.second == silence.uuid.value; }))
    return {};
  std::vector<std::string> known;
  for (const auto& [uuid, gpu] : gpus_) known.push_back(uuid);
  const std::string close = closest_match(silence.uuid.value, known);
  return fail(ErrorCode::not_found, fmt::format("there is no GPU '{}'", printable(silence.uuid.value)),
              close.empty() ? "a GPU's UUID: gpuwarden list shows them" : fmt::format("did you mean '{}'?", close));
}

}  // namespace gpuwarden::telemetry
