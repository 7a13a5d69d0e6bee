// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/bundle/bundle.hpp"
#include "support/stand_in.hpp"

namespace gpuwarden {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class BundleCommand : public testing::Program {
 protected:
  std::string archive() const { return (dir_ / "ticket.tar.gz").string(); }
  bundle::Bundle read() const {
    auto bundle = bundle::read_bundle(archive());
    EXPECT_TRUE(bundle) << bundle.error().message;
    return bundle.value_or(bundle::Bundle{});
  }
};

TEST_F(BundleCommand, HoldsTheFleetsFactsTheDoctorsReportAndSamples) {
  const auto done = run({"bundle", "--simulate", "h100x8", "--seconds", "1", "-o", archive()});
  ASSERT_EQ(done.exit_code, 0) << done.standard_error;
  for (const char* part :
       {"SIMULATED", "snapshot.json", "doctor.json", "samples.json", "not inside:", "removed in all"})
    EXPECT_THAT(done.standard_output, HasSubstr(part));
  const bundle::Bundle bundle = read();
  EXPECT_TRUE(bundle.manifest.simulated);
  EXPECT_FALSE(bundle.manifest.anonymized);
  ASSERT_NE(bundle.find("samples.json"), nullptr);
  EXPECT_EQ(nlohmann::json::parse(*bundle.find("samples.json"))["readings"][0]["gpus"].size(), 8U);
  struct stat status{};
  ASSERT_EQ(::stat(archive().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST_F(BundleCommand, StandsForTheMachineWhereverACaptureDoes) {
  ASSERT_EQ(run({"bundle", "--simulate", "h100x8", "--seconds", "0", "-o", archive()}).exit_code, 0);
  EXPECT_EQ(json({"list", "--from", archive()})["gpus"].size(), 8U);
  EXPECT_EQ(run({"select", "--from", archive(), "-n", "1"}).exit_code, 0);
  EXPECT_EQ(json({"list", "--simulate", archive()})["gpus"].size(), 8U);
  EXPECT_EQ(run({"list", "--from", "-"}, read_file(archive()).value_or("")).exit_code, 0);
  EXPECT_EQ(run({"doctor", "--compare", archive(), archive()}).exit_code, 0);
}

TEST_F(BundleCommand, TheDoctorFindsInItWhatItFoundOnTheMachine) {
  const std::vector<std::string> machine{"--simulate", "h100x8-sick", "--timeout", "5s"};
  for (const bool anonymize : {false, true}) {
    std::vector<std::string> words{"bundle", "--seconds", "0", "-o", archive()};
    words.insert(words.end(), machine.begin(), machine.end());
    if (anonymize) words.emplace_back("--anonymize");
    ASSERT_EQ(run(words).exit_code, 0);
    const auto then = nlohmann::json::parse(*read().find("doctor.json"));
    const auto now = json({"doctor", "--from", archive()});
    EXPECT_FALSE(now["findings"].empty());
    EXPECT_EQ(now["findings"], then["findings"]);
    EXPECT_EQ(now["areas"], then["areas"]);
    std::vector<std::string> live{"doctor"};
    live.insert(live.end(), machine.begin(), machine.end());
    EXPECT_EQ(now["overall"], json(live)["overall"]);
  }
}

TEST_F(BundleCommand, LogsLoseTheirSecretsAndOnRequestTheirNames) {
  environment_["WANDB_API_KEY"] = "0123456789abcdef0123456789abcdef01234567";
  environment_["USER"] = "janedoe";
  const auto log = file("train.log", "login 0123456789abcdef0123456789abcdef01234567\njanedoe at /home/janedoe/x\n");
  const std::vector<std::string> words{"bundle", "--simulate", "t4x1", "--seconds", "0", "--log", log, "-o", archive()};
  ASSERT_EQ(run(words).exit_code, 0);
  EXPECT_EQ(*read().find("logs/train.log"), "login [removed]\njanedoe at /home/janedoe/x\n");
  auto anonymous = words;
  anonymous.emplace_back("--anonymize");
  EXPECT_THAT(run(anonymous).standard_output, HasSubstr("names replaced"));
  const bundle::Bundle bundle = read();
  EXPECT_THAT(*bundle.find("logs/train.log"), Not(HasSubstr("janedoe")));
  EXPECT_TRUE(bundle.manifest.anonymized);
  const auto whole = json({"bundle", "--list", archive()});
  EXPECT_EQ(whole["removed"]["value of a secret variable"], 1);
  EXPECT_EQ(whole["file"], archive());
}

TEST_F(BundleCommand, KeepsWhatNvidiaSmiPrintsOnThisMachine) {
  const testing::StandIn machine;
  machine.h100();
  environment_["GPUWARDEN_NVIDIA_SMI"] = machine.program(testing::kSmiLog).string();
  environment_["GPUWARDEN_SYS_ROOT"] = machine.sys().string();
  environment_["GPUWARDEN_PROC_ROOT"] = machine.proc().string();
  const auto done = run({"bundle", "--probe", "nvidia-smi", "--no-environment", "--seconds", "1", "-o", archive()});
  ASSERT_EQ(done.exit_code, 0) << done.standard_error;
  const bundle::Bundle bundle = read();
  EXPECT_NE(bundle.find("nvidia-smi/q.txt"), nullptr);
  ASSERT_NE(bundle.find("nvidia-smi/q.xml"), nullptr);
  EXPECT_THAT(*bundle.find("nvidia-smi/q.xml"), HasSubstr("NVIDIA H100 80GB HBM3"));
  EXPECT_NE(bundle.find("samples.json"), nullptr);
}

TEST_F(BundleCommand, WrongWishesWriteNothing) {
  expect_error({"bundle", "--simulate", "t4x1", "--log", "/no/such.log", "-o", archive()}, 2, "/no/such.log");
  expect_error({"bundle", "--simulate", "t4x1", "--seconds", "x", "-o", archive()}, 2, "--seconds");
  expect_error({"bundle", "--simulate", "t4x1", "--log-size", "1TiB", "-o", archive()}, 2, "--log-size");
  expect_error({"bundle", "--simulate", "t4x1", "--seconds", "0", "-o", "/no/such/folder/x.tar.gz"}, 2,
               "/no/such/folder");
  EXPECT_FALSE(std::filesystem::exists(archive()));
}

TEST_F(BundleCommand, OverwritesNoFileButAnOlderBundle) {
  const auto log = file("train.log", "step 1\n");
  const auto other = file("notes.txt", "mine\n");
  const std::vector<std::string> words{"bundle", "--simulate", "t4x1", "--seconds", "0", "--log", log, "-o"};
  const auto with = [&](const std::string& output) {
    auto all = words;
    all.push_back(output);
    return all;
  };
  expect_error(with(log), 2, "one of the logs");
  expect_error(with(other), 2, "not a bundle");
  EXPECT_EQ(read_file(log).value_or(""), "step 1\n");
  EXPECT_EQ(read_file(other).value_or(""), "mine\n");
  EXPECT_EQ(run(with(archive())).exit_code, 0);
  EXPECT_EQ(run(with(archive())).exit_code, 0);
  expect_error({"bundle", "--simulate", "t4x1", "--seconds", "0", "--log", archive(), "-o", archive()}, 2, archive());
}

TEST_F(BundleCommand, WhatIsNoBundleIsRefusedWithItsName) {
  expect_error({"bundle", "--list", file("x.txt", "hello\n")}, 2, "x.txt is not a gpuwarden bundle");
  ASSERT_EQ(run({"bundle", "--simulate", "t4x1", "--seconds", "0", "-o", archive()}).exit_code, 0);
  std::string cut = read_file(archive()).value_or("");
  cut.resize(cut.size() / 2);
  expect_error({"list", "--from", file("cut.tar.gz", cut)}, 2, "cut.tar.gz");
  expect_error({"doctor", "--from", file("bad.tar.gz", "\x1f\x8bnonsense")}, 2, "bad.tar.gz");
}

}  // namespace
}  // namespace gpuwarden
