// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/claims.hpp"

#include <re2/re2.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>

#include "diagnosis/out_of_memory.hpp"
#include "diagnosis/values.hpp"
#include "gpuwarden/knowledge/version.hpp"

namespace gpuwarden::diagnosis {
namespace {

using knowledge::Role;

constexpr std::string_view kOutOfMemory = "oom_capacity";
constexpr std::string_view kLeak = "oom_leak";

bool holds(const knowledge::DiagnosisRule& rule, const std::set<std::string>& tags) {
  const auto is_set = [&](std::string_view tag) { return tags.contains(std::string(tag)); };
  return std::ranges::all_of(rule.when, is_set) && std::ranges::none_of(rule.unless, is_set);
}

/// Whether the program says that it caught the error and goes on.
bool is_caught(const Event& event) {
  static const RE2 words(
      R"((?i)\b(?:caught|retry|retrying|retried|recovered|recovering|falling back|skipping|reducing (?:the )?batch)\b)");
  return (event.level == Level::info || event.level == Level::warning) && RE2::PartialMatch(event.text, words);
}

/// The severity gate: what a logger marked as information or warning did not end the work, nor did what came before
/// the program's own word of success.
Role role_of(const Event& event, const Reading& reading) {
  const bool quiet = event.level == Level::info || event.level == Level::warning;
  const bool gated = (quiet && !event.rule->any_level) || is_caught(event);
  const bool survived = reading.ended_well && event.order < *reading.ended_well;
  const Role role = event.rule->role;
  if (role == Role::root) return gated || survived ? Role::weak : role;
  return role == Role::symptom && gated ? Role::weak : role;
}

std::optional<knowledge::Version> version_in(const Facts& facts, const std::string& key) {
  const auto text = word(facts, key);
  return text ? knowledge::Version::parse(*text) : std::nullopt;
}

/// Whether by its own numbers a line asks for nothing that is not there.
bool is_met(const Event& event) {
  const auto required = version_in(event.facts, "required_driver");
  const auto driver = version_in(event.facts, "driver");
  if (required && driver && *driver >= *required) return true;
  // Code for a GPU runs on those of the same major version that are newer (CUDA programming guide, binary
  // compatibility): PyTorch's remark on a GB10 (12.1) in a build up to 12.0.
  const auto arch = version_in(event.facts, "arch");
  const auto newest = version_in(event.facts, "newest_arch");
  return arch && newest && arch->major == newest->major && *arch >= *newest;
}

Claim claim_of(const Event& event, const Reading& reading, bool about_code) {
  Claim claim{&event, std::string(event.rule->cause), role_of(event, reading), event.rule->strength, "", ""};
  if (event.quoted) claim.strength *= 0.93;
  // The description of a change of code tells of errors that happen to nobody.
  if (event.quoted && about_code) {
    claim.role = Role::weak;
    claim.strength *= 0.5;
  }
  const bool survived = claim.role == Role::weak && event.rule->role == Role::root;
  if (claim.role == Role::weak && (survived || event.level == Level::info)) claim.strength *= 0.8;
  if (claim.cause != kOutOfMemory) return claim;
  if (auto verdict = judge_memory(event.facts)) {
    claim.cause = verdict->cause;
    claim.strength = std::min(claim.strength + 0.05, verdict->confidence);
    claim.reason = std::move(verdict->reason);
    claim.summary = std::move(verdict->summary);
  }
  return claim;
}

bool is_of_memory(const Claim& claim) { return claim.event->rule->cause == kOutOfMemory; }

/// Lines that only say "out of memory" speak of the failure whose numbers another line gave.
void follow_the_numbers(std::vector<Claim>& claims) {
  const auto with_numbers =
      std::ranges::find_if(claims, [](const Claim& c) { return !c.reason.empty() && c.role == Role::root; });
  if (with_numbers == claims.end()) return;
  const std::string cause = with_numbers->cause;
  for (Claim& claim : claims) {
    if (claim.cause == kOutOfMemory && claim.reason.empty()) claim.cause = cause;
  }
}

/// Whether what one process holds, or asks for, grows from failure to failure.
bool grows(const std::vector<Claim*>& claims, const char* key, std::int64_t factor_percent) {
  constexpr std::size_t kFewest = 4;
  std::vector<std::int64_t> values;
  for (const Claim* claim : claims) {
    if (const auto value = number(claim->event->facts, key)) values.push_back(*value);
  }
  return values.size() >= kFewest && std::ranges::is_sorted(values) &&
         values.back() / 100 * 100 >= values.front() / 100 * factor_percent;
}

/// The same process fails again and again and holds more each time, or asks for more: memory is never given back.
void find_leaks(std::vector<Claim>& claims) {
  if (knowledge::diagnosis_cause(kLeak) == nullptr) return;
  using Process = std::tuple<std::string_view, std::int64_t, std::int64_t>;  // file, rank, GPU
  std::map<Process, std::vector<Claim*>> processes;
  for (Claim& claim : claims) {
    if (!is_of_memory(claim) || claim.role != Role::root) continue;
    const Event& event = *claim.event;
    processes[{event.file, event.rank.value_or(-1), number(event.facts, "gpu").value_or(-1)}].push_back(&claim);
  }
  for (auto& [process, of_one] : processes) {
    const bool holds_more = grows(of_one, "allocated_bytes", 110);
    if (!holds_more && !grows(of_one, "tried_bytes", 200)) continue;
    for (Claim* claim : of_one) {
      claim->cause = kLeak;
      claim->strength = 0.75;
      claim->reason = holds_more ? "the process holds more at each of several failures"
                                 : "each request is larger than the one before";
      claim->summary.clear();
    }
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

}  // namespace

int tier(Role role) { return role == Role::root ? 2 : role == Role::symptom ? 1 : 0; }

std::vector<Claim> claims_of(const Reading& reading, const std::set<std::string>& tags) {
  std::vector<Claim> claims;
  for (const Event& event : reading.events) {
    if (!event.silenced && !event.rule->cause.empty() && holds(*event.rule, tags) && !is_met(event))
      claims.push_back(claim_of(event, reading, tags.contains("about_code")));
  }
  find_leaks(claims);
  follow_the_numbers(claims);
  settle_lines(claims);
  return claims;
}

}  // namespace gpuwarden::diagnosis
