// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/logs/diagnose.hpp"

#include <nlohmann/json.hpp>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"
#include "support/fleet_builder.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::logs {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Json = nlohmann::json;

constexpr std::string_view kMismatch =
    "step 10 loss 2.31\n"
    "Failed to initialize NVML: Driver/library version mismatch\n";

class LogFolder : public ::testing::Test {
 protected:
  std::string write(const std::string& name, std::string_view text) {
    const auto path = dir_ / name;
    std::filesystem::create_directories(path.parent_path());
    EXPECT_TRUE(write_file_atomically(path, text));
    return path.string();
  }
  std::string folder() const { return dir_.path().string(); }

 private:
  testing::TempDir dir_;
};

TEST_F(LogFolder, IsDiagnosedInOneCallWithTheRanksOfItsFiles) {
  write("attempt_0/3/stderr.log", kMismatch);
  write("attempt_0/4/stderr.log", "all is well\n");
  write("train.py", "raise RuntimeError('CUDA out of memory')\n");
  const Report report = diagnose({folder()});
  ASSERT_THAT(report.diagnosis.causes, Not(IsEmpty()));
  EXPECT_EQ(report.diagnosis.causes[0].id, "driver_library_mismatch");
  ASSERT_THAT(report.logs.files, SizeIs(2)) << "sources are no logs";
  EXPECT_EQ(report.logs.files[0].rank, 3);
  EXPECT_EQ(report.logs.files[1].rank, 4);
  EXPECT_THAT(report.logs.problems, IsEmpty());
}

TEST_F(LogFolder, WhatCannotBeReadIsAProblemAndTheRestIsDiagnosed) {
  const Report report = diagnose({folder() + "/none.log", write("run.log", kMismatch)});
  ASSERT_THAT(report.logs.problems, SizeIs(1));
  EXPECT_THAT(report.logs.problems[0].message, HasSubstr("none.log"));
  EXPECT_THAT(report.diagnosis.causes, SizeIs(1));
}

TEST_F(LogFolder, CausesThatAreLessSureThanWantedAreCounted) {
  const std::string log = write("run.log", kMismatch);
  const Report sure = diagnose({log});
  const Report doubtful = diagnose({log}, {.min_confidence = 1.01});
  EXPECT_THAT(doubtful.diagnosis.causes, IsEmpty());
  EXPECT_EQ(doubtful.doubtful, sure.diagnosis.causes.size() + sure.doubtful);
}

TEST_F(LogFolder, AMachineThatIsGivenIsNamedAndASimulatedOneSaysSo) {
  facts::Snapshot machine = testing::fleet(1);
  machine.simulated = true;
  machine.fleet = "h100x1";
  const Report report = diagnose({write("run.log", kMismatch)}, {.machine = &machine});
  EXPECT_EQ(report.machine, "SIMULATED h100x1");
  EXPECT_TRUE(report.simulated);
}

TEST_F(LogFolder, TheJsonHasWhatTheReportHas) {
  const std::string log = write("rank-7.log", kMismatch);
  const std::string gone = folder() + "/gone.log";
  const Report report = diagnose({log, gone});
  const Json json = Json::parse(to_json(report).dump());
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["simulated"], false);
  EXPECT_EQ(json["machine"], nullptr);
  ASSERT_THAT(json["files"], SizeIs(1));
  EXPECT_EQ(json["files"][0]["file"], log);
  EXPECT_EQ(json["files"][0]["rank"], 7);
  EXPECT_EQ(json["files"][0]["bytes"], kMismatch.size());
  EXPECT_EQ(json["not_read"][0], report.logs.problems[0].message);
  EXPECT_EQ(json["causes"][0]["id"], report.diagnosis.causes[0].id);
  EXPECT_EQ(json["events_dropped"], 0);
}

TEST_F(LogFolder, ADeadDriverInTheSameTextStandsBeforeTheFailureThatFollows) {
  const Report report = diagnose({write("run.log",
                                        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
                                        "Make sure that the latest NVIDIA driver is installed and running.\n"
                                        "ImportError: libcudart.so.12: cannot open shared object file: No such file "
                                        "or directory\n")},
                                 {.knowledge = &knowledge::Knowledge::built_in()});
  const Json json = to_json(report);
  ASSERT_THAT(json["answers"], Not(IsEmpty()));
  const std::string first = json["answers"][0]["id"];
  EXPECT_TRUE(first.starts_with("driver")) << json["answers"].dump();
}

TEST_F(LogFolder, ACauseThatIsNotSureEnoughToBeToldTakesNoFindingWithIt) {
  const std::string log = write("run.log",
                                "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make "
                                "sure that the latest NVIDIA driver is installed and running.\n");
  const Report report = diagnose({log}, {.min_confidence = 1.01, .knowledge = &knowledge::Knowledge::built_in()});
  EXPECT_THAT(report.diagnosis.causes, IsEmpty());
  EXPECT_GT(report.doubtful, 0U);
  ASSERT_THAT(report.environment, Not(IsEmpty())) << "the dead driver";
  EXPECT_THAT(report.answers, SizeIs(report.environment.size()));
}

