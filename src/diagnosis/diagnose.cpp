// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "diagnosis/reasoning.hpp"
#include "diagnosis/values.hpp"
#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/capture/capture.hpp"
#include "gpuwarden/diagnosis/diagnosis.hpp"
#include "gpuwarden/diagnosis/reader.hpp"

namespace gpuwarden::diagnosis {
namespace {

/// Below this a cause is a guess that helps nobody.
constexpr double kLeastConfidence = 0.25;
constexpr std::size_t kMostEvidence = 8;

/// The text with every {fact} in its place; nothing where one is not known. Words out of a stranger's log are quoted
/// where somebody may paste the text into a shell.
std::optional<std::string> filled(std::string_view text, const Facts& facts, bool quote) {
  std::string result;
  while (!text.empty()) {
    const std::size_t open = text.find('{');
    result += text.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = text.find('}', open);
    if (close == std::string_view::npos) return std::nullopt;
    const std::string key(text.substr(open + 1, close - open - 1));
    const auto fact = facts.find(key);
    if (fact == facts.end()) return std::nullopt;
    const std::string value = shown(key, fact->second);
    // What begins with a dash would be an option to the command.
    if (quote && value.starts_with('-')) return std::nullopt;
    result += quote && std::holds_alternative<std::string>(fact->second) ? shell_word(value) : value;
    text.remove_prefix(close + 1);
  }
  return result;
}

std::vector<std::string> filled_all(std::span<const std::string_view> texts, const Facts& facts) {
  std::vector<std::string> all;
  for (const std::string_view text : texts) {
    if (auto step = filled(text, facts, true)) all.push_back(std::move(*step));
  }
  return all;
}

Evidence evidence_of(const Event& event) { return {event.file, event.line, event.text}; }

std::string place_of(const Event& event) { return fmt::format("{}:{}", event.file, event.line); }

/// The ranks that its lines name, sorted, each once.
std::vector<std::int64_t> ranks_of(const Suspect& suspect) {
  std::vector<std::int64_t> ranks;
  for (const Event* event : suspect.events) {
    if (event->rank) ranks.push_back(*event->rank);
  }
  std::ranges::sort(ranks);
  ranks.erase(std::ranges::unique(ranks).begin(), ranks.end());
  return ranks;
}

/// "0-499, 512" of sorted numbers; of many parts the first few: "0, 2, 4, ... (2000 ranks)".
std::string ranges_of(const std::vector<std::int64_t>& ranks) {
  constexpr std::size_t kMostParts = 8;
  std::vector<std::string> parts;
  for (auto first = ranks.begin(); first != ranks.end();) {
    if (parts.size() == kMostParts) return fmt::format("{}, ... ({} ranks)", join(parts, ", "), ranks.size());
    const auto gap = std::adjacent_find(first, ranks.end(), [](auto a, auto b) { return a + 1 != b; });
    const auto last = gap == ranks.end() ? std::prev(gap) : gap;
    parts.push_back(first == last ? std::to_string(*first) : fmt::format("{}-{}", *first, *last));
    first = std::next(last);
  }
  return join(parts, ", ");
}

Consequence consequence_of(const Suspect& effect) {
  const Event& event = *effect.events.front();
  std::uint64_t count = 0;
  for (const Event* each : effect.events) count += each->count;
  std::string text = count > 1 ? fmt::format("{} x {}", count, effect.cause->title) : std::string(effect.cause->title);
  const auto ranks = ranks_of(effect);
  if (!ranks.empty()) text += fmt::format(" ({} {})", ranks.size() == 1 ? "rank" : "ranks", ranges_of(ranks));
  return {std::string(effect.cause->id), text + ", " + place_of(event), evidence_of(event)};
}

Cause cause_of(const Suspect& suspect, const std::vector<Suspect>& all) {
  Cause cause{.id = std::string(suspect.cause->id),
              .confidence = suspect.confidence,
              .title = std::string(suspect.cause->title),
              .summary = "",
              .facts = suspect.facts,
              .evidence = {},
              .reasons = suspect.reasons,
              .fix = filled_all(suspect.cause->fix, suspect.facts),
              .confirm = filled_all(suspect.cause->confirm, suspect.facts),
              .consequences = {},
              .link = std::string(suspect.cause->link)};
  cause.summary = suspect.summary;
  for (const std::string_view summary : suspect.cause->summary) {
    if (!cause.summary.empty()) break;
    if (auto text = filled(summary, suspect.facts, false)) {
      cause.summary = std::move(*text);
      break;
    }
  }
  for (const Event* event : suspect.events) {
    const Evidence evidence = evidence_of(*event);
    const bool known = std::ranges::find(cause.evidence, evidence) != cause.evidence.end();
    if (!known && cause.evidence.size() < kMostEvidence) cause.evidence.push_back(evidence);
  }
  for (const std::string& fact : suspect.machine_evidence) cause.evidence.push_back({"machine", 0, fact});
  for (const Suspect& other : all) {
    if (other.explained_by != suspect.cause->id) continue;
    cause.consequences.push_back(consequence_of(other));
    for (const char* key : {"xid", "sxid"}) {
      if (const auto found = other.facts.find(key); found != other.facts.end())
        merge_facts(cause.facts, {{key, found->second}});
    }
  }
  return cause;
}

/// Where the cause may stand, if all that is seen are consequences.
std::string look_at(const Suspect& symptom, const Reading& reading) {
  if (const auto peer = word(symptom.facts, "peer")) return "the log of " + *peer;
  const auto ranks = ranks_of(symptom);
  if (!ranks.empty()) return fmt::format("the logs of the ranks other than {}", ranges_of(ranks));
  const std::string& file = symptom.events.front()->file;
  return fmt::format("{} {}", reading.newest_first ? "further down in" : "earlier in", file.empty() ? "the log" : file);
}

/// Whether an event was there first; of different files only their times tell, and without those it may have been.
bool came_before(const Event& event, const Event& other) {
  if (event.time && other.time && event.clock == other.clock) return *event.time <= *other.time;
  return event.file != other.file || event.order <= other.order;
}

bool is_symptom(const std::vector<Suspect>& suspects, const std::string& id) {
  const auto found = std::ranges::find(suspects, id, [](const Suspect& suspect) { return suspect.cause->id; });
  return found != suspects.end() && found->role == knowledge::Role::symptom;
}

}  // namespace

Diagnosis diagnose(const Reading& reading, const facts::Snapshot* machine, const facts::Snapshot* report) {
  Diagnosis diagnosis{
      .causes = {}, .only_consequences = false, .look_at = "", .lines = reading.lines, .bytes = reading.bytes};
  const std::vector<Suspect> suspects = reason(reading, machine, report);
  for (const Suspect& suspect : suspects) {
    if (!suspect.explained_by.empty() || suspect.confidence < kLeastConfidence) continue;
    Cause& cause = diagnosis.causes.emplace_back(cause_of(suspect, suspects));
    if (reading.tags.contains("rocm")) cause.facts.try_emplace("backend", "rocm");
  }
  std::ranges::stable_sort(diagnosis.causes,
                           [](const Cause& a, const Cause& b) { return a.confidence > b.confidence; });
  const bool only_symptoms = !suspects.empty() && suspects.front().role != knowledge::Role::root;
  const Event* plain = plain_failure(reading);
  // An error of another kind is what the symptoms followed from.
  if (plain != nullptr && only_symptoms && came_before(*plain, *suspects.front().events.front())) {
    std::erase_if(diagnosis.causes, [&](const Cause& cause) { return is_symptom(suspects, cause.id); });
  }
  if (plain != nullptr && diagnosis.causes.empty()) diagnosis.ordinary = evidence_of(*plain);
  const bool any = !diagnosis.causes.empty();
  if (any && suspects.front().role == knowledge::Role::symptom) {
    diagnosis.only_consequences = true;
    diagnosis.look_at = look_at(suspects.front(), reading);
  }
  return diagnosis;
}

Diagnosis diagnose_text(std::string_view text, std::string file) {
  const auto capture = capture::read_capture(text, file);
  const Reading reading = read_log(text, std::move(file));
  return diagnose(reading, nullptr, capture ? &capture->snapshot : nullptr);
}

}  // namespace gpuwarden::diagnosis
