// SPDX-License-Identifier: Apache-2.0
// Recordings in files: written, read back, refused.
#include "gpuwarden/recording/recorder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/recording/open.hpp"
#include "recording/recordings.hpp"
#include "support/fake_clock.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::recording {
namespace {

using namespace std::chrono_literals;
using gpuwarden::testing::noon;
using gpuwarden::testing::reading_at;
using gpuwarden::testing::set_load;
using ::testing::HasSubstr;

class Recordings : public ::testing::Test {
 protected:
  RecorderOptions options(const char* name = "a.db") const {
    RecorderOptions options;
    options.file = dir_ / name;
    options.info.host = "node7";
    options.info.interval = 1s;
    options.info.command = {"python", "train.py"};
    return options;
  }
  void add(Recorder& recorder, int from, int to) const {
    for (int i = from; i < to; ++i)
      recorder.add(reading_at(2, i, 1s, [](facts::Snapshot& snapshot, int n) {
        set_load(snapshot.gpus[0], n % 100, 10_GiB);
        snapshot.gpus[0].sample.energy = Millijoules(100'000 * n);
        if (n >= 50) snapshot.gpus[0].sample.throttle_reasons = {facts::ThrottleReason::hw_thermal_slowdown};
      }));
  }

  gpuwarden::testing::TempDir dir_;
  gpuwarden::testing::FakeClock clock_;
};

TEST_F(Recordings, AreReadBackAsTheyWereSummedUp) {
  auto recorder = Recorder::open(options(), clock_);
  ASSERT_TRUE(recorder) << recorder.error().message;
  add(**recorder, 0, 100);
  EXPECT_EQ((*recorder)->progress().readings, 100U);
  const Told at_end = (*recorder)->finish(3);
  const auto read = open_report(dir_ / "a.db");
  ASSERT_TRUE(read) << read.error().message;
  const Summary& summary = read->summary;
  EXPECT_TRUE(summary.info.finished);
  EXPECT_EQ(summary.info.exit_code, 3);
  EXPECT_EQ(summary.info.command, (std::vector<std::string>{"python", "train.py"}));
  ASSERT_EQ(summary.gpus.size(), 2U);
  for (const char* metric : {"utilization", "memory_used", "power", "temperature"}) {
    ASSERT_NE(summary.gpus[0].figure(metric), nullptr) << metric;
    EXPECT_DOUBLE_EQ(summary.gpus[0].figure(metric)->mean, at_end.summary.gpus[0].figure(metric)->mean) << metric;
  }
  EXPECT_DOUBLE_EQ(summary.gpus[0].energy->joules, 9900);
  ASSERT_EQ(summary.gpus[0].throttling.size(), 1U);
  EXPECT_NEAR(summary.gpus[0].throttling[0].share, 0.5, 0.02);
  EXPECT_NEAR(at_end.summary.gpus[0].throttling[0].share, 0.5, 0.02);
  EXPECT_TRUE(read->readings);
}

TEST_F(Recordings, OfOneReadingNothingHasLasted) {
  auto recorder = Recorder::open(options(), clock_);
  ASSERT_TRUE(recorder) << recorder.error().message;
  add(**recorder, 0, 1);
  EXPECT_FALSE((*recorder)->finish().summary.gpus[0].throttled_share);
  const auto read = open_report(dir_ / "a.db");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_FALSE(read->summary.gpus[0].throttled_share);
}

TEST_F(Recordings, AStretchIsSummedUpByItself) {
  auto recorder = Recorder::open(options(), clock_);
  ASSERT_TRUE(recorder) << recorder.error().message;
  add(**recorder, 0, 100);
  (*recorder)->finish();
  const auto some = open_report(dir_ / "a.db", {.from = "10s", .to = "12:00:20"});
  ASSERT_TRUE(some) << some.error().message;
  EXPECT_EQ(some->summary.gpus[0].figure("utilization")->min, 10);
  EXPECT_EQ(some->summary.gpus[0].figure("utilization")->max, 19);
  EXPECT_EQ(open_report(dir_ / "a.db", {.from = "1h", .to = ""}).error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(open_report(dir_ / "a.db", {.from = "noon", .to = ""}).error().message,
              HasSubstr("'noon' is not a time"));
}

TEST_F(Recordings, OneThatWasNotEndedSaysSoAndTellsWhatIsThere) {
  auto recorder = Recorder::open(options(), clock_);
  ASSERT_TRUE(recorder) << recorder.error().message;
  add(**recorder, 0, 10);
  const auto read = open_report(dir_ / "a.db");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_FALSE(read->summary.info.finished);
  EXPECT_EQ(read->summary.gpus[0].figure("utilization")->readings, 10U);
}

TEST_F(Recordings, AFileThatIsThereIsNotTouchedUnlessThatIsAskedFor) {
  gpuwarden::testing::put(dir_ / "a.db", "my thesis");
  EXPECT_THAT(Recorder::open(options(), clock_).error().message, HasSubstr("exists already"));
  auto append = options();
  append.existing = Existing::append;
  EXPECT_FALSE(Recorder::open(append, clock_));
  EXPECT_EQ(read_file(dir_ / "a.db").value_or(""), "my thesis");
  auto replace = options();
  replace.existing = Existing::replace;
  auto recorder = Recorder::open(replace, clock_);
  ASSERT_TRUE(recorder) << recorder.error().message;
  add(**recorder, 0, 3);
  (*recorder)->finish();
  EXPECT_TRUE(open_report(dir_ / "a.db"));
}

TEST_F(Recordings, AppendingGoesOnWithARecordingOfTheSameMachineAlone) {
  auto first = Recorder::open(options(), clock_);
  ASSERT_TRUE(first) << first.error().message;
  add(**first, 0, 10);
  (*first)->finish();
  first->reset();
  auto more = options();
  more.existing = Existing::append;
  auto second = Recorder::open(more, clock_);
  ASSERT_TRUE(second) << second.error().message;
  add(**second, 20, 30);
  EXPECT_EQ((*second)->finish().summary.gpus[0].figure("utilization")->readings, 20U) << "of all of the file";
  second->reset();
  more.info.host = "node8";
  EXPECT_THAT(Recorder::open(more, clock_).error().message, HasSubstr("is a recording of node7"));
}

TEST_F(Recordings, OnlyTheNamedGpusAreWritten) {
  auto one = options();
  one.gpus = {Uuid("GPU-1000-test")};
  auto recorder = Recorder::open(one, clock_);
  ASSERT_TRUE(recorder) << recorder.error().message;
  add(**recorder, 0, 5);
  (*recorder)->finish();
  const auto read = open_report(dir_ / "a.db");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->summary.gpus.size(), 1U);
  EXPECT_EQ(read->summary.gpus[0].index.value, 1U);
}

TEST_F(Recordings, GpusThatWereReservedForACommandAreHeldInTheFileToo) {
  auto held = options();
  held.held_by = "run-1";
  auto recorder = Recorder::open(held, clock_);
  ASSERT_TRUE(recorder) << recorder.error().message;
  add(**recorder, 0, 5);
  (*recorder)->finish();
  EXPECT_TRUE(open_report(dir_ / "a.db")->summary.held);
}

TEST_F(Recordings, CsvHasALineForEachGpuAndJsonLinesOneForEachReading) {
  auto text = options("none");
  text.file.clear();
  text.csv = dir_ / "a.csv";
  text.jsonl = dir_ / "a.jsonl";
  auto recorder = Recorder::open(text, clock_);
  ASSERT_TRUE(recorder) << recorder.error().message;
  add(**recorder, 0, 3);
  (*recorder)->finish();
  const std::string csv = read_file(dir_ / "a.csv").value_or("");
  const auto lines = split(csv, '\n');
  ASSERT_EQ(lines.size(), 8U) << "a heading, six lines, and what is behind the last one";
  EXPECT_TRUE(lines[0].starts_with("time,index,uuid,name,state,utilization.gpu_percent,"));
  EXPECT_TRUE(lines[1].starts_with("2026-11-20T12:00:00.000Z,0,GPU-0000-test,NVIDIA H100 80GB HBM3,available,0,"))
      << lines[1];
  EXPECT_EQ(std::ranges::count(lines[1], ','), std::ranges::count(lines[0], ','));
  const std::string jsonl = read_file(dir_ / "a.jsonl").value_or("");
  const auto documents = split(jsonl, '\n');
  ASSERT_EQ(documents.size(), 4U);
  EXPECT_EQ(nlohmann::json::parse(documents[2])["gpus"].size(), 2U);
  EXPECT_FALSE(Recorder::open(text, clock_)) << "both exist already";
  text.existing = Existing::append;
  auto again = Recorder::open(text, clock_);
  ASSERT_TRUE(again);
  add(**again, 3, 4);
  EXPECT_EQ(split(read_file(dir_ / "a.csv").value_or(""), '\n').size(), 10U) << "one heading only";
}

TEST_F(Recordings, WhatCannotBeWrittenIsCountedAndTheSummaryIsThereAllTheSame) {
  auto full = options("none");
  full.file.clear();
  full.csv = "/dev/full";
  auto opened = Recorder::open(full, clock_);
  ASSERT_FALSE(opened) << "the heading already finds no space";
  EXPECT_THAT(opened.error().message, HasSubstr("/dev/full"));
  int pipes[2];
  ASSERT_EQ(::pipe2(pipes, O_CLOEXEC), 0);
  full.csv = fmt::format("/dev/fd/{}", pipes[1]);
  auto recorder = Recorder::open(full, clock_);
  ASSERT_TRUE(recorder) << recorder.error().message;
  ::close(pipes[0]);
  ::signal(SIGPIPE, SIG_IGN);
  add(**recorder, 0, 4);
  ::close(pipes[1]);
  const auto progress = (*recorder)->progress();
  EXPECT_EQ(progress.readings, 4U);
  EXPECT_EQ(progress.lost, 4U);
  ASSERT_TRUE(progress.trouble);
  EXPECT_EQ((*recorder)->finish().summary.gpus[0].readings, 4U);
}

TEST_F(Recordings, TheUsualNameSaysWhereAndWhenAndIsAFileNameEverywhere) {
  EXPECT_EQ(usual_file_name("node7.example/..", noon()), "gpuwarden-node7-example----20261120-120000.db");
  EXPECT_EQ(usual_file_name("", noon()), "gpuwarden-host-20261120-120000.db");
}

TEST_F(Recordings, OtherFilesAreToldApart) {
  const auto error = [&](const char* name, std::string_view content) {
    gpuwarden::testing::put(dir_ / name, content);
    const auto opened = open_report(dir_ / name);
    EXPECT_FALSE(opened) << name;
    return opened ? Error{} : opened.error();
  };
  EXPECT_THAT(error("empty", "").message, HasSubstr("is empty"));
  EXPECT_THAT(error("log", "epoch 1\n").message, HasSubstr("is neither a recording nor a report"));
  EXPECT_EQ(error("half.json", "{\"run_id\": ").code, ErrorCode::corrupt);
  EXPECT_THAT(error("other.json", "{\"a\": 1}").message, HasSubstr("no report of a run"));
  EXPECT_FALSE(error("cut.db", std::string_view("SQLite format 3\0and no more", 28)).message.empty());
  EXPECT_EQ(open_report(dir_ / "absent").error().code, ErrorCode::not_found);
  EXPECT_THAT(open_report(dir_.path()).error().message, HasSubstr("is a directory"));
}

TEST(RecordingInfo, IsThatOfTheMachineThatIsRead) {
  facts::Snapshot snapshot = gpuwarden::testing::fleet(1);
  snapshot.host = "node7";
  snapshot.simulated = true;
  snapshot.fleet = "h100x8";
  snapshot.driver_version = "550.54.15";
  const telemetry::StoreInfo info = info_of(snapshot, {"python", "train.py"}, 2s);
  EXPECT_EQ(info.host, "node7");
  EXPECT_TRUE(info.simulated);
  EXPECT_EQ(info.fleet, "h100x8");
  EXPECT_EQ(info.driver_version, "550.54.15");
  EXPECT_EQ(info.command, (std::vector<std::string>{"python", "train.py"}));
  EXPECT_EQ(info.interval, 2s);
}

}  // namespace
}  // namespace gpuwarden::recording