TEST_F(LogFolder, AFindingOfTheEnvironmentThatNoCauseSaysIsOneOfTheAnswers) {
  const Report report = diagnose({write("env.txt",
                                        "Collecting environment information...\n"
                                        "PyTorch version: 2.6.0+cu124\n"
                                        "CUDA used to build PyTorch: 12.4\n"
                                        "OS: Ubuntu 22.04.5 LTS (x86_64)\n"
                                        "Python version: 3.12.3\n"
                                        "Is CUDA available: True\n"
                                        "GPU models and configuration: GPU 0: NVIDIA GeForce RTX 5090\n"
                                        "Nvidia driver version: 570.124.06\n")},
                                 {.knowledge = &knowledge::Knowledge::built_in()});
  ASSERT_THAT(report.environment, Not(IsEmpty()));
  ASSERT_THAT(report.answers, SizeIs(report.environment.size() + report.diagnosis.causes.size()));
  EXPECT_FALSE(report.answers.front().is_cause);
}

TEST_F(LogFolder, ACauseTakesTheCommandsThatTheDoctorHasWorkedOutForTheMachineInTheText) {
  const Report report = diagnose({write("env.txt",
                                        "RuntimeError: CUDA error: no kernel image is available for execution on the "
                                        "device\n"
                                        "Collecting environment information...\n"
                                        "PyTorch version: 2.6.0+cu124\n"
                                        "CUDA used to build PyTorch: 12.4\n"
                                        "OS: Ubuntu 22.04.5 LTS (x86_64)\n"
                                        "Python version: 3.12.3\n"
                                        "Is CUDA available: True\n"
                                        "GPU models and configuration: GPU 0: NVIDIA GeForce RTX 5090\n"
                                        "Nvidia driver version: 570.124.06\n")},
                                 {.knowledge = &knowledge::Knowledge::built_in()});
  ASSERT_THAT(report.diagnosis.causes, Not(IsEmpty()));
  EXPECT_EQ(report.diagnosis.causes[0].id, "no_kernel_image");
  ASSERT_THAT(report.diagnosis.causes[0].fix, Not(IsEmpty()));
  EXPECT_THAT(report.diagnosis.causes[0].fix[0], HasSubstr("pip install"));
  EXPECT_THAT(report.diagnosis.causes[0].fix[0], HasSubstr("download.pytorch.org/whl/cu12"));
  EXPECT_THAT(report.environment, IsEmpty());
}

TEST_F(LogFolder, AFailureIsShownByACauseOrByWhatFollowsFromOne) {
  EXPECT_TRUE(shows_failure(diagnose({write("run.log", kMismatch)})));
  EXPECT_FALSE(shows_failure(diagnose({write("fine.log", "all is well\n")})));
  Report report;
  report.diagnosis.only_consequences = true;
  EXPECT_TRUE(shows_failure(report));
}

TEST_F(LogFolder, ADiagnosisThatWasKeptHasItsCausesAsAnswers) {
  const Report kept = report_of(diagnose({write("run.log", kMismatch)}).diagnosis);
  ASSERT_THAT(kept.answers, SizeIs(kept.diagnosis.causes.size()));
  EXPECT_TRUE(kept.answers[0].is_cause);
  EXPECT_EQ(kept.answers[0].index, 0U);
}

TEST_F(LogFolder, WhatWasSkippedOrEmptyIsRemarkedOn) {
  const std::string binary =
      "\x7f"
      "ELF" +
      std::string(200, '\x01');
  for (const char* name : {"a.out", "b.out", "c.out", "d.out"}) write(std::string("box/") + name, binary);
  const auto nothing = nothing_read(diagnose({folder()}).logs);
  ASSERT_TRUE(nothing);
  EXPECT_THAT(nothing->message, HasSubstr("c.out holds no text, and 1 more"));
  write("box/empty.log", "");
  const Logs logs = diagnose({folder()}).logs;
  EXPECT_FALSE(nothing_read(logs));
  const auto remarks = remarks_on(logs);
  ASSERT_THAT(remarks, SizeIs(2));
  EXPECT_THAT(remarks[0], HasSubstr("empty.log is empty"));
  EXPECT_THAT(remarks[1], HasSubstr("not read: "));
}

TEST(Confidences, AreFromNoneToOne) {
  EXPECT_EQ(*parse_confidence("0"), 0.0);
  EXPECT_EQ(*parse_confidence("0.5"), 0.5);
  for (const char* text : {"1.01", "-0.1", "half", ""})
    EXPECT_EQ(parse_confidence(text).error().message, std::string("'") + text + "' is not a confidence");
}

}  // namespace
}  // namespace gpuwarden::logs
