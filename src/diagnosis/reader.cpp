// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/diagnosis/reader.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "diagnosis/candidate_lines.hpp"
#include "diagnosis/line.hpp"
#include "diagnosis/mention.hpp"
#include "diagnosis/rules.hpp"
#include "diagnosis/shapes.hpp"
#include "diagnosis/traceback.hpp"
#include "diagnosis/values.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/wrapped_text.hpp"
#include "gpuwarden/diagnosis/json.hpp"

namespace gpuwarden::diagnosis {
namespace {

using knowledge::Role;

/// As many different events of one rule are kept of a file; more of them say nothing new.
constexpr std::size_t kMostOfOneRule = 64;
/// And of all files together.
constexpr std::size_t kMostEvents = 20000;
constexpr std::size_t kLongestShown = 500;
constexpr std::string_view kTraceback = "Traceback (most recent call last)";

/// Cut so that no character of several bytes is split.
std::string cut(std::string text) {
  if (text.size() <= kLongestShown) return text;
  std::size_t end = kLongestShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  text.resize(end);
  return text + " ...";
}

/// Whether the time stamps run backwards, as in exports that begin with the newest line.
bool runs_backwards(const std::vector<Event>& events) {
  int forwards = 0;
  int backwards = 0;
  for (std::size_t i = 1; i < events.size(); ++i) {
    const Event& a = events[i - 1];
    const Event& b = events[i];
    if (!a.time || !b.time || a.clock != b.clock) continue;
    forwards += *b.time > *a.time ? 1 : 0;
    backwards += *b.time < *a.time ? 1 : 0;
  }
  // A few steps back are processes that write at once.
  return backwards >= 2 && backwards > 4 * forwards;
}

void put_oldest_first(Reading& reading) {
  reading.newest_first = runs_backwards(reading.events);
  if (!reading.newest_first) return;
  std::ranges::reverse(reading.events);
  for (std::size_t i = 0; i < reading.events.size(); ++i) reading.events[i].order = i;
}

bool is_conditional(const knowledge::DiagnosisRule& rule) { return !rule.when.empty() || !rule.unless.empty(); }

/// Whether a logger said that it did not end the work.
bool is_harmless(const Event& event) { return event.level == Level::info || event.level == Level::warning; }

/// Whether a rule for the same line says that the line is no failure.
bool is_taken_back(const Event& event, const std::vector<Event>& events) {
  const auto is_harmless = [](const Event& other) { return other.rule->role == Role::harmless; };
  return event.rule->role != Role::harmless && std::ranges::any_of(events, is_harmless);
}

/// Whether another rule reads more from the same line for the same cause, or names the cause of what is otherwise a
/// plain exception.
bool is_said_better(const Event& event, const std::vector<Event>& events) {
  if (event.rule->role == Role::ordinary)
    return std::ranges::any_of(events, [](const Event& other) { return !other.rule->cause.empty(); });
  return std::ranges::any_of(events, [&](const Event& other) {
    if (&other == &event || other.rule->cause != event.rule->cause) return false;
    if (event.rule->cause.empty() || is_conditional(*other.rule) || other.rule->role > event.rule->role) return false;
    if (is_harmless(event) && event.rule->any_level && !other.rule->any_level) return false;
    if (other.facts.size() != event.facts.size()) return other.facts.size() > event.facts.size();
    if (other.rule->strength != event.rule->strength) return other.rule->strength > event.rule->strength;
    return other.rule < event.rule;
  });
}

/// Events with the same key say the same; a warning does not say what an error says.
std::string key_of(const Event& event) {
  std::string key = std::string(event.rule->id) + (is_harmless(event) ? "\nharmless\n" : "\n");
  key += to_json(event.facts).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (event.rank) key += '\n' + std::to_string(*event.rank);
  return key;
}

/// What a line is looked at for: its text, the rules that fit, and the lines around.
struct View {
  std::string text;
  std::vector<int> fitting;
  Surroundings around;
};

/// Whether a line ends, and the next begins, in the middle of a sentence.
bool is_broken(std::string_view line, std::string_view next) {
  if (line.empty() || next.empty()) return false;
  const auto last = static_cast<unsigned char>(line.back());
  const auto first = static_cast<unsigned char>(next.front());
  const bool goes_on = std::isalnum(last) != 0 || last == ',' || last == '(';
  return goes_on && (std::islower(first) != 0 || std::isdigit(first) != 0);
}

/// A terminal breaks lines in their middle: what only the line and the next together say. Empty where the next line
/// begins anew.
template <class Fitting>
View continued(const View& view, const Fitting& fitting, const Candidate& candidate) {
  constexpr std::size_t kShortestBroken = 30;
  const auto after = candidate.after(1);
  if (after.empty() || view.text.size() < kShortestBroken) return {};
  const Line next = normalise(after[0]);
  if (next.clock != 0 || next.rank || next.level != Level::unknown || !is_broken(view.text, next.text)) return {};
  View whole{view.text + ' ' + next.text, {}, {}};
  const std::vector<int> of_next = fitting(next.text);
  for (const int index : fitting(whole.text)) {
    const bool known = std::ranges::binary_search(view.fitting, index) || std::ranges::binary_search(of_next, index);
    if (!known && !Rules::all().rule(index).cause.empty()) whole.fitting.push_back(index);
  }
  return whole;
}

}  // namespace

struct LogReader::State {
  State(std::string name, RulesLeftOut without)
      : file(std::move(name)),
        left_out(std::move(without)),
        lines(Rules::all().scanner(), [this](const Candidate& candidate) { look_at(candidate); }) {}

