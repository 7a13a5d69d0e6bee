// SPDX-License-Identifier: Apache-2.0
// How often diagnoses of labelled failures are right, with naive substring matching beside it.
//   diagnose_corpus [--cases FILE...] [--cross-validate] [--calibrate] [--wrong] [--json]
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "diagnose_report.hpp"
#include "support/corpus.hpp"
#include "support/source_folder.hpp"

namespace gpuwarden::bench {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::vector<fs::path> files;
  bool wrong = false;
  bool json = false;
  bool cross_validate = false;  ///< no case is answered by rules that may be from its own thread
  bool calibrate = false;       ///< print the figures of src/diagnosis/calibration.cpp
};

constexpr std::string_view kUsage =
    "usage: diagnose_corpus [--cases FILE...] [--cross-validate] [--calibrate] [--wrong] [--json]";

/// The threads of the checkout's own corpus, in the order of their names.
std::vector<fs::path> own_files() {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(testing::source_folder() / "tests/corpus/diagnose", ignored)) {
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

/// Where nobody names files: the labelled failures of the corpus, and with `all` those of the checkout too.
Result<std::vector<fs::path>> default_files(bool all) {
  std::vector<fs::path> files;
  for (const char* name : {"diagnose/cases.jsonl", "diagnose/long_cases.jsonl"}) {
    if (const auto file = testing::corpus_file(name)) files.push_back(*file);
  }
  if (all || files.empty()) std::ranges::copy(own_files(), std::back_inserter(files));
  if (!files.empty()) return files;
  return fail(ErrorCode::not_found, fmt::format("no labelled failures in '{}'", testing::corpus().string()),
              "name files with --cases, or their corpus with GPUWARDEN_CORPUS");
}

Result<Options> options_of(const std::vector<std::string_view>& words) {
  Options options;
  bool takes_files = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const bool file_follows = i + 1 < words.size() && !words[i + 1].starts_with("--");
    if (takes_files && !word.starts_with("--")) {
      options.files.emplace_back(word);
    } else if ((word == "--cases" && file_follows) || word == "--wrong" || word == "--json" ||
               word == "--cross-validate" || word == "--calibrate") {
      takes_files = word == "--cases";
      options.wrong |= word == "--wrong";
      options.json |= word == "--json";
      options.calibrate |= word == "--calibrate";
      options.cross_validate |= word == "--cross-validate" || options.calibrate;
    } else {
      return fail(ErrorCode::invalid_argument, std::string(kUsage));
    }
  }
  if (!options.files.empty()) return options;
  GPUWARDEN_TRY(options.files, default_files(options.cross_validate));
  return options;
}

Result<std::vector<testing::DiagnosisCase>> read_all(const std::vector<fs::path>& files) {
  std::vector<testing::DiagnosisCase> all;
  for (const fs::path& file : files) {
    GPUWARDEN_TRY(auto cases, testing::read_diagnosis_cases(file));
    all.insert(all.end(), std::make_move_iterator(cases.begin()), std::make_move_iterator(cases.end()));
  }
  return all;
}

std::array<NaiveScore, 3> score_naive(const std::vector<testing::DiagnosisCase>& cases) {
  using enum NaiveStrategy;
  std::array<NaiveScore, 3> scores{{{first_line, "first_line", "first line wins", {}},
                                    {last_line, "last_line", "last line wins", {}},
                                    {priority, "priority", "fixed priority", {}}}};
  for (NaiveScore& score : scores) {
    for (const auto& asked : cases)
      testing::count_answer(asked, naive_diagnosis(asked.text, score.strategy), score.accuracy);
  }
  return scores;
}

Run run_cases(const Options& options, const std::vector<testing::DiagnosisCase>& cases) {
  Run run;
  run.files = options.files;
  run.cross_validated = options.cross_validate;
  // Rules are compiled at first use; that is no case's time.
  const auto start = std::chrono::steady_clock::now();
  static_cast<void>(diagnosis::diagnose_text("", "empty"));
  run.first_call = std::chrono::steady_clock::now() - start;
  run.answers = options.cross_validate ? testing::cross_validate(cases) : testing::diagnose_cases(cases);
  run.score = testing::score_diagnoses(run.answers);
  run.naive = score_naive(cases);
  return run;
}

int report(const Error& error) {
  fmt::print(stderr, "{}\n", error.message);
  if (!error.hint.empty()) fmt::print(stderr, "{}\n", error.hint);
  return 2;
}

int run(int argc, char** argv) {
  const auto options = options_of({argv + 1, argv + argc});
  if (!options) return report(options.error());
  const auto cases = read_all(options->files);
  if (!cases) return report(cases.error());
  const Run result = run_cases(*options, *cases);
  if (options->calibrate) {
    print_calibration(result.answers);
  } else if (options->json) {
    fmt::print("{}\n", json_of(result, options->wrong).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    print_run(result, options->wrong);
  }
  return 0;
}

}  // namespace
}  // namespace gpuwarden::bench

int main(int argc, char** argv) { return gpuwarden::bench::run(argc, argv); }
