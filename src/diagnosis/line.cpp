// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/line.hpp"

#include <re2/re2.h>

#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::diagnosis {
namespace {

/// Which kind of time stamp; the order says nothing.
constexpr int kNoClock = 0;
constexpr int kDate = 1;
constexpr int kMonthDay = 2;
constexpr int kUptime = 3;
constexpr int kTimeOfDay = 4;
constexpr int kUtc = 5;  ///< a date with a zone

/// The beginning of a line that is not the program's. What its named groups hold is kept: y mo mon d h mi s (a time),
/// zone, up (seconds since the machine started), rank, gpu, level.
struct Shape {
  const char* pattern;
  bool kernel = false;
  bool build = false;
};

#define GPUWARDEN_CLOCK "(?P<h>\\d\\d):(?P<mi>\\d\\d):(?P<s>\\d\\d(?:[.,]\\d+)?)"
constexpr auto kShapes = std::to_array<Shape>({
    // Quotations, boxes of rich consoles, bullets of prose, prompts of docker compose.
    {"^(?:> ?)+"},
    {"^[│┃|] "},
    {"^[A-Za-z][\\w.-]{0,40} {1,12}\\| "},
    // kern  :warn  : 2025-01-21T04:41:44,283302+00:00
    {"^kern *:(?P<level>[a-z]+) *: ", true},
    // ISO times, in brackets or not, with sglang's rank behind: [2025-04-09 17:19:56 DP0 TP6]
    {"^\\[?(?P<y>\\d{4})[-/](?P<mo>\\d\\d)[-/](?P<d>\\d\\d)[T ,]+" GPUWARDEN_CLOCK
     "(?P<zone>Z|[+-]\\d\\d:?\\d\\d)?(?: (?:DP\\d+ )?(?:PP\\d+ )?TP(?P<rank>\\d+)(?: EP\\d+)?)?(?: UTC)?\\]?:?(?: "
     "-)?(?: "
     "|$)"},
    // [Sun Feb 23 16:24:18 2025], Thu Jan 23 11:55:50 2025, Feb 27 2025 15:10:02
    {"^\\[?(?:[A-Z][a-z]{2} )?(?P<mon>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +(?P<d>\\d{1,2}) (?:\\d{4} "
     ")?" GPUWARDEN_CLOCK "(?: (?P<y>\\d{4}))?\\]?:? ?"},
    // node7 kernel:
    {"^(?:[\\w.-]+ )?kernel: ?", true},
    // [ 5022.696822]
    {"^\\[ *(?P<up>\\d+\\.\\d{3,6})\\] ?", true},
    // ranks and processes: [rank3]: [default0]:[rank0]: [1,1]<stderr>: (VllmWorker rank=5 pid=3073) (Worker_TP0 pid=9)
    {"^\\[rank(?P<rank>\\d+)\\]:? ?"},
    {"^\\[(?:default|trainer|worker)(?P<rank>\\d+)\\]:? ?"},
    {"^\\[\\d+,(?P<rank>\\d+)\\]<std(?:err|out)>: ?"},
    {"^\\[(?P<rank>\\d{1,5})\\]:? "},
    {"^\\[Rank (?P<rank>\\d+)\\] "},
    {"^[A-Za-z][\\w.-]{0,60} \\[(?:rank|default)(?P<rank>\\d+)\\]:? ?"},
    // srun --label, and what pdsh (DeepSpeed's launcher) and clush put before the lines of a node.
    {"^(?P<rank>\\d{1,5}): "},
    {"^(?:(?:node|worker|host|gpu|compute|dgx|hgx|nid|cn|gn|ip)[a-z0-9-]{0,40}\\d|\\d{1,3}(?:\\.\\d{1,3}){3}): "},
    {"^\\([^()]{0,60}?rank[= ](?P<rank>\\d+)[^()]{0,60}\\):? ?"},
    {"^\\([^()]{0,60}_TP(?P<rank>\\d+)[^()]{0,60}pid=\\d+[^()]{0,60}\\):? ?"},
    {"^\\(?[^() ]{1,60} pid=\\d+[^()]{0,80}\\):? ?"},
    {"^\\(pid=\\d+[^()]{0,80}\\) ?"},
    // NCCL: host:pid:tid [3]
    {"^[\\w.-]+:\\d+:\\d+ \\[(?P<gpu>\\d+)\\] (?:[\\w/.-]+:\\d+ )?"},
    {"^\\[\\d+\\]<std(?:err|out)>: ?"},
    {"^[\\w.-]+ [\\w@.-]+\\[\\d+\\]: "},
    {"^(?P<mo>\\d\\d)/(?P<d>\\d\\d)/(?P<y>\\d{4}) " GPUWARDEN_CLOCK "(?: -)? "},
    {"^- (?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) - (?:[\\w.]+ - )?"},
    {"^stderr F |^stdout F |^stderr P |^stdout P "},
    {"^\\[pod/[^\\]]{1,120}\\] "},
    // glog and c10: E0911 00:16:18 140585066018624 platform_util.cc:279] [E227 16:30:43.526290891
    // ProcessGroupNCCL.cpp:9]
    {"^\\[?(?P<level>[IWEF])(?P<mo>\\d{1,2}?)(?P<d>\\d\\d) " GPUWARDEN_CLOCK "(?: +\\d+)? ?[\\w./+-]*:\\d+\\] ?"},
    {"^\\[(?P<level>[IWEF]) [\\w./+-]+:\\d+\\] ?"},
    {"^: (?P<level>[IWEF]) [\\w./+-]+\\.cc:\\d+\\] ?"},
    {"^(?P<level>[IWEF]) [\\w./+\\\\:-]+\\.cc:\\d+\\] ?"},
    {"^\\[c10d\\] "},
    // vLLM: ERROR 11-28 11:22:27 [multiproc_executor.py:743]   ERROR 03-12 16:53:28 utils.py:242]
    {"^(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<mo>\\d\\d)-(?P<d>\\d\\d) " GPUWARDEN_CLOCK
     " \\[?[\\w./-]+:\\d+\\] ?"},
    // loggers: ERROR:    [WARNING] - ERROR - name: and such
    {"^\\[?(?P<level>TRACE|DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|FATAL|CRITICAL|Warning|Info)\\]?(?::| -|\\]) *"},
    {"^(?P<level>TRACE|DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|FATAL|CRITICAL) +"},
    {"^level=(?P<level>[a-z]+) "},
    {"^" GPUWARDEN_CLOCK " (?:\\| )?"},
    // #12 3.456 of docker build
    {"^#\\d+ \\d+\\.\\d+ ", false, true},
});

const RE2& colours() {
  // Escape sequences as terminals have them, and as they look once pasted: ^[[36m, ←[36m, \x1b[36m, [36m.
  static const RE2 pattern(
      "(?:\x1b|\\^\\[|\u2190|\u241b|\\\\x1b|\\\\033|\\\\u001b|\\\\e)?\\[\\d{1,3}(?:;\\d{1,3})*m"
      "|(?:\x1b|\\^\\[|\u2190|\u241b)\\[[0-?]*[ -/]*[@-~]|\x1b|\\^M\\b");
  return pattern;
}

/// A shape's pattern, and between which bytes a text it fits begins: most are ruled out by that alone.
struct CompiledShape {
  std::unique_ptr<RE2> pattern;
  unsigned char lowest = 0;
  unsigned char highest = 255;
};

const std::vector<CompiledShape>& shapes() {
  static const auto compiled = [] {
    std::vector<CompiledShape> all;
    for (const Shape& shape : kShapes) {
      CompiledShape& entry = all.emplace_back(std::make_unique<RE2>(shape.pattern));
      std::string low;
      std::string high;
      if (!entry.pattern->PossibleMatchRange(&low, &high, 1) || low.empty() || high.empty()) continue;
      entry.lowest = static_cast<unsigned char>(low[0]);
      entry.highest = static_cast<unsigned char>(high[0]);
    }
    return all;
  }();
  return compiled;
}

Level level_from(std::string_view name) {
  const std::string word = to_lower(name);
  if (word == "i" || word == "info" || word == "debug" || word == "trace" || word == "notice") return Level::info;
  if (word == "w" || word == "warn" || word == "warning") return Level::warning;
  if (word == "e" || word == "f" || word == "error" || word == "fatal" || word == "critical") return Level::error;
  return Level::unknown;
}

int month_from(std::string_view name) {
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const std::size_t at = kMonths.find(name);
  return at == std::string_view::npos ? 0 : static_cast<int>(at / 3) + 1;
}

/// What the named groups of a shape held.
class Groups {
 public:
  Groups(const RE2& pattern, const std::vector<re2::StringPiece>& values) : pattern_(pattern), values_(values) {}
  std::string_view text(const std::string& name) const {
    const auto found = pattern_.NamedCapturingGroups().find(name);
    if (found == pattern_.NamedCapturingGroups().end()) return {};
    const re2::StringPiece& value = values_[static_cast<std::size_t>(found->second)];
    return {value.data(), value.size()};
  }
  std::optional<std::int64_t> number(const std::string& name) const { return parse_integer(text(name)); }

