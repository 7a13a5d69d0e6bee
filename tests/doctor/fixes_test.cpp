// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/doctor/fixes.hpp"

#include <nlohmann/json.hpp>

#include "gpuwarden/doctor/json.hpp"

namespace gpuwarden::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Finding finding(std::string id, bool safe, std::vector<std::string> fix) {
  return {.id = std::move(id), .title = "something is off", .fix = std::move(fix), .safe = safe};
}

Examination examination() {
  return {.findings = {finding("persistence-off", true, {"sudo nvidia-smi -pm 1", "ask whoever runs this machine"}),
                       finding("gpu-lost", false, {"sudo reboot", "nvidia-smi -q"}),
                       finding("stuck", true, {"sudo kill 4711", "sudo modprobe nvidia-uvm"})},
          .areas = {}};
}

TEST(Fixes, WhatStopsWorkOrRestartsTheMachineIsDrastic) {
  for (const char* step :
       {"sudo reboot", "nvidia-smi --gpu-reset -i 0", "sudo kill 4711", "sudo rmmod nvidia", "rm -rf /var/lib/x"})
    EXPECT_TRUE(is_drastic(step)) << step;
  for (const char* step : {"sudo nvidia-smi -pm 1", "sudo modprobe nvidia-uvm", "dmesg"})
    EXPECT_FALSE(is_drastic(step)) << step;
}

TEST(Fixes, SafeOnesAreCommandsOfSafeFindingsThatAreNotDrastic) {
  EXPECT_THAT(safe_fixes(examination()),
              ElementsAre(Fix{"persistence-off", "sudo nvidia-smi -pm 1"}, Fix{"stuck", "sudo modprobe nvidia-uvm"}));
}

TEST(Fixes, TheScriptHasAdviceAndDrasticStepsInComments) {
  const std::string script = fix_script(examination());
  EXPECT_THAT(script, HasSubstr("\nsudo nvidia-smi -pm 1\n"));
  EXPECT_THAT(script, HasSubstr("\n# ask whoever runs this machine\n"));
  EXPECT_THAT(script, HasSubstr("\n# sudo reboot\n"));
  EXPECT_THAT(script, Not(HasSubstr("\nsudo reboot\n")));
}

TEST(Fixes, AFailureIsToldAndTheNextRunsAllTheSame) {
  std::vector<std::string> ran;
  const FixRun how{.agree = [](const Fix& fix) { return fix.command != "b"; },
                   .run = [&](const Command& command) -> Result<Completed> {
                     ran.push_back(command.argv.back());
                     if (command.argv.back() == "c") return fail(ErrorCode::not_found, "no sh");
                     const bool fails = command.argv.back() == "a";
                     return Completed{.exit_code = fails ? 1 : 0, .standard_error = fails ? "denied\n" : ""};
                   }};
  const auto outcomes = apply_fixes({{"x", "a"}, {"x", "b"}, {"x", "c"}, {"x", "d"}}, how);
  EXPECT_THAT(ran, ElementsAre("a", "c", "d"));
  ASSERT_EQ(outcomes.size(), 4U);
  EXPECT_EQ(outcomes[0].state, FixState::failed);
  EXPECT_EQ(outcomes[0].problem, "denied");
  EXPECT_EQ(outcomes[1].state, FixState::declined);
  EXPECT_EQ(outcomes[2].problem, "no sh");
  EXPECT_EQ(outcomes[3].state, FixState::done);
}

TEST(DoctorJson, AReportSaysOfWhichMachineAndForWhat) {
  facts::Snapshot snapshot;
  snapshot.host = "node1";
  snapshot.simulated = true;
  const auto json = to_json(MachineReport{examination(), snapshot, {.text = "torch==2.6.0"}});
  EXPECT_EQ(json["host"], "node1");
  EXPECT_EQ(json["simulated"], true);
  EXPECT_EQ(json["purpose"], "torch==2.6.0");
  EXPECT_EQ(json["findings"].size(), 3U);
  EXPECT_EQ(json["findings"][0]["fix"][0], "sudo nvidia-smi -pm 1");
  EXPECT_FALSE(json.contains("deep"));
}

}  // namespace
}  // namespace gpuwarden::doctor
