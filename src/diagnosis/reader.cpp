// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/diagnosis/reader.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "diagnosis/candidate_lines.hpp"
#include "diagnosis/line.hpp"
#include "diagnosis/rules.hpp"
#include "diagnosis/values.hpp"
#include "gpuwarden/diagnosis/json.hpp"

namespace gpuwarden::diagnosis {
namespace {

/// As many different events of one rule are kept; more of them say nothing new.
constexpr std::size_t kMostOfOneRule = 64;
constexpr std::size_t kLongestShown = 500;

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

/// Whether a run of digits only tells when, where or how far: a time, a date, an address, a large number. What stands
/// alone and is short may be a code that decides ("Xid 79").
bool is_mere_count(std::string_view line, std::size_t begin, std::size_t end) {
  constexpr std::string_view kJoints = ":.-/_";
  const bool joined =
      (begin > 0 && kJoints.contains(line[begin - 1])) || (end < line.size() && kJoints.contains(line[end]));
  return joined || end - begin > 3;
}

/// A line without its mere counts, as a number.
std::uint64_t shape_of(std::string_view line) {
  const auto is_digit = [&](std::size_t at) { return at < line.size() && line[at] >= '0' && line[at] <= '9'; };
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  for (std::size_t i = 0; i < line.size();) {
    std::size_t end = i + 1;
    if (is_digit(i)) {
      while (is_digit(end)) ++end;
    }
    const bool counts = is_digit(i) && is_mere_count(line, i, end);
    for (; i < end; ++i) {
      if (!counts) hash = (hash ^ static_cast<unsigned char>(line[i])) * 0x100000001b3U;
    }
  }
  return hash;
}

/// Lines of one shape are looked at so often; then they are only counted, so that a log full of one complaint is read
/// as fast as any.
constexpr std::uint64_t kOftenEnough = 500;
constexpr std::size_t kMostShapes = 8192;

struct Shape {
  std::uint64_t seen = 0;
  std::vector<std::size_t> events;  ///< those of its latest line
};

bool is_conditional(const knowledge::DiagnosisRule& rule) { return !rule.when.empty() || !rule.unless.empty(); }

/// Whether another rule reads more from the same line for the same cause, or names the cause of what is otherwise a
/// plain exception.
bool is_said_better(const Event& event, const std::vector<Event>& events) {
  if (event.rule->role == knowledge::Role::ordinary)
    return std::ranges::any_of(events, [](const Event& other) { return !other.rule->cause.empty(); });
  return std::ranges::any_of(events, [&](const Event& other) {
    if (&other == &event || other.rule->cause != event.rule->cause) return false;
    if (event.rule->cause.empty() || is_conditional(*other.rule) || other.rule->role > event.rule->role) return false;
    const bool gated = event.level == Level::info || event.level == Level::warning;
    if (gated && event.rule->any_level && !other.rule->any_level) return false;
    if (other.facts.size() != event.facts.size()) return other.facts.size() > event.facts.size();
    if (other.rule->strength != event.rule->strength) return other.rule->strength > event.rule->strength;
    return other.rule < event.rule;
  });
}

}  // namespace

struct LogReader::State {
  explicit State(std::string name)
      : file(std::move(name)),
        lines(Rules::all().scanner(), [this](const Candidate& candidate) { look_at(candidate); }) {}

  void look_at(const Candidate& candidate);
  bool is_known(const Candidate& candidate);
  void set_tags(const std::vector<int>& fitting);
  bool is_silenced(const std::vector<int>& fitting, std::uint64_t number);
  Surroundings around_of(const Candidate& candidate, const std::vector<int>& fitting) const;
  Event event_of(const Line& line) const;
  void add(Event event);

  std::string file;
  CandidateReader lines;
  Reading reading;
  std::map<std::string, std::size_t> known;  ///< where an event of the same words stands
  std::map<const knowledge::DiagnosisRule*, std::size_t> of_one_rule;
  std::unordered_map<std::uint64_t, Shape> shapes;
  Shape* shape = nullptr;  ///< of the line that is being looked at
};

bool LogReader::State::is_known(const Candidate& candidate) {
  const std::uint64_t key = shape_of(candidate.line);
  auto found = shapes.find(key);
  if (found == shapes.end() && shapes.size() < kMostShapes) found = shapes.try_emplace(key).first;
  shape = found == shapes.end() ? nullptr : &found->second;
  if (shape == nullptr || ++shape->seen <= kOftenEnough) {
    if (shape != nullptr) shape->events.clear();
    return false;
  }
  for (const std::size_t event : shape->events) ++reading.events[event].count;
  return true;
}

void LogReader::State::look_at(const Candidate& candidate) {
  if (is_known(candidate)) return;
  const Rules& rules = Rules::all();
  const Line line = normalise(candidate.line);
  if (line.build) reading.tags.insert("docker_build");
  const std::vector<int> fitting = rules.fitting(line.text);
  // A prefix may tell where this ran: "(RayWorkerWrapper pid=9)".
  set_tags(line.text.size() == line.whole.size() ? fitting : rules.fitting(line.whole));
  if (is_silenced(fitting, candidate.number)) return;
  const Surroundings around = around_of(candidate, fitting);
  std::vector<Event> events;
  for (const int index : fitting) {
    const knowledge::DiagnosisRule& rule = rules.rule(index);
    if (rule.role == knowledge::Role::context) continue;
    Facts facts = rules.facts(index, line.text, around);
    const auto is_missing = [&](std::string_view key) { return !facts.contains(std::string(key)); };
    if (std::ranges::any_of(rule.needs, is_missing)) continue;
    Event& event = events.emplace_back(event_of(line));
    event.rule = &rule;
    event.facts.merge(facts);
    if (line.gpu) add_fact(event.facts, "gpu", std::to_string(*line.gpu));
    event.line = candidate.number;
    if (!event.rank) event.rank = number(event.facts, "rank");
  }
  std::vector<bool> redundant;
  for (const Event& event : events) redundant.push_back(is_said_better(event, events));
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (!redundant[i]) add(std::move(events[i]));
  }
}