  void look_at(const Candidate& candidate);
  void look_at_line(const Candidate& candidate, std::string_view raw);
  std::vector<int> fitting(const std::string& line) const;
  void keep_traceback(const Candidate& candidate);
  bool is_full(int index);
  void set_tags(const std::vector<int>& fitting);
  bool is_silenced(const std::vector<int>& fitting, std::uint64_t number);
  void add_events(const Line& line, const View& view, std::uint64_t number);
  Event event_of(const Line& line, std::uint64_t number) const;
  void add(Event event);
  void replace(Event& first, Event event);

  std::string file;
  RulesLeftOut left_out;
  CandidateReader lines;
  Reading reading;
  std::map<std::string, std::size_t> known;  ///< where an event of the same words stands
  std::map<const knowledge::DiagnosisRule*, std::size_t> of_one_rule;
  Shapes shapes;
};

namespace {

/// Whether a line is the source that a traceback shows below a frame.
bool follows_frame(const Candidate& candidate) {
  const auto before = candidate.before(1);
  return !before.empty() && before[0].contains("File \"") && before[0].contains(", line ");
}

/// Takes away the rules that fit only what a line says of errors in general.
void leave_out_mentions(View& view) {
  const std::string told(what_happened(view.text));
  if (told.size() == view.text.size()) return;
  std::erase_if(view.fitting, [&](int index) { return told.empty() || !Rules::all().fits(index, told); });
}

/// The neighbours, as many as one of the rules wants, from the `skipped`-th on; the next few say which device it was.
Surroundings around_of(const Candidate& candidate, const std::vector<int>& fitting, std::size_t skipped) {
  std::size_t before = 0;
  std::size_t after = 0;
  for (const int index : fitting) {
    const knowledge::DiagnosisRule& rule = Rules::all().rule(index);
    if (rule.cause.empty() && rule.role != Role::harmless) continue;
    before = std::max(before, static_cast<std::size_t>(rule.before));
    after = std::max({after, static_cast<std::size_t>(rule.lines), Rules::kNearLines});
  }
  Surroundings around;
  if (before > 0) {
    for (const std::string_view other : candidate.before(before)) around.before.push_back(cleaned(other));
  }
  if (after > 0) {
    const auto lines = candidate.after(after + skipped);
    for (std::size_t i = skipped; i < lines.size(); ++i) around.after.push_back(normalise(lines[i]).text);
  }
  return around;
}

}  // namespace

void LogReader::State::look_at(const Candidate& candidate) {
  if (const Shapes::Events* seen = shapes.begin(candidate.line)) {
    for (const std::size_t event : *seen) ++reading.events[event].count;
    return;
  }
  // A progress bar goes back to the line's beginning; what follows is a line of its own.
  for (const std::string_view part : split(candidate.line, '\r')) {
    if (!trim(part).empty()) look_at_line(candidate, part);
  }
}

void LogReader::State::look_at_line(const Candidate& candidate, std::string_view raw) {
  if (is_line_of_diff(raw)) return;
  const Line line = normalise(raw);
  if (line.build) reading.tags.insert("docker_build");
  if (line.text.contains(kTraceback)) keep_traceback(candidate);
  View view{line.text, fitting(line.text), {}};
  // A prefix may tell where this ran: "(RayWorkerWrapper pid=9)".
  set_tags(line.text.size() == line.whole.size() ? view.fitting : fitting(line.whole));
  if (is_silenced(view.fitting, candidate.number)) return;
  if (view.fitting.empty()) return;
  // What has a level, a time or a rank was printed, whatever it looks like.
  if (line.bare && is_code_or_help(raw, view.text) && !follows_frame(candidate)) return;
  if (line.bare) leave_out_mentions(view);
  // More of what has been kept so often already says nothing new.
  std::erase_if(view.fitting, [&](int index) { return is_full(index); });
  if (view.fitting.empty()) return;
  view.around = around_of(candidate, view.fitting, 0);
  View whole = continued(view, [this](const std::string& text) { return fitting(text); }, candidate);
  if (!whole.fitting.empty()) {
    whole.around = around_of(candidate, whole.fitting, 1);
    add_events(line, whole, candidate.number);
  }
  add_events(line, view, candidate.number);
}

void LogReader::State::add_events(const Line& line, const View& view, std::uint64_t number) {
  const Rules& rules = Rules::all();
  std::vector<Event> events;
  for (const int index : view.fitting) {
    const knowledge::DiagnosisRule& rule = rules.rule(index);
    if (rule.role == Role::context || rule.role == Role::silence || rules.rejects(index, view.text, view.around))
      continue;
    Facts facts = rules.facts(index, view.text, view.around);
    const auto is_missing = [&](std::string_view key) { return !facts.contains(std::string(key)); };
    if (std::ranges::any_of(rule.needs, is_missing)) continue;
    Event& event = events.emplace_back(event_of(line, number));
    event.rule = &rule;
    event.facts.merge(facts);
    if (line.gpu) add_fact(event.facts, "gpu", std::to_string(*line.gpu));
    if (!event.rank) event.rank = diagnosis::number(event.facts, "rank");
  }
  std::vector<bool> redundant;
  for (const Event& event : events) redundant.push_back(is_said_better(event, events) || is_taken_back(event, events));
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (!redundant[i]) add(std::move(events[i]));
  }
}