 private:
  const RE2& pattern_;
  const std::vector<re2::StringPiece>& values_;
};

/// Seconds east of Greenwich of "Z", "+02:00", "-0530".
double offset_of(std::string_view zone) {
  if (zone.size() < 5) return 0;
  const double hours = static_cast<double>(parse_integer(zone.substr(1, 2)).value_or(0));
  const double minutes = static_cast<double>(parse_integer(zone.substr(zone.size() - 2)).value_or(0));
  const double seconds = hours * 3600 + minutes * 60;
  return zone.front() == '-' ? -seconds : seconds;
}

void read_time(const Groups& groups, Line& line) {
  if (line.clock == kDate || line.clock == kUtc) return;
  if (const auto up = parse_number(groups.text("up"))) {
    line.time = up;
    line.clock = kUptime;
    return;
  }
  const auto hour = groups.number("h");
  const auto minute = groups.number("mi");
  std::string seconds(groups.text("s"));
  if (const std::size_t comma = seconds.find(','); comma != std::string::npos) seconds[comma] = '.';
  const auto second = parse_number(seconds);
  if (!hour || !minute || !second) return;
  double time = static_cast<double>(*hour) * 3600 + static_cast<double>(*minute) * 60 + *second;
  const int month =
      groups.text("mon").empty() ? static_cast<int>(groups.number("mo").value_or(0)) : month_from(groups.text("mon"));
  const auto day = groups.number("d");
  const auto year = groups.number("y");
  int clock = kTimeOfDay;
  if (month > 0 && day) {
    using namespace std::chrono;
    // Without a year, days are counted in one that has no 29th of February: order within a log is all that counts.
    const auto date = std::chrono::year(static_cast<int>(year.value_or(2025))) /
                      std::chrono::month(static_cast<unsigned>(month)) / std::chrono::day(static_cast<unsigned>(*day));
    if (!date.ok()) return;
    time += static_cast<double>(sys_days(date).time_since_epoch().count()) * 86400;
    clock = year ? kDate : kMonthDay;
    if (const std::string_view zone = groups.text("zone"); !zone.empty()) {
      clock = kUtc;
      time -= offset_of(zone);
    }
  }
  if (line.clock != kNoClock && clock == kTimeOfDay) return;
  line.time = time;
  line.clock = clock;
}

/// Takes one prefix off; false where there is none.
bool peel(std::string_view& rest, Line& line) {
  if (rest.empty()) return false;
  const auto first = static_cast<unsigned char>(rest.front());
  std::vector<re2::StringPiece> values(10);
  for (std::size_t i = 0; i < kShapes.size(); ++i) {
    const CompiledShape& shape = shapes()[i];
    if (first < shape.lowest || first > shape.highest) continue;
    const RE2& pattern = *shape.pattern;
    const int groups = pattern.NumberOfCapturingGroups() + 1;
    if (!pattern.Match(rest, 0, rest.size(), RE2::ANCHOR_START, values.data(), groups)) continue;
    if (values[0].empty()) continue;
    const Groups held(pattern, values);
    read_time(held, line);
    if (const auto level = held.text("level"); !level.empty() && line.level == Level::unknown && !kShapes[i].kernel)
      line.level = level_from(level);
    if (const auto rank = held.number("rank")) line.rank = rank;
    if (const auto gpu = held.number("gpu")) line.gpu = gpu;
    line.build = line.build || kShapes[i].build;
    rest.remove_prefix(values[0].size());
    return true;
  }
  return false;
}

/// Whether much of a line is in letters that programs do not write: frames and progress bars (U+2500 to U+259F) aside.
bool is_of_people(std::string_view text) {
  std::size_t foreign = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool frame = c == 0xE2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) >= 0x94 &&
                       static_cast<unsigned char>(text[i + 1]) <= 0x96;
    if (frame) i += 2;
    foreign += !frame && c >= 0x80 ? 1 : 0;
  }
  return foreign * 8 > text.size();
}

