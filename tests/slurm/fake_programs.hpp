// SPDX-License-Identifier: Apache-2.0
// Slurm's programs as a test wants them.
#pragma once

#include <deque>
#include <map>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/slurm/programs.hpp"

namespace gpuwarden::slurm {

/// Answers what it was told to expect, and fails the test on any other command line.
class FakePrograms final : public Programs {
 public:
  /// The answers to a command line, one after the other; the last one stays.
  FakePrograms& on(const std::string& words, const std::string& output, int exit_code = 0,
                   const std::string& error = "") {
    answers_[words].push_back({.exit_code = exit_code, .standard_output = output, .standard_error = error});
    return *this;
  }
  Result<Completed> run(const Command& command) override {
    const std::string words = join(command.argv, " ");
    asked.push_back(words);
    inputs.push_back(command.standard_input);
    auto& left = answers_[words];
    if (left.empty()) {
      ADD_FAILURE() << "nobody expected: " << words;
      return fail(ErrorCode::not_found, words);
    }
    Completed answer = left.front();
    if (left.size() > 1) left.pop_front();
    return answer;
  }
  std::vector<std::string> asked;
  std::vector<std::string> inputs;

 private:
  std::map<std::string, std::deque<Completed>> answers_;
};

}  // namespace gpuwarden::slurm
