// SPDX-License-Identifier: Apache-2.0
// How many labelled problems of a corpus the doctor finds and names first, and how many healthy reports it leaves
// without an error: as `gpuwarden doctor --from` judges a text, facts and messages together.
//   doctor_corpus [--index FILE] [--problems FILE.csv] [--half NAME] [--missed]
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/doctor/doctor.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"
#include "gpuwarden/logs/recognise.hpp"
#include "support/corpus.hpp"
#include "support/source_folder.hpp"

namespace {

using namespace gpuwarden;
namespace fs = std::filesystem;

/// A row of doctor_problems.csv: words of labels, and the checks that find what they tell.
struct Problem {
  std::vector<std::string> groups;  ///< each: alternatives divided by '|'
  std::vector<std::string> checks;
};

Result<std::vector<Problem>> read_problems(const fs::path& path) {
  GPUWARDEN_TRY(const std::string text, read_file(path));
  std::vector<Problem> problems;
  std::size_t number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    if (trim(line).empty() || line.starts_with('#') || line == "words,checks") continue;
    const std::size_t comma = line.find(',');
    Problem problem;
    if (comma != std::string_view::npos) {
      for (const auto group : split(line.substr(0, comma), '&')) problem.groups.emplace_back(trim(group));
      for (const auto id : split_words(line.substr(comma + 1))) problem.checks.emplace_back(id);
    }
    for (const std::string& id : problem.checks) {
      if (doctor::find_check(id) == nullptr)
        return fail(ErrorCode::invalid_argument,
                    fmt::format("{}:{}: there is no check '{}'", path.string(), number, id),
                    "gpuwarden doctor --list shows them all");
    }
    if (problem.groups.empty() || problem.checks.empty())
      return fail(ErrorCode::invalid_argument, fmt::format("{}:{}: no row of words,checks", path.string(), number));
    problems.push_back(std::move(problem));
  }
  return problems;
}

bool fits(const Problem& problem, const std::string& label) {
  return std::ranges::all_of(problem.groups, [&](const std::string& group) {
    const auto words = split(group, '|');
    return std::ranges::any_of(words, [&](std::string_view word) { return label.contains(trim(word)); });
  });
}

struct Score {
  int problems = 0;
  int found = 0;
  int first = 0;  ///< named before everything else
  int unmapped = 0;
  int healthy = 0;
  int clean = 0;
  int unread = 0;
};

std::string ids_of(const doctor::Examination& examination) {
  std::vector<std::string> ids;
  for (const auto& finding : examination.findings)
    ids.push_back(fmt::format("{} ({})", finding.id, to_string(finding.severity)));
  return ids.empty() ? "nothing" : join(ids, ", ");
}

/// The ids that find a problem: the row's own, else those of the map for its label.
std::vector<std::string> accepted(const nlohmann::json& expected, const std::vector<Problem>& problems) {
  if (const auto own = expected.find("accept"); own != expected.end()) return own->get<std::vector<std::string>>();
  const std::string label = to_lower(expected.value("problem", ""));
  const auto row = std::ranges::find_if(problems, [&](const Problem& problem) { return fits(problem, label); });
  return row == problems.end() ? std::vector<std::string>{} : row->checks;
}

bool names(const doctor::Finding& finding, const std::vector<std::string>& wanted) {
  return std::ranges::find(wanted, finding.id) != wanted.end();
}

void judge_problem(const std::string& file, const nlohmann::json& expected, const doctor::Examination& examination,
                   const std::vector<Problem>& problems, bool show, Score& score) {
  ++score.problems;
  const std::string label = expected.value("problem", "");
  const auto wanted = accepted(expected, problems);
  if (wanted.empty()) {
    ++score.unmapped;
    if (show) fmt::print("no row fits: {}: {}\n", file, label);
    return;
  }
  const auto& findings = examination.findings;
  const bool found = std::ranges::any_of(findings, [&](const auto& finding) { return names(finding, wanted); });
  const bool first = found && names(findings.front(), wanted);
  score.found += found ? 1 : 0;
  score.first += first ? 1 : 0;
  if (!first && show)
    fmt::print("{}: {}: {}\n  found: {}\n", found ? "not first" : "missed", file, label, ids_of(examination));
}