/// A sentence that tells of an error instead of being one: it names it in backquotes, or starts as people do.
bool is_prose(std::string_view text) {
  static const RE2 names_it(
      "(?:^|[^\\w`])`[^`]{6,}`|[\\w,:)] `[^`]{6,}|^(?:[-*] |\\d+\\. |#+ |//|/\\*)|\\*\\*|^\\|.*\\|$");
  static const RE2 starts_as_people_do(
      "^(?:If|When|The|This|I|We|It|You|While|After|Before|However|But|Also|My|Currently|Getting|Got|As|For|Sometimes|"
      "Trying|Running|Then|There|So|Hi|Hello|Since|Symptom|Cause|Fix|Problem|Note|Here)\\b[^:]{12,}");
  // Python's own line: what is to be installed stands in backquotes there.
  if (text.starts_with("ImportError: ") || text.starts_with("ModuleNotFoundError: ")) return false;
  return RE2::PartialMatch(text, names_it) || RE2::PartialMatch(text, starts_as_people_do) || is_of_people(text);
}

/// Ends a text where it begins to say what might have been: a list of possible causes is no evidence of any of them.
std::string_view without_guesses(std::string_view text) {
  static const RE2 guesses(
      "(?i)(?:some (?:common|possible|potential) (?:causes|reasons) include|there are some (?:potential|possible) root "
      "causes|(?:possible|common|potential|likely) (?:root )?(?:causes|reasons)(?: are| include| for this)?:)");
  if (!text.contains("auses") && !text.contains("easons")) return text;
  const re2::StringPiece rest(text.data(), text.size());
  re2::StringPiece found;
  if (!guesses.Match(rest, 0, rest.size(), RE2::UNANCHORED, &found, 1)) return text;
  return text.substr(0, static_cast<std::size_t>(found.data() - text.data()));
}

