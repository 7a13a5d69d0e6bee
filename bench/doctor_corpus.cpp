// SPDX-License-Identifier: Apache-2.0
// How many labelled problems of a corpus the doctor finds and names first, and how many healthy reports it leaves
// without an error.
//   doctor_corpus [--index FILE] [--problems FILE.csv] [--half NAME] [--missed]
#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "doctor/score.hpp"
#include "support/corpus.hpp"
#include "support/source_folder.hpp"

namespace {

namespace fs = std::filesystem;

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
  const auto score = gpuwarden::bench::score_doctor(index, problems, half);
  if (!score) {
    fmt::print(stderr, "{}\n", score.error().message);
    return 2;
  }
  for (const std::string& line : score->unread) fmt::print(stderr, "{}\n", line);
  for (const std::string& line : score->remarks) {
    if (show) fmt::print("{}\n", line);
  }
  print_share("problems found", score->found, score->problems);
  print_share("problems named first", score->first, score->problems);
  print_share("  of which no row of the map speaks", score->unmapped, score->problems);
  print_share("healthy reports without an error", score->clean, score->healthy);
  if (!score->unread.empty()) fmt::print("{} files could not be read\n", score->unread.size());
  return 0;
}
