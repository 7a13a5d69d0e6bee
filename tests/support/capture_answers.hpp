// SPDX-License-Identifier: Apache-2.0
// What our readers answer to a corpus index ("expected"), and how answers are compared. For tests and the benchmark.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace gpuwarden::testing {

/// What the readers say of a file of this kind, in the shape of the index's `expected`; null where no reader exists.
nlohmann::ordered_json capture_answers(const std::string& kind, std::string_view text, const std::string& name);

struct Mistake {
  std::string path;
  nlohmann::ordered_json expected;
  nlohmann::ordered_json answered;
};

struct Score {
  std::size_t files = 0;
  std::size_t read = 0;  ///< recognised as what they are
  std::size_t values = 0;
  std::size_t right = 0;
  std::vector<Mistake> mistakes;
};

/// Compares leaf by leaf; a list of another length costs its missing or surplus entries.
void compare(const nlohmann::ordered_json& expected, const nlohmann::ordered_json& answer, const std::string& path,
             Score& score);

/// Reads every file of an index.jsonl (paths relative to it); by kind.
std::map<std::string, Score> score_index(const std::filesystem::path& index);

}  // namespace gpuwarden::testing
