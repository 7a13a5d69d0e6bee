// SPDX-License-Identifier: Apache-2.0
// How much of a corpus of captures our readers get right: files read and expected values right, by kind.
//   captures_corpus [--index FILE] [--wrong]
#include <fmt/format.h>

#include <string_view>

#include "support/capture_answers.hpp"
#include "support/corpus.hpp"

int main(int argc, char** argv) {
  using namespace gpuwarden::testing;
  std::filesystem::path index = corpus() / "captures/index.jsonl";
  bool show_wrong = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--index" && i + 1 < argc) {
      index = argv[++i];
    } else if (word == "--wrong") {
      show_wrong = true;
    } else {
      fmt::print(stderr, "usage: captures_corpus [--index FILE] [--wrong]\n");
      return 2;
    }
  }
  if (!std::filesystem::is_regular_file(index)) {
    fmt::print(stderr, "no index at '{}': name one with --index FILE\n", index.string());
    return 2;
  }
  Score sum;
  fmt::print("{:<14} {:>6} {:>6} {:>8} {:>8} {:>8}\n", "kind", "files", "read", "values", "right", "share");
  for (const auto& [kind, score] : score_index(index)) {
    fmt::print(
        "{:<14} {:>6} {:>6} {:>8} {:>8} {:>7.2f}%\n", kind, score.files, score.read, score.values, score.right,
        score.values == 0 ? 100.0 : 100.0 * static_cast<double>(score.right) / static_cast<double>(score.values));
    sum.files += score.files;
    sum.read += score.read;
    sum.values += score.values;
    sum.right += score.right;
    for (const Mistake& mistake : score.mistakes) {
      if (show_wrong)
        fmt::print("    {} expected {} answered {}\n", mistake.path, mistake.expected.dump(), mistake.answered.dump());
    }
  }
  fmt::print("{:<14} {:>6} {:>6} {:>8} {:>8} {:>7.2f}%\n", "all", sum.files, sum.read, sum.values, sum.right,
             100.0 * static_cast<double>(sum.right) / static_cast<double>(std::max<std::size_t>(sum.values, 1)));
  return 0;
}