/// What `gpuwarden doctor --from FILE` makes of a text; empty where it reads nothing in it.
std::optional<doctor::Examination> examine(const std::string& text, const std::string& file) {
  logs::Recognised known = logs::recognise(text, file);
  if (!known.facts && known.told.empty()) {
    fmt::print(stderr, "{}: {}\n", file, known.unread ? known.unread->message : "nothing is known of it");
    return std::nullopt;
  }
  facts::Snapshot snapshot;
  if (known.facts) snapshot = std::move(known.facts->snapshot);
  if (snapshot.origin.empty()) snapshot.origin = file + ": a log";
  auto examination = doctor::examine(snapshot, knowledge::Knowledge::built_in());
  doctor::add_told(examination, std::move(known.told), {});
  return examination;
}

void judge_row(const nlohmann::json& row, const fs::path& folder, const std::vector<Problem>& problems, bool show,
               Score& score) {
  const auto expected = row.value("expected", nlohmann::json::object());
  const std::string verdict = expected.value("env_is_the_problem", "");
  if (verdict != "yes" && verdict != "no") return;
  const std::string file = row.value("file", "");
  const auto text = read_file(folder / file);
  if (!text) fmt::print(stderr, "{}: {}\n", file, text.error().message);
  const auto examination = text ? examine(*text, file) : std::nullopt;
  if (!examination) {
    ++score.unread;
    (verdict == "yes" ? score.problems : score.healthy) += 1;
    score.clean += verdict == "no" ? 1 : 0;
    return;
  }
  if (verdict == "yes") return judge_problem(file, expected, *examination, problems, show, score);
  ++score.healthy;
  const bool clean = examination->worst < doctor::Severity::error;
  score.clean += clean ? 1 : 0;
  if (!clean && show) fmt::print("false alarm: {}: {}\n", file, ids_of(*examination));
}

/// `half`: only rows that name it; empty: all.
Result<Score> judge(const fs::path& index, const fs::path& problem_file, const std::string& half, bool show) {
  GPUWARDEN_TRY(const std::string text, read_file(index));
  GPUWARDEN_TRY(const auto problems, read_problems(problem_file));
  Score score;
  for (const std::string_view line : split(text, '\n')) {
    const auto row = nlohmann::json::parse(line, nullptr, false);
    if (row.is_object() && (half.empty() || row.value("half", "") == half))
      judge_row(row, index.parent_path(), problems, show, score);
  }
  return score;
}

void print_share(std::string_view what, int part, int whole) {
  fmt::print("{:<46} {:>4} of {:>4} {:>7.1f}%\n", what, part, whole, whole == 0 ? 100.0 : 100.0 * part / whole);
}

}  // namespace

int main(int argc, char** argv) {
  fs::path index = gpuwarden::testing::corpus() / "captures/index.jsonl";
  fs::path problems = gpuwarden::testing::source_folder() / "bench/doctor_problems.csv";
  std::string half;
  bool show = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--index" && i + 1 < argc) {
      index = argv[++i];
    } else if (word == "--problems" && i + 1 < argc) {
      problems = argv[++i];
    } else if (word == "--half" && i + 1 < argc) {
      half = argv[++i];
    } else if (word == "--missed") {
      show = true;
    } else {
      fmt::print(stderr, "usage: doctor_corpus [--index FILE] [--problems FILE.csv] [--half NAME] [--missed]\n");
      return 2;
    }
  }
  if (!fs::is_regular_file(index)) {
    fmt::print(stderr, "no index at '{}': name one with --index FILE\n", index.string());
    return 2;
  }
  const auto score = judge(index, problems, half, show);
  if (!score) {
    fmt::print(stderr, "{}\n", score.error().message);
    return 2;
  }
  print_share("problems found", score->found, score->problems);
  print_share("problems named first", score->first, score->problems);
  print_share("  of which no row of the map speaks", score->unmapped, score->problems);
  print_share("healthy reports without an error", score->clean, score->healthy);
  if (score->unread > 0) fmt::print("{} files could not be read\n", score->unread);
  return 0;
}
