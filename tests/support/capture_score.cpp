// SPDX-License-Identifier: Apache-2.0
// Holds answers against what an index expects, and counts.
#include <algorithm>
#include <cmath>
#include <fstream>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/capture/capture.hpp"
#include "support/capture_answers.hpp"

namespace gpuwarden::testing {
namespace {

using capture::read_capture;
using Json = nlohmann::ordered_json;

bool same(const Json& expected, const Json& answer) {
  if (expected.is_number() && answer.is_number())
    return std::abs(expected.get<double>() - answer.get<double>()) < 1e-9 * std::max(1.0, expected.get<double>());
  if (expected.is_string() && answer.is_string())
    return trim(expected.get_ref<const std::string&>()) == trim(answer.get_ref<const std::string&>());
  return expected == answer;
}

/// Labels of the index that do not stand in the files: what a person judged, which command was run.
void drop_labels(const std::string& kind, Json& expected) {
  if (kind == "collect_env") {
    expected.erase("env_is_the_problem");
    expected.erase("problem");
  }
  if (kind == "toolkit" || kind == "slurm") expected.erase("cmd");
  if (kind == "slurm") {
    expected.erase("bytes");
    expected.erase("valid_utf8");
  }
}

}  // namespace

void compare(const Json& expected, const Json& answer, const std::string& path, Score& score) {
  if (expected.is_object()) {
    for (const auto& [key, value] : expected.items()) {
      const bool there = answer.is_object() && answer.contains(key);
      compare(value, there ? answer[key] : Json(), path + "." + key, score);
    }
    return;
  }
  if (expected.is_array()) {
    const std::size_t answered = answer.is_array() ? answer.size() : 0;
    for (std::size_t i = 0; i < expected.size(); ++i)
      compare(expected[i], i < answered ? answer[i] : Json(), path + "[" + std::to_string(i) + "]", score);
    for (std::size_t i = expected.size(); i < answered; ++i) {
      score.values += 1;
      score.mistakes.push_back({path + "[" + std::to_string(i) + "]", {}, answer[i]});
    }
    return;
  }
  ++score.values;
  if (same(expected, answer)) {
    ++score.right;
  } else {
    score.mistakes.push_back({path, expected, answer});
  }
}

std::map<std::string, Score> score_index(const std::filesystem::path& index) {
  std::map<std::string, Score> scores;
  std::ifstream file(index);
  for (std::string line; std::getline(file, line);) {
    Json row = Json::parse(line, nullptr, false);
    if (!row.is_object() || !row.contains("file") || !row.contains("kind")) continue;
    Score& score = scores[row["kind"].get<std::string>()];
    ++score.files;
    const std::string name = row["file"].get<std::string>();
    const auto text = read_file(index.parent_path() / name);
    const Json answer = text ? capture_answers(row["kind"].get<std::string>(), *text, name) : Json();
    if (!answer.is_null() && !answer.empty() && text && read_capture(*text, name)) ++score.read;
    drop_labels(row["kind"].get<std::string>(), row["expected"]);
    compare(row["expected"], answer, name + ":", score);
  }
  return scores;
}

}  // namespace gpuwarden::testing
