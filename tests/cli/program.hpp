// SPDX-License-Identifier: Apache-2.0
// Runs the built program with folders of its own for leases and fleets.
#pragma once

#include <nlohmann/json.hpp>

#include "gpuwarden/base/subprocess.hpp"
#include "support/patience.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::testing {

class Program : public ::testing::Test {
 protected:
  Program() {
    environment_ = current_environment();
    for (const char* name : {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "GPUWARDEN_SIMULATE", "COLUMNS", "NO_COLOR"})
      environment_.erase(name);
    environment_["GPUWARDEN_LEASE_DIR"] = (dir_ / "leases").string();
    environment_["GPUWARDEN_KNOWLEDGE_PATH"] = (dir_ / "knowledge").string();
    environment_["GPUWARDEN_MEMORY_DIR"] = (dir_ / "pools").string();
    environment_["GPUWARDEN_SIM_DIR"] = (dir_ / "sim").string();
    environment_["GPUWARDEN_OFFLINE"] = "1";  // no test asks a repository on the network
    environment_["GPUWARDEN_STATE_DIR"] = (dir_ / "state").string();
  }

  Completed run(std::vector<std::string> words, std::string input = {}) const {
    words.insert(words.begin(), GPUWARDEN_PROGRAM);
    auto done = run_patiently({.argv = words, .environment = environment_, .standard_input = std::move(input)});
    EXPECT_TRUE(done.has_value());
    EXPECT_FALSE(done->timed_out);
    return done.value_or(Completed{});
  }
  nlohmann::json json(std::vector<std::string> words) const {
    words.emplace_back("--json");
    const auto done = run(words);
    auto answer = nlohmann::json::parse(done.standard_output, nullptr, false);
    EXPECT_FALSE(answer.is_discarded()) << words[0] << " printed no JSON: " << done.standard_error;
    return answer;
  }
  /// Expects an exit code, an empty output, and one error that says `what`.
  void expect_error(std::vector<std::string> words, int code, const std::string& what) const {
    const auto done = run(words);
    EXPECT_EQ(done.exit_code, code) << words[0] << ": " << done.standard_error;
    EXPECT_EQ(done.standard_output, "") << words[0];
    EXPECT_THAT(done.standard_error, ::testing::HasSubstr(what));
    EXPECT_TRUE(done.standard_error.starts_with("gpuwarden: ")) << done.standard_error;
  }
  std::string file(const std::string& name, std::string_view content) const {
    put(dir_ / name, content);
    return (dir_ / name).string();
  }

  TempDir dir_;
  Environment environment_;
};

}  // namespace gpuwarden::testing
