// SPDX-License-Identifier: Apache-2.0
#include "doctor/score.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/doctor/doctor.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"
#include "gpuwarden/logs/recognise.hpp"

namespace gpuwarden::bench {
namespace {

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
                   const std::vector<Problem>& problems, DoctorScore& score) {
  ++score.problems;
  const std::string label = expected.value("problem", "");
  const auto wanted = accepted(expected, problems);
  if (wanted.empty()) {
    ++score.unmapped;
    score.remarks.push_back(fmt::format("no row fits: {}: {}", file, label));
    return;
  }
  const auto& findings = examination.findings;
  const bool found = std::ranges::any_of(findings, [&](const auto& finding) { return names(finding, wanted); });
  const bool first = found && names(findings.front(), wanted);
  score.found += found ? 1 : 0;
  score.first += first ? 1 : 0;
  if (!first)
    score.remarks.push_back(
        fmt::format("{}: {}: {}\n  found: {}", found ? "not first" : "missed", file, label, ids_of(examination)));
}

/// What `gpuwarden doctor --from FILE` makes of a text; empty where it reads nothing in it.
std::optional<doctor::Examination> examine(const std::string& text, const std::string& file, DoctorScore& score) {
  logs::Recognised known = logs::recognise(text, file);
  if (!known.facts && known.told.empty()) {
    score.unread.push_back(
        fmt::format("{}: {}", file, known.unread ? known.unread->message : "nothing is known of it"));
    return std::nullopt;
  }
  facts::Snapshot snapshot;
  if (known.facts) snapshot = std::move(known.facts->snapshot);
  if (snapshot.origin.empty()) snapshot.origin = file + ": a log";
  auto examination = doctor::examine(snapshot, knowledge::Knowledge::built_in());
  doctor::add_told(examination, std::move(known.told), {});
  return examination;
}

void judge_row(const nlohmann::json& row, const fs::path& folder, const std::vector<Problem>& problems,
               DoctorScore& score) {
  const auto expected = row.value("expected", nlohmann::json::object());
  const std::string verdict = expected.value("env_is_the_problem", "");
  if (verdict != "yes" && verdict != "no") return;
  const std::string file = row.value("file", "");
  const auto text = read_file(folder / file);
  if (!text) score.unread.push_back(fmt::format("{}: {}", file, text.error().message));
  const auto examination = text ? examine(*text, file, score) : std::nullopt;
  if (!examination) {
    (verdict == "yes" ? score.problems : score.healthy) += 1;
    score.clean += verdict == "no" ? 1 : 0;
    return;
  }
  if (verdict == "yes") return judge_problem(file, expected, *examination, problems, score);
  ++score.healthy;
  const bool clean = examination->worst < doctor::Severity::error;
  score.clean += clean ? 1 : 0;
  if (!clean) score.remarks.push_back(fmt::format("false alarm: {}: {}", file, ids_of(*examination)));
}

}  // namespace

Result<DoctorScore> score_doctor(const fs::path& index, const fs::path& problem_file, const std::string& half) {
  GPUWARDEN_TRY(const std::string text, read_file(index));
  GPUWARDEN_TRY(const auto problems, read_problems(problem_file));
  DoctorScore score;
  for (const std::string_view line : split(text, '\n')) {
    const auto row = nlohmann::json::parse(line, nullptr, false);
    if (row.is_object() && (half.empty() || row.value("half", "") == half))
      judge_row(row, index.parent_path(), problems, score);
  }
  return score;
}

}  // namespace gpuwarden::bench
