// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/logs/diagnose.hpp"

#include <nlohmann/json.hpp>

#include "gpuwarden/base/file.hpp"
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

}  // namespace
}  // namespace gpuwarden::logs
