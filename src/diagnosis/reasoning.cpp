// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/reasoning.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include "diagnosis/claims.hpp"
#include "diagnosis/machine.hpp"
#include "diagnosis/values.hpp"

namespace gpuwarden::diagnosis {
namespace {

using knowledge::Role;

/// In the order in which things happened, as far as it can be told: by time where every event of every file has a
/// comparable one, else file by file.
std::map<const Event*, std::uint64_t> chronology(const Reading& reading) {
  std::vector<const Event*> events;
  for (const Event& event : reading.events) events.push_back(&event);
  const int clock = events.empty() ? 0 : events.front()->clock;
  const auto comparable = [&](const Event* event) { return event->time && event->clock == clock; };
  if (clock != 0 && std::ranges::all_of(events, comparable))
    std::ranges::stable_sort(events, {}, [](const Event* event) { return *event->time; });
  std::map<const Event*, std::uint64_t> places;
  for (std::size_t i = 0; i < events.size(); ++i) places[events[i]] = i;
  return places;
}

/// Facts that belong to one message: those of another, further away, would not fit together.
bool is_of_message(const std::string& key) {
  static constexpr auto kKeys = std::to_array<std::string_view>({"gpu", "processes", "pci"});
  return key.ends_with("_bytes") || std::ranges::find(kKeys, key) != kKeys.end();
}

void add_facts(Suspect& suspect, const Event& event) {
  constexpr std::uint64_t kNear = 12;
  const Event& first = *suspect.events.front();
  const std::uint64_t distance = event.line > first.line ? event.line - first.line : first.line - event.line;
  const bool near = &event == &first || (event.file == first.file && distance <= kNear);
  Facts facts = event.facts;
  if (!near) std::erase_if(facts, [](const auto& fact) { return is_of_message(fact.first); });
  merge_facts(suspect.facts, facts);
}

/// Gathers the claims of one cause.
Suspect gather(const std::string& id, std::vector<Claim> claims, const std::map<const Event*, std::uint64_t>& places) {
  std::ranges::stable_sort(claims, [&](const Claim& a, const Claim& b) {
    if (tier(a.role) != tier(b.role)) return tier(a.role) > tier(b.role);
    if (a.event->quoted != b.event->quoted) return !a.event->quoted;
    return places.at(a.event) < places.at(b.event);
  });
  Suspect suspect;
  suspect.cause = knowledge::diagnosis_cause(id);
  suspect.role = claims.front().role;
  suspect.first = places.at(claims.front().event);
  suspect.quoted = claims.front().event->quoted;
  suspect.summary = claims.front().summary;
  suspect.settled = !claims.front().reason.empty();
  std::set<const knowledge::DiagnosisRule*> rules;
  for (const Claim& claim : claims) {
    suspect.events.push_back(claim.event);
    if (claim.role == suspect.role) {
      suspect.strength = std::max(suspect.strength, claim.strength);
      suspect.first = std::min(suspect.first, places.at(claim.event));
      rules.insert(claim.event->rule);
    }
    add_facts(suspect, *claim.event);
    const bool known = std::ranges::find(suspect.reasons, claim.reason) != suspect.reasons.end();
    if (!claim.reason.empty() && !known && suspect.reasons.size() < 3) suspect.reasons.push_back(claim.reason);
  }
  suspect.strength = std::min(0.98, suspect.strength + 0.02 * static_cast<double>(rules.size() - 1));
  return suspect;
}

std::vector<Suspect> suspects_of(const Reading& reading, const std::set<std::string>& tags) {
  const auto places = chronology(reading);
  std::map<std::string, std::vector<Claim>> grouped;
  for (Claim& claim : claims_of(reading, tags)) grouped[claim.cause].push_back(std::move(claim));
  std::vector<Suspect> suspects;
  for (auto& [id, claims] : grouped) suspects.push_back(gather(id, std::move(claims), places));
  return suspects;
}

std::optional<double> time_of(const Suspect& suspect, int clock, bool last) {
  std::optional<double> found;
  for (const Event* event : suspect.events) {
    if (!event->time || event->clock != clock) continue;
    if (!found || (last ? *event->time > *found : *event->time < *found)) found = event->time;
  }
  return found;
}

/// Whether the times rule out that `effect` followed from `cause`: it was over before, or came a day later.
bool is_out_of_time(const Suspect& cause, const Suspect& effect) {
  constexpr double kTolerance = 120;  // clocks of ranks and of the kernel, and buffered output
  constexpr double kDay = 86400;
  std::set<int> clocks;
  for (const Event* event : cause.events) clocks.insert(event->clock);
  for (const int clock : clocks) {
    if (clock == 0) continue;
    const auto begin = time_of(cause, clock, false);
    const auto end = time_of(cause, clock, true);
    const auto first_effect = time_of(effect, clock, false);
    const auto last_effect = time_of(effect, clock, true);
    if (!begin || !last_effect) continue;
    if (*begin > *last_effect + kTolerance || *end < *first_effect - kDay) return true;
  }
  return false;
}

bool explains(const Suspect& cause, const Suspect& effect) {
  if (tier(cause.role) < tier(effect.role)) return false;
  if (std::ranges::find(cause.cause->explains, effect.cause->id) == cause.cause->explains.end()) return false;
  // A sentence about some error explains no error that really happened.
  if (cause.quoted && !effect.quoted && cause.role == effect.role) return false;
  return !is_out_of_time(cause, effect);
}

void mark_consequences(std::vector<Suspect>& suspects) {
  for (const Suspect& cause : suspects) {
    for (Suspect& effect : suspects) {
      if (&cause == &effect || !effect.explained_by.empty()) continue;
      if (cause.explained_by == effect.cause->id || !explains(cause, effect)) continue;
      // Where each could be the other's cause, the surer one is, else the earlier.
      const bool mutual = explains(effect, cause);
      if (mutual && effect.strength > cause.strength) continue;
      if (mutual && effect.strength == cause.strength && effect.first < cause.first) continue;
      effect.explained_by = cause.cause->id;
    }
  }
}

/// Facts of the machine may turn a suspect into another cause, or strengthen the one that it is.
void ask(std::vector<Suspect>& suspects, const facts::Snapshot& machine, bool in_report) {
  for (Suspect& suspect : suspects) {
    const auto testimony =
        ask_machine({std::string(suspect.cause->id), suspect.facts, suspect.settled}, machine, in_report);
    if (!testimony) continue;
    const auto* cause = knowledge::diagnosis_cause(testimony->cause);
    if (cause == nullptr) continue;
    suspect.machine_evidence.push_back(testimony->fact);
    suspect.reasons.insert(suspect.reasons.begin(), testimony->fact);
    if (cause != suspect.cause) {
      suspect.strength = testimony->confidence;
      suspect.summary.clear();
    }
    suspect.strength = std::max(suspect.strength, testimony->confidence);
    suspect.cause = cause;
    suspect.role = Role::root;
  }
}

/// Two suspects may have become one.
void unite(std::vector<Suspect>& suspects) {
  std::vector<Suspect> united;
  for (Suspect& suspect : suspects) {
    const auto same = std::ranges::find(united, suspect.cause, &Suspect::cause);
    if (same == united.end()) {
      united.push_back(std::move(suspect));
      continue;
    }
    same->events.insert(same->events.end(), suspect.events.begin(), suspect.events.end());
    merge_facts(same->facts, suspect.facts);
    same->strength = std::max(same->strength, suspect.strength);
    same->role = tier(suspect.role) > tier(same->role) ? suspect.role : same->role;
    same->first = std::min(same->first, suspect.first);
  }
  suspects = std::move(united);
}

/// How likely a suspect is the cause among the others: what it says by itself, and that causes come first.
double score(const Suspect& suspect, std::size_t place) {
  const double of_role = suspect.role == Role::root ? 1 : suspect.role == Role::symptom ? 0.6 : 0.35;
  const double of_words = suspect.quoted ? 0.9 : 1;
  return suspect.strength * of_role * of_words - 0.03 * static_cast<double>(std::min<std::size_t>(place, 5));
}

void rank(std::vector<Suspect>& suspects) {
  std::ranges::stable_sort(suspects, {}, &Suspect::first);
  std::vector<std::pair<double, std::size_t>> scores;
  std::size_t place = 0;
  for (std::size_t i = 0; i < suspects.size(); ++i) {
    const bool is_effect = !suspects[i].explained_by.empty();
    scores.emplace_back(is_effect ? -1 : score(suspects[i], place), i);
    place += is_effect ? 0 : 1;
  }
  std::ranges::stable_sort(scores, std::greater{}, &std::pair<double, std::size_t>::first);
  std::vector<Suspect> sorted;
  for (const auto& [value, index] : scores) sorted.push_back(std::move(suspects[index]));
  suspects = std::move(sorted);
}

/// How sure each is, given the others. The factors only order causes: what a weight is worth is calibrated afterwards.
void weigh(std::vector<Suspect>& suspects, bool ordinary) {
  for (std::size_t i = 0; i < suspects.size(); ++i) {
    Suspect& suspect = suspects[i];
    double sure = suspect.strength;
    if (suspect.role == Role::symptom) sure *= ordinary ? 0.6 : 0.85;
    if (suspect.role == Role::weak) sure *= ordinary ? 0.2 : 0.6;
    if (suspect.quoted) sure *= 0.9;
    const bool rivalled =
        suspects.size() > 1 && suspects[1].explained_by.empty() && suspects[1].role == suspects[0].role;
    if (i == 0) {
      sure *= rivalled ? 0.88 : 1;
    } else {
      // A failure of another kind may be there as well; of the same kind only one is the cause.
      const bool apart = rivalled && suspect.role == Role::root && suspect.cause->area != suspects[0].cause->area;
      sure *= apart ? 0.75 : 0.5;
    }
    suspect.weight = sure;
  }
}

bool ends_work(const Event& event) {
  constexpr double kOfAnyError = 0.25;  // below: an error line of which nothing is known, which may be the cause's own
  return event.rule->role == Role::ordinary && event.rule->strength > kOfAnyError && !event.silenced &&
         event.level != Level::info && event.level != Level::warning;
}

}  // namespace

const Event* plain_failure(const Reading& reading) {
  constexpr double kNamesAFailure = 0.5;
  const Event* first = nullptr;
  for (const Event& event : reading.events) {
    if (!ends_work(event) || event.quoted || event.rule->strength < kNamesAFailure) continue;
    // Of the lines of one failure the one that says what it is.
    const bool told = !event.rule->says.empty();
    const bool first_told = first != nullptr && !first->rule->says.empty();
    if (first_told && (!told || event.rule->strength <= first->rule->strength)) continue;
    if (first == nullptr || told ||
        (event.time && first->time && event.clock == first->clock && *event.time < *first->time))
      first = &event;
  }
  return first;
}

std::vector<Suspect> reason(const Reading& reading, const facts::Snapshot* machine, const facts::Snapshot* report) {
  std::set<std::string> tags = reading.tags;
  for (const facts::Snapshot* known : {machine, report}) {
    if (known != nullptr) tags.merge(tags_of(*known));
  }
  std::vector<Suspect> suspects = suspects_of(reading, tags);
  if (machine != nullptr) ask(suspects, *machine, false);
  if (report != nullptr) ask(suspects, *report, true);
  unite(suspects);
  mark_consequences(suspects);
  rank(suspects);
  weigh(suspects, std::ranges::any_of(reading.events, ends_work));
  return suspects;
}

}  // namespace gpuwarden::diagnosis