std::string squeezed(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\0';
    if (!blank) {
      result += c;
    } else if (!result.empty() && result.back() != ' ') {
      result += ' ';
    }
  }
  if (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

}  // namespace

std::string cleaned(std::string_view raw) {
  std::string text = squeezed(raw);
  if (text.find_first_of("\x1b[") != std::string::npos) {
    RE2::GlobalReplace(&text, colours(), "");
    text = squeezed(text);
  }
  return printable(text);
}

Line normalise(std::string_view raw) {
  Line line;
  line.whole = cleaned(raw);
  std::string_view rest = line.whole;
  for (int round = 0; round < 8 && peel(rest, line); ++round) {
  }
  rest = without_guesses(rest);
  if (rest.starts_with("NCCL INFO")) line.level = Level::info;
  // Python's warnings name their class; the program goes on.
  static const RE2 python_warning("(?:^|: |\\()(?:User|Runtime|Future|Deprecation|Resource)Warning:");
  if (line.level == Level::unknown && RE2::PartialMatch(rest, python_warning)) line.level = Level::warning;
  line.bare = line.level == Level::unknown && line.clock == kNoClock && !line.rank;
  // A comment in somebody's source says what might happen.
  static const RE2 comment("^[+-]? ?(?://|/\\*)");
  if (line.level == Level::unknown && RE2::PartialMatch(rest, comment)) line.level = Level::info;
  line.text = rest;
  line.quoted = line.bare && is_prose(rest);
  return line;
}

}  // namespace gpuwarden::diagnosis