void LogReader::State::set_tags(const std::vector<int>& fitting) {
  for (const int index : fitting) {
    const knowledge::DiagnosisRule& rule = Rules::all().rule(index);
    if (rule.role == knowledge::Role::context) reading.tags.insert(std::string(rule.context));
  }
}

/// Lines just before may be taken back, too.
bool LogReader::State::is_silenced(const std::vector<int>& fitting, std::uint64_t number) {
  bool silenced = false;
  for (const int index : fitting) {
    const knowledge::DiagnosisRule& rule = Rules::all().rule(index);
    if (rule.role != knowledge::Role::silence) continue;
    silenced = true;
    for (std::size_t i = reading.events.size(); i-- > 0;) {
      Event& event = reading.events[i];
      if (event.line + static_cast<std::uint64_t>(rule.before) < number) break;
      event.silenced = event.silenced || (event.line < number && event.count == 1);
    }
  }
  return silenced;
}

/// The neighbours, as many as one of the rules wants; the next few say which device it was.
Surroundings LogReader::State::around_of(const Candidate& candidate, const std::vector<int>& fitting) const {
  Surroundings around;
  std::size_t before = 0;
  std::size_t after = 0;
  for (const int index : fitting) {
    const knowledge::DiagnosisRule& rule = Rules::all().rule(index);
    if (rule.cause.empty()) continue;
    before = std::max(before, static_cast<std::size_t>(rule.before));
    after = std::max({after, static_cast<std::size_t>(rule.lines), Rules::kNearLines});
  }
  if (before > 0) {
    for (const std::string_view other : candidate.before(before)) around.before.push_back(cleaned(other));
  }
  if (after > 0) {
    for (const std::string_view other : candidate.after(after)) around.after.push_back(normalise(other).text);
  }
  return around;
}

Event LogReader::State::event_of(const Line& line) const {
  Event event{.file = file};
  event.text = cut(line.text);
  event.level = line.level;
  event.quoted = line.quoted;
  event.rank = line.rank;
  if (line.rank) add_fact(event.facts, "rank", std::to_string(*line.rank));
  event.time = line.time;
  event.clock = line.clock;
  return event;
}

void LogReader::State::add(Event event) {
  std::string key = std::string(event.rule->id) + '\n' +
                    to_json(event.facts).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (event.rank) key += '\n' + std::to_string(*event.rank);
  if (const auto found = known.find(key); found != known.end()) {
    Event& first = reading.events[found->second];
    ++first.count;
    if (shape != nullptr) shape->events.push_back(found->second);
    // A sentence about the error came first; the error itself is the better witness.
    if (first.quoted && !event.quoted) {
      event.count = first.count;
      event.order = first.order;
      first = std::move(event);
    }
    return;
  }
  if (++of_one_rule[event.rule] > kMostOfOneRule) {
    ++reading.dropped;
    return;
  }
  known.emplace(std::move(key), reading.events.size());
  if (shape != nullptr) shape->events.push_back(reading.events.size());
  event.order = reading.events.size();
  reading.events.push_back(std::move(event));
}

LogReader::LogReader(std::string file) : state_(std::make_unique<State>(std::move(file))) {}
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

Reading read_log(std::string_view text, std::string file) {
  LogReader reader(std::move(file));
  reader.feed(text);
  return reader.finish();
}

void add_reading(Reading& whole, Reading part) {
  for (Event& event : part.events) {
    event.order += whole.events.empty() ? 0 : whole.events.back().order + 1;
    whole.events.push_back(std::move(event));
  }
  whole.tags.merge(part.tags);
  whole.newest_first = whole.newest_first || part.newest_first;
  whole.lines += part.lines;
  whole.bytes += part.bytes;
  whole.dropped += part.dropped;
}

}  // namespace gpuwarden::diagnosis
