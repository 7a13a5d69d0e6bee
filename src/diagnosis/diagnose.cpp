// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <set>

#include "diagnosis/audience.hpp"
#include "diagnosis/calibration.hpp"
#include "diagnosis/machine.hpp"
#include "diagnosis/reasoning.hpp"
#include "diagnosis/values.hpp"
#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/capture/capture.hpp"
#include "gpuwarden/diagnosis/causes.hpp"
#include "gpuwarden/diagnosis/diagnosis.hpp"
#include "gpuwarden/diagnosis/reader.hpp"

namespace gpuwarden::diagnosis {
namespace {

/// Below this a cause is a guess that helps nobody.
constexpr double kLeastWeight = 0.25;
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

using Tags = std::set<std::string>;

/// "[vllm,sglang] step": the step, where the log is of one of these programs (or a fact of that name is known); nothing
/// where it is of another. "[!wsl] step": where it is not of that one. Of several brackets each must allow it.
std::optional<std::string_view> for_program(std::string_view step, const Facts& facts, const Tags& tags) {
  const auto allows = [&](std::string_view program) {
    program = trim(program);
    const bool wanted = !program.starts_with('!');
    const std::string name(program.substr(wanted ? 0 : 1));
    return (tags.contains(name) || facts.contains(name)) == wanted;
  };
  while (true) {
    const auto [programs, rest] = programs_and_step(step);
    if (programs.empty()) return step;
    if (std::ranges::none_of(split(programs, ','), allows)) return std::nullopt;
    step = rest;
  }
}

/// What steps may name besides what the lines tell: the part of the GPU that is free ("0.43").
Facts with_computed(const Suspect& suspect) {
  constexpr std::int64_t kLeastPercent = 10;
  Facts facts = suspect.facts;
  const auto free = number(facts, "free_bytes");
  const auto total = number(facts, "total_bytes");
  if (!free || !total || *free <= 0 || *free >= *total) return facts;
  const auto percent = static_cast<std::int64_t>(100.0 * static_cast<double>(*free) / static_cast<double>(*total));
  if (percent >= kLeastPercent) facts["free_part"] = fmt::format("0.{:02}", percent);
  return facts;
}

/// The steps that what is known allows, each once.
void add_filled(std::vector<std::string>& all, std::span<const std::string_view> texts, const Facts& facts,
                const Tags& tags) {
  for (const std::string_view text : texts) {
    const auto step = for_program(text, facts, tags);
    auto words = step ? filled(*step, facts, true) : std::nullopt;
    if (words && std::ranges::find(all, *words) == all.end()) all.push_back(std::move(*words));
  }
}

/// What is to be done: first what the lines themselves ask for, in their order, then what helps with the cause at all.
std::vector<std::string> steps_of(const Suspect& suspect, const Tags& tags) {
  std::vector<std::string> steps;
  const Facts facts = with_computed(suspect);
  for (const Event* event : suspect.events) {
    if (event->rule->cause == suspect.cause->id) add_filled(steps, event->rule->fix, facts, tags);
  }
  add_filled(steps, suspect.cause->fix, facts, tags);
  return steps;
}

/// The sentence that says most: with the numbers that decided, of the line itself, else of the cause.
std::string summary_of(const Suspect& suspect) {
  if (!suspect.summary.empty()) return suspect.summary;
  for (const Event* event : suspect.events) {
    if (event->rule->says.empty() || event->rule->cause != suspect.cause->id) continue;
    if (auto text = filled(event->rule->says, suspect.facts, false)) return std::move(*text);
  }
  for (const std::string_view summary : suspect.cause->summary) {
    if (auto text = filled(summary, suspect.facts, false)) return std::move(*text);
  }
  return "";
}

std::vector<std::string> confirmations_of(const Suspect& suspect, const Tags& tags) {
  std::vector<std::string> steps;
  add_filled(steps, suspect.cause->confirm, suspect.facts, tags);
  return steps;
}

/// That of the program that prints the lines, where one is known, else the cause's.
std::string_view page_of(const Suspect& suspect) {
  const auto& events = suspect.events;
  const auto own = std::ranges::find_if(events, [&](const Event* event) {
    return event->rule->cause == suspect.cause->id && !event->rule->link.empty();
  });
  return own == events.end() ? suspect.cause->link : (*own)->rule->link;
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

Cause cause_of(const Suspect& suspect, const std::vector<Suspect>& all, const Tags& tags) {
  Cause cause{.id = std::string(suspect.cause->id),
              .confidence = suspect.weight,  // until all is weighed
              .title = std::string(suspect.cause->title),
              .summary = summary_of(suspect),
              .facts = suspect.facts,
              .evidence = {},
              .reasons = suspect.reasons,
              .fix = steps_of(suspect, tags),
              .confirm = confirmations_of(suspect, tags),
              .consequences = {},
              .link = std::string(page_of(suspect))};
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

/// Whether a line speaks for a cause that is told.
bool is_told(const Diagnosis& diagnosis, const std::string& file, std::uint64_t line) {
  return std::ranges::any_of(diagnosis.causes, [&](const Cause& cause) {
    return std::ranges::any_of(cause.evidence, [&](const Evidence& e) { return e.file == file && e.line == line; });
  });
}

/// Whether any rule that names a cause sees the line.
bool names_a_cause(const Reading& reading, const std::string& file, std::uint64_t line) {
  return std::ranges::any_of(reading.events, [&](const Event& event) {
    return event.file == file && event.line == line && !event.rule->cause.empty();
  });
}

/// The error of the program itself: what a rule knows as such, else what ended the first traceback that no cause
/// explains.
void tell_plain_failure(const Reading& reading, const Event* plain, Diagnosis& diagnosis) {
  constexpr double kSure = 0.6;  // of the weight
  if (plain != nullptr && !is_told(diagnosis, plain->file, plain->line)) diagnosis.ordinary = evidence_of(*plain);
  const bool sure = !diagnosis.causes.empty() && diagnosis.causes.front().confidence >= kSure;
  for (const Traceback& end : reading.tracebacks) {
    const bool is_of_plain = diagnosis.ordinary && diagnosis.ordinary->file == end.file && plain != nullptr &&
                             (diagnosis.ordinary->line == end.line || diagnosis.ordinary->text == end.exception);
    if (is_of_plain) diagnosis.ordinary_frame = end.frame;
    if (diagnosis.ordinary || sure || names_a_cause(reading, end.file, end.line)) continue;
    diagnosis.ordinary = Evidence{end.file, end.line, end.exception};
    diagnosis.ordinary_frame = end.frame;
  }
  if (diagnosis.ordinary || sure) return;
  // An error line without a traceback, of which nothing more is known.
  const auto bare = std::ranges::find_if(reading.events, [&](const Event& event) {
    return event.rule->role == knowledge::Role::ordinary && !event.silenced && !event.quoted &&
           !names_a_cause(reading, event.file, event.line) && event.level != Level::info &&
           event.level != Level::warning;
  });
  if (bare != reading.events.end()) diagnosis.ordinary = evidence_of(*bare);
}

void tell_harmless(const Reading& reading, Diagnosis& diagnosis) {
  constexpr std::size_t kMost = 5;
  for (const Event& event : reading.events) {
    if (event.rule->role != knowledge::Role::harmless || event.silenced || diagnosis.harmless.size() == kMost) continue;
    const auto text = filled(event.rule->says, event.facts, false);
    const bool known = std::ranges::any_of(diagnosis.harmless, [&](const Note& note) { return note.text == text; });
    if (text && !known) diagnosis.harmless.push_back({evidence_of(event), *text});
  }
}

/// The suspect behind the first cause.
const Suspect* suspect_of(const std::vector<Suspect>& suspects, const Diagnosis& diagnosis) {
  if (diagnosis.causes.empty()) return nullptr;
  const auto found =
      std::ranges::find_if(suspects, [&](const Suspect& one) { return one.cause->id == diagnosis.causes.front().id; });
  return found == suspects.end() ? nullptr : &*found;
}

/// Whether the lines only tell what others saw of a failure elsewhere: such causes lie with another rank or process.
bool is_seen_by_others(const Suspect& suspect) {
  const bool elsewhere = suspect.cause->area == "communication" || suspect.cause->id == "crash_secondary" ||
                         suspect.cause->id == "dataloader_worker_killed" || suspect.cause->id == "rendezvous_failure";
  return suspect.role == knowledge::Role::symptom && elsewhere;
}

bool is_symptom(const std::vector<Suspect>& suspects, const std::string& id) {
  const auto found = std::ranges::find(suspects, id, [](const Suspect& suspect) { return suspect.cause->id; });
  return found != suspects.end() && found->role == knowledge::Role::symptom;
}

/// Whether an exception of the program's own, of which no cause is known, ended it before the event.
bool ended_before(const Reading& reading, const Event& event) {
  return !reading.newest_first && std::ranges::any_of(reading.tracebacks, [&](const Traceback& end) {
    return end.file == event.file && end.line < event.line && !names_a_cause(reading, end.file, end.line);
  });
}

/// Weights become confidences: the first cause's by how often such causes were right, the others' in proportion.
void state_confidences(std::vector<Cause>& causes) {
  if (causes.empty()) return;
  const double weight = causes.front().confidence;
  const double factor = weight > 0 ? calibrated(weight) / weight : 1;
  for (Cause& cause : causes) cause.confidence *= factor;
}

}  // namespace

Diagnosis diagnose(const Reading& reading, const facts::Snapshot* machine, const facts::Snapshot* report) {
  Diagnosis diagnosis;
  diagnosis.lines = reading.lines;
  diagnosis.bytes = reading.bytes;
  const Audience audience = audience_of(reading, {machine, report});
  diagnosis.platform = audience.platform;
  diagnosis.without_torch = audience.without_torch;
  const std::vector<Suspect> suspects = reason(reading, machine, report);
  for (const Suspect& suspect : suspects) {
    if (!suspect.explained_by.empty() || suspect.weight < kLeastWeight) continue;
    Cause& cause = diagnosis.causes.emplace_back(cause_of(suspect, suspects, reading.tags));
    suit(cause, audience);
  }
  std::ranges::stable_sort(diagnosis.causes,
                           [](const Cause& a, const Cause& b) { return a.confidence > b.confidence; });
  const bool only_symptoms = !suspects.empty() && suspects.front().role != knowledge::Role::root;
  const Event* plain = plain_failure(reading);
  // An error of another kind is what the symptoms followed from.
  if (plain != nullptr && only_symptoms && came_before(*plain, *suspects.front().events.front())) {
    std::erase_if(diagnosis.causes, [&](const Cause& cause) { return is_symptom(suspects, cause.id); });
  }
  if (only_symptoms && is_seen_by_others(suspects.front()) && ended_before(reading, *suspects.front().events.front()))
    std::erase_if(diagnosis.causes, [&](const Cause& cause) { return cause.id == suspects.front().cause->id; });
  tell_plain_failure(reading, plain, diagnosis);
  tell_harmless(reading, diagnosis);
  state_confidences(diagnosis.causes);
  const Suspect* first = suspect_of(suspects, diagnosis);
  if (first != nullptr && is_seen_by_others(*first)) {
    diagnosis.only_consequences = true;
    diagnosis.look_at = look_at(*first, reading);
  }
  return diagnosis;
}

Diagnosis diagnose_text(std::string_view text, const std::string& file, const RulesLeftOut& left_out) {
  const auto capture = capture::read_capture(text, file);
  const Reading reading = read_log(text, file, left_out);
  return diagnose(reading, nullptr, capture ? &capture->snapshot : nullptr);
}

}  // namespace gpuwarden::diagnosis