std::vector<int> LogReader::State::fitting(const std::string& line) const {
  std::vector<int> indices = Rules::all().fitting(line);
  if (!left_out.empty())
    std::erase_if(indices, [&](int index) { return left_out.contains(Rules::all().rule(index).id); });
  return indices;
}

void LogReader::State::keep_traceback(const Candidate& candidate) {
  if (reading.tracebacks.size() >= kMostOfOneRule) return;
  const auto end = read_traceback(candidate.after());
  if (!end) return;
  const bool told = std::ranges::any_of(reading.tracebacks, [&](const Traceback& one) {
    return one.exception == cut(end->exception) && one.frame == end->frame;
  });
  if (!told) reading.tracebacks.push_back({file, candidate.number + end->line, cut(end->exception), end->frame});
}

bool LogReader::State::is_full(int index) {
  const bool full = of_one_rule[&Rules::all().rule(index)] >= kMostOfOneRule;
  reading.dropped += full ? 1 : 0;
  return full;
}

void LogReader::State::set_tags(const std::vector<int>& fitting) {
  for (const int index : fitting) {
    const knowledge::DiagnosisRule& rule = Rules::all().rule(index);
    if (rule.role != Role::context) continue;
    reading.tags.insert(std::string(rule.context));
    if (rule.context == "ended_well") reading.ended_well = reading.events.size();
  }
}

/// Lines just before may be taken back, too.
bool LogReader::State::is_silenced(const std::vector<int>& fitting, std::uint64_t number) {
  bool silenced = false;
  for (const int index : fitting) {
    const knowledge::DiagnosisRule& rule = Rules::all().rule(index);
    if (rule.role != Role::silence && rule.role != Role::harmless) continue;
    silenced = silenced || rule.role == Role::silence;
    for (std::size_t i = reading.events.size(); i-- > 0;) {
      Event& event = reading.events[i];
      if (event.line + static_cast<std::uint64_t>(rule.before) < number) break;
      event.silenced = event.silenced || (event.line < number && event.count == 1);
    }
  }
  return silenced;
}

