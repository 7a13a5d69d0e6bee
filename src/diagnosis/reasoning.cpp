// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/reasoning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <set>

#include "diagnosis/machine.hpp"
#include "diagnosis/out_of_memory.hpp"
#include "diagnosis/values.hpp"

namespace gpuwarden::diagnosis {
namespace {

using knowledge::Role;

/// What one event says about one cause.
struct Claim {
  const Event* event = nullptr;
  std::string cause;
  Role role = Role::weak;
  double strength = 0;
  std::string reason;
};

int tier(Role role) { return role == Role::root ? 2 : role == Role::symptom ? 1 : 0; }

bool holds(const knowledge::DiagnosisRule& rule, const std::set<std::string>& tags) {
  const auto is_set = [&](std::string_view tag) { return tags.contains(std::string(tag)); };
  return std::ranges::all_of(rule.when, is_set) && std::ranges::none_of(rule.unless, is_set);
}

/// The severity gate: what a logger marked as information or warning did not end the work.
Role role_of(const Event& event) {
  const bool gated = !event.rule->any_level && (event.level == Level::info || event.level == Level::warning);
  return gated && event.rule->role == Role::root ? Role::weak : event.rule->role;
}

constexpr std::string_view kOutOfMemory = "oom_capacity";

Claim claim_of(const Event& event) {
  Claim claim{&event, std::string(event.rule->cause), role_of(event), event.rule->strength, ""};
  if (event.quoted) claim.strength *= 0.93;
  if (claim.cause != kOutOfMemory) return claim;
  if (auto verdict = judge_memory(event.facts)) {
    claim.cause = verdict->cause;
    claim.strength = std::min(claim.strength + 0.05, verdict->confidence);
    claim.reason = std::move(verdict->reason);
  }
  return claim;
}

/// The same process asks again and again and holds more each time: memory that is never given back.
bool is_leak(const std::vector<const Event*>& events) {
  constexpr std::size_t kFewest = 4;
  std::vector<std::int64_t> held;
  for (const Event* event : events) {
    if (const auto allocated = number(event->facts, "allocated_bytes")) held.push_back(*allocated);
  }
  return held.size() >= kFewest && std::ranges::is_sorted(held) && held.front() < held.back() - held.back() / 10;
}

/// Gathers the claims of one cause.
Suspect gather(const std::string& id, std::vector<Claim> claims) {
  std::ranges::stable_sort(claims, [](const Claim& a, const Claim& b) {
    if (tier(a.role) != tier(b.role)) return tier(a.role) > tier(b.role);
    if (a.event->quoted != b.event->quoted) return !a.event->quoted;
    return a.event->order < b.event->order;
  });
  Suspect suspect;
  suspect.cause = knowledge::diagnosis_cause(id);
  suspect.role = claims.front().role;
  suspect.first = claims.front().event->order;
  suspect.quoted = claims.front().event->quoted;
  std::set<const knowledge::DiagnosisRule*> rules;
  for (const Claim& claim : claims) {
    suspect.events.push_back(claim.event);
    if (claim.role == suspect.role) {
      suspect.strength = std::max(suspect.strength, claim.strength);
      suspect.first = std::min(suspect.first, claim.event->order);
      rules.insert(claim.event->rule);
    }
    merge_facts(suspect.facts, claim.event->facts);
    const bool known = std::ranges::find(suspect.reasons, claim.reason) != suspect.reasons.end();
    if (!claim.reason.empty() && !known && suspect.reasons.size() < 3) suspect.reasons.push_back(claim.reason);
  }
  suspect.strength = std::min(0.98, suspect.strength + 0.02 * static_cast<double>(rules.size() - 1));
  return suspect;
}

/// Lines that only say "out of memory" speak of the failure whose numbers another line gave.
void follow_the_numbers(std::vector<Claim>& claims) {
  const auto with_numbers = std::ranges::find_if(
      claims, [](const Claim& claim) { return !claim.reason.empty() && claim.role == Role::root; });
  if (with_numbers == claims.end()) return;
  const std::string cause = with_numbers->cause;
  for (Claim& claim : claims) {
    if (claim.cause == kOutOfMemory && claim.reason.empty()) claim.cause = cause;
  }
}

bool may_explain(const std::string& cause, const std::string& effect) {
  const auto& explained = knowledge::diagnosis_cause(cause)->explains;
  return std::ranges::find(explained, effect) != explained.end();
}

/// Whether another cause that rules see in the same line is surer - unless one of them explains the other.
bool is_outdone(const Claim& claim, const std::vector<const Claim*>& of_line) {
  return std::ranges::any_of(of_line, [&](const Claim* other) {
    if (other->cause == claim.cause || tier(other->role) < tier(claim.role)) return false;
    if (may_explain(other->cause, claim.cause) || may_explain(claim.cause, other->cause)) return false;
    return tier(other->role) > tier(claim.role) || other->strength > claim.strength;
  });
}

/// Of several causes that rules see in one line, only the surest counts.
void settle_lines(std::vector<Claim>& claims) {
  std::map<std::pair<std::string_view, std::uint64_t>, std::vector<const Claim*>> lines;
  for (const Claim& claim : claims) lines[{claim.event->file, claim.event->line}].push_back(&claim);
  std::vector<Claim> kept;
  std::ranges::copy_if(claims, std::back_inserter(kept), [&](const Claim& claim) {
    return !is_outdone(claim, lines[{claim.event->file, claim.event->line}]);
  });
  claims = std::move(kept);
}

std::vector<Suspect> suspects_of(const Reading& reading, const std::set<std::string>& tags) {
  std::vector<Claim> claims;
  for (const Event& event : reading.events) {
    if (!event.silenced && !event.rule->cause.empty() && holds(*event.rule, tags)) claims.push_back(claim_of(event));
  }
  follow_the_numbers(claims);
  settle_lines(claims);
  std::map<std::string, std::vector<Claim>> grouped;
  for (Claim& claim : claims) grouped[claim.cause].push_back(std::move(claim));
  std::vector<Suspect> suspects;
  for (auto& [id, of_one] : grouped) suspects.push_back(gather(id, std::move(of_one)));
  for (Suspect& suspect : suspects) {
    const auto* leak = knowledge::diagnosis_cause("oom_leak");
    if (suspect.cause->id != kOutOfMemory || leak == nullptr || !is_leak(suspect.events)) continue;
    suspect.reasons.insert(suspect.reasons.begin(), "the process holds more at each of several failed requests");
    suspect.cause = leak;
    suspect.strength = 0.7;
  }
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

/// Whether `cause` came clearly after `effect` was over.
bool is_too_late(const Suspect& cause, const Suspect& effect) {
  constexpr double kTolerance = 120;  // clocks of ranks and of the kernel, and buffered output
  for (const int clock : {1, 2, 3, 4}) {
    const auto begin = time_of(cause, clock, false);
    const auto end = time_of(effect, clock, true);
    if (begin && end) return *begin > *end + kTolerance;
  }
  return false;
}

bool explains(const Suspect& cause, const Suspect& effect) {
  if (tier(cause.role) < tier(effect.role)) return false;
  if (std::ranges::find(cause.cause->explains, effect.cause->id) == cause.cause->explains.end()) return false;
  // A sentence about some error explains no error that really happened.
  if (cause.quoted && !effect.quoted && cause.role == effect.role) return false;
  return !is_too_late(cause, effect);
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
    const auto testimony = ask_machine(std::string(suspect.cause->id), machine, in_report);
    if (!testimony) continue;
    const auto* cause = knowledge::diagnosis_cause(testimony->cause);
    if (cause == nullptr) continue;
    suspect.machine_evidence.push_back(testimony->fact);
    suspect.reasons.insert(suspect.reasons.begin(), testimony->fact);
    if (cause != suspect.cause) suspect.strength = testimony->confidence;
    suspect.strength = std::max(suspect.strength, testimony->confidence);
    suspect.cause = cause;
    suspect.role = Role::root;
  }
  // Two suspects may have become one.
  for (std::size_t i = 0; i < suspects.size(); ++i) {
    for (std::size_t k = suspects.size(); k-- > i + 1;) {
      if (suspects[k].cause != suspects[i].cause) continue;
      Suspect& whole = suspects[i];
      whole.events.insert(whole.events.end(), suspects[k].events.begin(), suspects[k].events.end());
      merge_facts(whole.facts, suspects[k].facts);
      whole.strength = std::max(whole.strength, suspects[k].strength);
      whole.role = tier(suspects[k].role) > tier(whole.role) ? suspects[k].role : whole.role;
      whole.first = std::min(whole.first, suspects[k].first);
      suspects.erase(suspects.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }
}

/// How likely a suspect is the cause among the others: what it says by itself, and that causes come first.
double score(const Suspect& suspect, std::size_t place) {
  const double of_role = suspect.role == Role::root ? 1 : suspect.role == Role::symptom ? 0.6 : 0.35;
  const double of_words = suspect.quoted ? 0.9 : 1;
  return suspect.strength * of_role * of_words - 0.03 * static_cast<double>(std::min<std::size_t>(place, 5));
}

void rank(std::vector<Suspect>& suspects) {
  std::ranges::stable_sort(suspects, [](const Suspect& a, const Suspect& b) { return a.first < b.first; });
  std::vector<std::pair<double, std::size_t>> scores;
  std::size_t place = 0;
  for (std::size_t i = 0; i < suspects.size(); ++i) {
    const bool is_effect = !suspects[i].explained_by.empty();
    scores.emplace_back(is_effect ? -1 : score(suspects[i], place), i);
    place += is_effect ? 0 : 1;
  }
  std::ranges::stable_sort(scores, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Suspect> sorted;
  for (const auto& [value, index] : scores) sorted.push_back(std::move(suspects[index]));
  suspects = std::move(sorted);
}

bool has_ordinary(const Reading& reading) {
  return std::ranges::any_of(reading.events, [](const Event& event) {
    return event.rule->role == Role::ordinary && event.level != Level::info && event.level != Level::warning;
  });
}

void weigh(std::vector<Suspect>& suspects, bool ordinary) {
  for (std::size_t i = 0; i < suspects.size(); ++i) {
    Suspect& suspect = suspects[i];
    double sure = suspect.strength;
    if (suspect.role == Role::symptom) sure *= ordinary ? 0.6 : 0.85;
    if (suspect.role == Role::weak) sure *= ordinary ? 0.2 : 0.6;
    if (suspect.quoted) sure *= 0.9;
    const bool rivalled =
        suspects.size() > 1 && suspects[1].explained_by.empty() && suspects[1].role == suspects[0].role;
    if (rivalled) sure *= i == 0 ? 0.88 : 0.5;
    if (i > 0 && !rivalled) sure *= 0.5;
    suspect.confidence = sure;
  }
}

}  // namespace

std::vector<Suspect> reason(const Reading& reading, const facts::Snapshot* machine, const facts::Snapshot* report) {
  std::set<std::string> tags = reading.tags;
  for (const facts::Snapshot* known : {machine, report}) {
    if (known != nullptr) tags.merge(tags_of(*known));
  }
  std::vector<Suspect> suspects = suspects_of(reading, tags);
  if (machine != nullptr) ask(suspects, *machine, false);
  if (report != nullptr) ask(suspects, *report, true);
  mark_consequences(suspects);
  rank(suspects);
  weigh(suspects, has_ordinary(reading));
  return suspects;
}

}  // namespace gpuwarden::diagnosis
