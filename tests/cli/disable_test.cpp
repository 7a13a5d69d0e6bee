// SPDX-License-Identifier: Apache-2.0
// gpuwarden disable and enable, and what list, select, run and lease make of them.
#include <unistd.h>

#include "cli/program.hpp"

namespace gpuwarden::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class DisableCli : public Program {
 protected:
  DisableCli() {
    environment_["GPUWARDEN_STATE_DIR"] = (dir_ / "state").string();
    environment_.erase("SUDO_USER");
    // A started fleet keeps its UUIDs between commands.
    environment_["GPUWARDEN_SIMULATE"] = file("fleet.yaml", "name: pair\ngpus: [{model: Tesla T4, count: 2}]\n");
  }
};

TEST_F(DisableCli, ADisabledGpuIsShownAndLeftAloneUntilItIsEnabled) {
  const auto done = run({"disable", "0", "--reason", "fan is loud"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output, HasSubstr("GPU 0 is disabled for"));
  EXPECT_THAT(run({"list"}).standard_output, AllOf(HasSubstr("disabled: fan is loud (by "), HasSubstr("just now)")));
  EXPECT_THAT(run({"top", "--once", "--size", "160x40"}).standard_output, HasSubstr("disabled: fan is loud"));
  EXPECT_EQ(run({"list", "--format", "csv,noheader", "--fields", "state"}).standard_output, "disabled\navailable\n");
  const auto list = json({"list"});
  EXPECT_EQ(list["gpus"][0]["disabled"]["reason"], "fan is loud");
  EXPECT_TRUE(list["gpus"][1]["disabled"].is_null());
  EXPECT_EQ(run({"select", "--index"}).standard_output, "1\n");
  expect_error({"select", "--gpu-ids", "0"}, 1, "GPU 0: disabled: fan is loud");
  EXPECT_THAT(run({"select", "--gpu-ids", "0"}).standard_error, HasSubstr("hint: gpuwarden enable 0"));
  EXPECT_THAT(run({"run", "--gpu-ids", "0", "--", "true"}).standard_error,
              AllOf(HasSubstr("disabled: fan is loud"), HasSubstr("gpuwarden enable 0")));
  EXPECT_EQ(run({"run", "-n", "2", "--", "true"}).exit_code, 1);
  EXPECT_EQ(run({"enable", "0"}).exit_code, 0);
  EXPECT_EQ(run({"select", "--gpu-ids", "0", "--index"}).standard_output, "0\n");
}

TEST_F(DisableCli, AGpuWithBrokenMemoryIsUnfitWithoutAMonitorUntilSomebodyAcceptsIt) {
  environment_["GPUWARDEN_SIMULATE"] =
      file("sick.yaml",
           "name: sick\ngpus:\n- {model: NVIDIA H100 80GB HBM3, faults: [ecc_uncorrected=2]}\n"
           "- {model: NVIDIA H100 80GB HBM3}\n");
  const auto list = run({"list"});
  EXPECT_EQ(list.exit_code, 1);
  EXPECT_THAT(list.standard_output, AllOf(HasSubstr(" unfit"), HasSubstr("2 uncorrectable memory errors")));
  EXPECT_EQ(run({"list", "--format", "csv,noheader", "--fields", "state", "-i", "0"}).standard_output, "unfit\n");
  EXPECT_EQ(run({"select", "--index"}).standard_output, "1\n");
  expect_error({"run", "--gpu-ids", "0", "--", "true"}, 1, "2 uncorrectable memory errors");
  EXPECT_THAT(run({"top", "--once", "--size", "160x40"}).standard_output, HasSubstr("2 uncorrectable memory"));
}

TEST_F(DisableCli, SaysWhatIsWrongWithTheCommand) {
  expect_error({"disable", "0"}, 2, "requires --reason");
  expect_error({"disable", "--reason", "loud"}, 2, "which GPUs?");
  expect_error({"disable", "7", "--reason", "loud"}, 2, "7");
  expect_error({"disable", "0", "--all", "--reason", "loud"}, 2, "disable --all means all GPUs: '0' is unexpected");
  expect_error({"enable", "--all", "0"}, 2, "enable --all means all GPUs: '0' is unexpected");
  EXPECT_TRUE(json({"list"})["gpus"][1]["disabled"].is_null());
  expect_error({"enable"}, 2, "which GPUs?");
  EXPECT_THAT(run({"enable", "1"}).standard_output, HasSubstr("was not disabled"));
}

TEST_F(DisableCli, AllAreTakenOutAndPutBackByOneWord) {
  EXPECT_THAT(run({"disable", "all", "--reason", "the room is too warm"}).standard_output,
              AllOf(HasSubstr("GPU 0 is disabled"), HasSubstr("GPU 1 is disabled")));
  EXPECT_EQ(run({"enable", "all"}).exit_code, 0);
  EXPECT_EQ(json({"disable", "--all", "--reason", "the room is too warm"})["disabled"].size(), 2U);
  EXPECT_EQ(run({"enable", "--all"}).exit_code, 0);
}

TEST_F(DisableCli, AGpuThatWasTakenOutCanBeEnabledByItsUuid) {
  const std::string uuid = json({"disable", "1", "--reason", "loud"})["disabled"][0]["uuid"];
  environment_["GPUWARDEN_SIMULATE"] = "h100x8";
  const auto done = run({"enable", uuid});
  EXPECT_THAT(done.standard_output, ::testing::StartsWith(uuid + " is enabled (it was disabled by "))
      << done.standard_error;
}

TEST_F(DisableCli, AllThatIsOutOfUseIsEnabledAtOnce) {
  EXPECT_THAT(run({"enable", "--all"}).standard_output, HasSubstr("no GPU is out of use"));
  ASSERT_EQ(run({"disable", "0", "1", "--reason", "moving"}).exit_code, 0);
  const auto done = run({"enable", "all"});
  EXPECT_THAT(done.standard_output, AllOf(HasSubstr("GPU 0 is enabled (it was disabled by "), HasSubstr("GPU 1 is")));
  EXPECT_TRUE(json({"list"})["gpus"][0]["disabled"].is_null());
}

TEST_F(DisableCli, AGpuThatIsUnfitIsEnabledAllTheSameAndThatIsSaid) {
  const std::string sick =
      file("sick.yaml",
           "name: sick\ngpus: [{model: NVIDIA H100 80GB HBM3, faults: [ecc_uncorrected=3]}, {model: Tesla T4}]\n");
  // Whoever was accepted is accepted for as long as the fleet is up.
  ASSERT_EQ(run({"sim", "start", "lab", "--fleet", sick}).exit_code, 0);
  environment_["GPUWARDEN_SIMULATE"] = "lab";
  EXPECT_EQ(json({"list"})["gpus"][0]["disabled"]["judged"], true);
  expect_error({"select", "--gpu-ids", "0"}, 1, "3 uncorrectable memory errors");
  const auto done = run({"enable", "0", "--reason", "ticket 4711"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output, HasSubstr("GPU 0 is enabled although it is unfit: 3 uncorrectable memory errors"));
  EXPECT_EQ(run({"select", "--gpu-ids", "0", "--index"}).standard_output, "0\n");
  const auto listed = json({"list"});
  EXPECT_TRUE(listed["gpus"][0]["disabled"].is_null());
  EXPECT_EQ(listed["gpus"][0]["accepted"]["reason"], "ticket 4711");
  EXPECT_TRUE(listed["gpus"][1]["accepted"].is_null());
  EXPECT_EQ(json({"enable", "1"})["accepted"][0]["causes"][0]["id"], "ecc_uncorrected");
  EXPECT_THAT(
      run({"list"}).standard_output,
      ContainsRegex("enabled in spite of: 3 uncorrectable memory errors.*\\(by [^:]*:[[:space:]]*ticket 4711\\)"));
  EXPECT_EQ(run({"sim", "stop", "lab"}).exit_code, 0);
}

TEST_F(DisableCli, WhileItIsUnknownWhoIsDisabledNothingIsGivenOut) {
  file("state/disabled.json", "{\"schema\":1,");
  expect_error({"select"}, 2, "which GPUs are disabled is unknown");
  EXPECT_THAT(run({"select"}).standard_error, HasSubstr("hint: correct the file, or remove it"));
  const auto list = run({"list"});
  EXPECT_EQ(list.exit_code, 0);
  EXPECT_THAT(list.standard_error, HasSubstr("which GPUs are disabled is unknown"));
}

}  // namespace
}  // namespace gpuwarden::testing