Event LogReader::State::event_of(const Line& line, std::uint64_t number) const {
  Event event{.file = file, .line = number};
  event.text = cut(line.text);
  event.level = line.level;
  event.quoted = line.quoted;
  event.rank = line.rank;
  if (line.rank) add_fact(event.facts, "rank", std::to_string(*line.rank));
  event.time = line.time;
  event.clock = line.clock;
  return event;
}

/// The same was said before, less believably: in a sentence about it, or in a line that was taken back.
void LogReader::State::replace(Event& first, Event event) {
  event.count = first.silenced ? 1 : first.count;
  event.order = first.order;
  first = std::move(event);
}

void LogReader::State::add(Event event) {
  std::string key = key_of(event);
  if (const auto found = known.find(key); found != known.end()) {
    Event& first = reading.events[found->second];
    ++first.count;
    shapes.note(found->second);
    if (first.silenced || (first.quoted && !event.quoted)) replace(first, std::move(event));
    return;
  }
  ++of_one_rule[event.rule];
  known.emplace(std::move(key), reading.events.size());
  shapes.note(reading.events.size());
  event.order = reading.events.size();
  reading.events.push_back(std::move(event));
}

LogReader::LogReader(std::string file, RulesLeftOut left_out)
    : state_(std::make_unique<State>(std::move(file), std::move(left_out))) {}
LogReader::LogReader(LogReader&&) noexcept = default;
LogReader& LogReader::operator=(LogReader&&) noexcept = default;
LogReader::~LogReader() = default;

void LogReader::feed(std::string_view piece) { state_->lines.feed(piece); }

Reading LogReader::finish() {
  state_->lines.finish();
  Reading reading = std::move(state_->reading);
  reading.lines = state_->lines.lines();
  reading.bytes = state_->lines.bytes();
  put_oldest_first(reading);
  return reading;
}

namespace {

/// Lines as they stand in the text, of which others were made.
void number_as_printed(Reading& reading, const std::vector<std::uint32_t>& numbers) {
  const auto renumber = [&](std::uint64_t& line) {
    if (line >= 1 && line <= numbers.size()) line = numbers[line - 1];
  };
  for (Event& event : reading.events) renumber(event.line);
  for (Traceback& traceback : reading.tracebacks) renumber(traceback.line);
}

Reading read_as(std::string_view text, const std::string& file, const RulesLeftOut& left_out) {
  LogReader reader(file, left_out);
  reader.feed(text);
  return reader.finish();
}

/// What the text says only in the other of its two readings.
void add_missing(Reading& reading, Reading other) {
  std::set<const knowledge::DiagnosisRule*> known;
  for (const Event& event : reading.events) known.insert(event.rule);
  const std::size_t before = reading.events.size();
  for (Event& event : other.events) {
    if (!event.rule->cause.empty() && !known.contains(event.rule)) reading.events.push_back(std::move(event));
  }
  if (reading.events.size() == before) return;
  std::ranges::stable_sort(reading.events, {}, &Event::line);
  for (std::size_t i = 0; i < reading.events.size(); ++i) reading.events[i].order = i;
}

}  // namespace

Reading read_log(std::string_view text, const std::string& file, const RulesLeftOut& left_out) {
  const auto whole = unwrap(text);
  Reading reading = read_as(text, file, left_out);
  if (!whole) return reading;
  Reading joined = read_as(whole->text, file, left_out);
  number_as_printed(joined, whole->numbers);
  joined.lines = reading.lines;
  joined.bytes = reading.bytes;
  if (whole->sure) std::swap(reading, joined);
  // Whose lines stand in another order, or that ended well, knows its failures by their places.
  if (!reading.newest_first && !reading.ended_well) add_missing(reading, std::move(joined));
  return reading;
}

void add_reading(Reading& whole, Reading part) {
  const std::uint64_t base = whole.events.empty() ? 0 : whole.events.back().order + 1;
  for (Event& event : part.events) {
    if (whole.events.size() >= kMostEvents) {
      ++whole.dropped;
      continue;
    }
    event.order += base;
    whole.events.push_back(std::move(event));
  }
  whole.tracebacks.insert(whole.tracebacks.end(), part.tracebacks.begin(), part.tracebacks.end());
  whole.tags.merge(part.tags);
  whole.newest_first = whole.newest_first || part.newest_first;
  // A file that ended well says nothing about the others.
  whole.ended_well.reset();
  whole.lines += part.lines;
  whole.bytes += part.bytes;
  whole.dropped += part.dropped;
}

}  // namespace gpuwarden::diagnosis
