// SPDX-License-Identifier: Apache-2.0
// How many labelled problems of a corpus the doctor finds, and how many healthy reports it leaves without an error.
//   doctor_corpus [--index FILE] [--problems FILE.csv] [--missed]
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/capture/capture.hpp"
#include "gpuwarden/doctor/doctor.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"
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

void judge_problem(const std::string& file, const std::string& label, const doctor::Examination& examination,
                   const std::vector<Problem>& problems, bool show, Score& score) {
  ++score.problems;
  const std::string lower = to_lower(label);
  const auto row = std::ranges::find_if(problems, [&](const Problem& problem) { return fits(problem, lower); });
  if (row == problems.end()) {
    ++score.unmapped;
    if (show) fmt::print("no row fits: {}: {}\n", file, label);
    return;
  }
  const bool found = std::ranges::any_of(examination.findings, [&](const doctor::Finding& finding) {
    return std::ranges::find(row->checks, finding.id) != row->checks.end();
  });
  score.found += found ? 1 : 0;
  if (!found && show) fmt::print("missed: {}: {}\n  found: {}\n", file, label, ids_of(examination));
}

void judge_row(const nlohmann::json& row, const fs::path& folder, const std::vector<Problem>& problems, bool show,
               Score& score) {
  const auto expected = row.value("expected", nlohmann::json::object());
  const std::string verdict = expected.value("env_is_the_problem", "");
  if (verdict != "yes" && verdict != "no") return;
  const std::string file = row.value("file", "");
  const auto text = read_file(folder / file);
  const auto capture = text ? capture::read_capture(*text, file) : std::unexpected(text.error());
  if (!capture) {
    ++score.unread;
    fmt::print(stderr, "{}: {}\n", file, capture.error().message);
    return;
  }
  const auto examination = doctor::examine(capture->snapshot, knowledge::Knowledge::built_in());
  if (verdict == "yes") return judge_problem(file, expected.value("problem", ""), examination, problems, show, score);
  ++score.healthy;
  const bool clean = examination.worst < doctor::Severity::error;
  score.clean += clean ? 1 : 0;
  if (!clean && show) fmt::print("false alarm: {}: {}\n", file, ids_of(examination));
}

Result<Score> judge(const fs::path& index, const fs::path& problem_file, bool show) {
  GPUWARDEN_TRY(const std::string text, read_file(index));
  GPUWARDEN_TRY(const auto problems, read_problems(problem_file));
  Score score;
  for (const std::string_view line : split(text, '\n')) {
    const auto row = nlohmann::json::parse(line, nullptr, false);
    if (row.is_object()) judge_row(row, index.parent_path(), problems, show, score);
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
  bool show = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--index" && i + 1 < argc) {
      index = argv[++i];
    } else if (word == "--problems" && i + 1 < argc) {
      problems = argv[++i];
    } else if (word == "--missed") {
      show = true;
    } else {
      fmt::print(stderr, "usage: doctor_corpus [--index FILE] [--problems FILE.csv] [--missed]\n");
      return 2;
    }
  }
  if (!fs::is_regular_file(index)) {
    fmt::print(stderr, "no index at '{}': name one with --index FILE\n", index.string());
    return 2;
  }
  const auto score = judge(index, problems, show);
  if (!score) {
    fmt::print(stderr, "{}\n", score.error().message);
    return 2;
  }
  print_share("problems found", score->found, score->problems);
  print_share("  of which no row of the map speaks", score->unmapped, score->problems);
  print_share("healthy reports without an error", score->clean, score->healthy);
  if (score->unread > 0) fmt::print("{} files could not be read\n", score->unread);
  return 0;
}
