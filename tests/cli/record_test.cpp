// SPDX-License-Identifier: Apache-2.0
// gpuwarden record, report, run --record: on the simulator, end to end.
#include <algorithm>
#include <csignal>

#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Record : public testing::Program {
 protected:
  Record() { environment_["GPUWARDEN_SIMULATE"] = "h100x8"; }
  std::string path(const char* name) const { return (dir_ / name).string(); }
  /// Shell commands that record into a.db in the background, as process $p, until a GPU's reading is in it.
  std::string recording(const std::string& before, const std::string& options) const {
    const std::string program(GPUWARDEN_PROGRAM);
    const std::string file = path("a.db");
    return before + program + " record " + options + " -o " + file + " --interval 100ms & p=$!; until " + program +
           " report " + file + " >" + path("seen") + " 2>&1; do sleep 0.1; done; ";
  }
  /// A short recording of two GPUs.
  std::string recorded(const char* name = "a.db") const {
    const auto done =
        run({"record", "-o", path(name), "--gpu", "0,3", "--interval", "100ms", "--duration", "500ms", "-q"});
    EXPECT_EQ(done.exit_code, 0) << done.standard_error;
    return path(name);
  }
};

TEST_F(Record, EndsWithMeanMostAndLeastOfEachGpuAndReportShowsItAgain) {
  const auto done = run({"record", "-o", path("a.db"), "--interval", "100ms", "--duration", "3s"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_error, HasSubstr("[simulated] recording 8 GPUs every 100 ms to " + path("a.db")));
  EXPECT_THAT(done.standard_error, Not(HasSubstr("\r"))) << "no progress in a pipe";
  EXPECT_THAT(done.standard_output, HasSubstr("mean / most / least"));
  EXPECT_THAT(done.standard_output, HasSubstr("h100x8 (simulated)"));
  const auto report = run({"report", path("a.db")});
  EXPECT_EQ(report.exit_code, 0) << report.standard_error;
  EXPECT_EQ(report.standard_output, done.standard_output);
  const auto summary = json({"report", path("a.db")});
  ASSERT_EQ(summary["gpus"].size(), 8U);
  EXPECT_EQ(summary["finished"], true);
  EXPECT_EQ(summary["simulated"], true);
  EXPECT_GE(summary["gpus"][0]["readings"], 2);
  EXPECT_TRUE(summary["gpus"][0]["temperature_celsius"]["mean"].is_number());
}

TEST_F(Record, ACommandIsRecordedAsLongAsItRunsAndItsExitCodeIsOurs) {
  const auto done =
      run({"record", "-o", path("a.db"), "--interval", "100ms", "--", "sh", "-c", "sleep 0.3; echo out; exit 7"});
  EXPECT_EQ(done.exit_code, 7) << done.standard_error;
  EXPECT_EQ(done.standard_output, "out\n") << "the summary is not among the command's output";
  EXPECT_THAT(done.standard_error, HasSubstr("mean / most / least"));
  const auto summary = json({"report", path("a.db")});
  EXPECT_EQ(summary["exit_code"], 7);
  EXPECT_EQ(summary["command"][0], "sh");
  expect_error({"record", "--", "no-such-program-here"}, 127, "was not found");
}

TEST_F(Record, SignalsReachTheCommandAndTheRecordingEndsInOrder) {
  const auto script = "trap 'kill $nap; exit 9' TERM; sleep 20 & nap=$!; sleep 1; kill -TERM $PPID; wait";
  const auto done = run({"record", "-o", path("a.db"), "-q", "--interval", "100ms", "--", "sh", "-c", script});
  EXPECT_EQ(done.exit_code, 9) << done.standard_error;
  const auto summary = json({"report", path("a.db")});
  ASSERT_TRUE(summary.is_object());
  EXPECT_EQ(summary["finished"], true);
}

TEST_F(Record, CtrlCEndsItInOrderWithTheSummary) {
  // A shell's background jobs ignore SIGINT.
  const auto script = recording("env --default-signal=INT ", "") + "kill -INT $p; wait $p; echo code $?";
  const auto done = testing::run_patiently({.argv = {"bash", "-c", script}, .environment = environment_});
  ASSERT_TRUE(done);
  EXPECT_THAT(done->standard_output, HasSubstr("mean / most / least")) << done->standard_error;
  EXPECT_THAT(done->standard_output, HasSubstr("code 0"));
  EXPECT_EQ(json({"report", path("a.db")})["finished"], true);
}

TEST_F(Record, AKilledRecordingTellsWhatIsThere) {
  const auto script = recording("", "-q") + "kill -KILL $p; wait $p; true";
  ASSERT_TRUE(testing::run_patiently({.argv = {"bash", "-c", script}, .environment = environment_}));
  const auto report = run({"report", path("a.db")});
  EXPECT_EQ(report.exit_code, 0) << report.standard_error;
  EXPECT_THAT(report.standard_output, HasSubstr("was not ended in order"));
  EXPECT_THAT(report.standard_output, HasSubstr("mean / most / least"));
}

TEST_F(Record, CsvGoesToStandardOutputAndLeavesNoDatabase) {
  environment_["PWD"] = dir_.path().string();
  const auto done = run({"record", "--csv", "-", "--gpu", "1", "--interval", "100ms", "--duration", "300ms", "-q"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  const auto lines = split(done.standard_output, '\n');
  ASSERT_GE(lines.size(), 3U);
  EXPECT_TRUE(lines[0].starts_with("time,index,uuid,name,state,"));
  EXPECT_THAT(std::string(lines[1]), HasSubstr("Z,1,GPU-"));
  EXPECT_THAT(done.standard_error, Not(HasSubstr(".db")));
}

TEST_F(Record, AFileThatIsThereIsRefusedUnlessToldOtherwise) {
  const std::string db = recorded();
  expect_error({"record", "-o", db, "--duration", "1s"}, 2, "exists already");
  const auto more =
      run({"record", "-o", db, "--append", "--gpu", "0,3", "--interval", "100ms", "--duration", "300ms", "-q"});
  EXPECT_EQ(more.exit_code, 0) << more.standard_error;
  const std::string text = file("thesis.txt", "precious");
  expect_error({"record", "-o", text, "--append", "--duration", "1s"}, 2, "thesis.txt");
  EXPECT_EQ(read_file(text).value_or(""), "precious");
}

TEST_F(Record, WhatMeansNothingIsRefused) {
  expect_error({"record", "-o", "-"}, 2, "cannot be written to standard output");
  expect_error({"record", "--interval", "1ms"}, 2, "between 100ms and 10m");
  expect_error({"record", "--append", "--force"}, 2, "--append");
  expect_error({"record", "--csv", "-", "--json"}, 2, "standard output can take one");
  expect_error({"record", "--duration", "1s", "--", "true"}, 2, "--duration and a command");
  expect_error({"record", "--gpu", "99", "--duration", "1s", "-o", path("a.db")}, 2, "99");
  expect_error({"record", "--duration", "1s", "-o", "/no/such/folder/a.db"}, 2, "/no/such/folder");
  expect_error({"record", "--simulate", "none", "--duration", "1s"}, 3, "no GPU");
}

TEST_F(Record, AFullDiskIsSaidOnceAndTheCommandsExitCodeKept) {
  expect_error({"record", "--csv", "/dev/full", "--", "true"}, 1, "/dev/full");
  // A limit on the size of files, which this one has reached, stands for a disk that is full.
  const auto script = "trap '' XFSZ; truncate -s 64M " + path("a.csv") + "; ulimit -f 65536; exec " +
                      std::string(GPUWARDEN_PROGRAM) + " record --csv " + path("a.csv") +
                      " --append --interval 100ms -q -- sh -c 'sleep 1; exit 5'";
  const auto done = testing::run_patiently({.argv = {"bash", "-c", script}, .environment = environment_});
  ASSERT_TRUE(done);
  EXPECT_EQ(done->exit_code, 5) << done->standard_error;
  EXPECT_THAT(done->standard_error, HasSubstr("cannot write " + path("a.csv")));
  EXPECT_THAT(done->standard_error, HasSubstr("readings could not be written"));
}

TEST_F(Record, ReportWritesHtmlAndMarkdownAndComparesTwo) {
  const std::string a = recorded("a.db");
  const std::string b = recorded("b.db");
  const auto html = run({"report", a, "--html", path("a.html"), "--markdown", path("a.md")});
  EXPECT_EQ(html.exit_code, 0) << html.standard_error;
  EXPECT_EQ(html.standard_output, "");
  const std::string page = read_file(dir_ / "a.html").value_or("");
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>")) << page.substr(0, 100);
  EXPECT_THAT(page, HasSubstr("<svg class=\"chart"));
  EXPECT_THAT(read_file(dir_ / "a.md").value_or(""), HasSubstr("| 3 | NVIDIA H100"));
  EXPECT_THAT(run({"report", a, "--markdown", "-"}).standard_output, HasSubstr("## GPUs of "));
  EXPECT_THAT(run({"report", a, "--compare", b}).standard_output, HasSubstr("B against A"));
  EXPECT_THAT(run({"report", "--compare", a, b, "--html", "-"}).standard_output, HasSubstr("Side by side"));
  EXPECT_EQ(json({"report", a, "--compare", b})["kind"], "comparison");
}

TEST_F(Record, ReportSaysWhatIsWrongWithAFile) {
  expect_error({"report"}, 2, "needs a file");
  expect_error({"report", path("absent.db")}, 2, "No such file");
  expect_error({"report", dir_.path().string()}, 2, "is a directory");
  expect_error({"report", file("empty", "")}, 2, "is empty");
  expect_error({"report", file("train.log", "epoch 1\n")}, 2, "is neither a recording nor a report");
  expect_error({"report", file("x.json", "{\"a\":1}")}, 2, "no report of a run");
  const std::string db = recorded();
  std::string bytes = read_file(db).value_or("");
  ASSERT_GT(bytes.size(), 8192U);
  bytes.resize(bytes.size() / 2);
  expect_error({"report", file("half.db", bytes)}, 2, "half.db");
  expect_error({"report", db, "--from", "noon"}, 2, "--from: 'noon' is not a time");
  expect_error({"report", db, "--from", "2h"}, 2, "--from 2h is after the end of the recording");
  expect_error({"record", "--duration", "0"}, 2, "--duration must be longer than 0");
  const auto one = run({"record", "-o", path("one.db"), "--interval", "5m", "--duration", "300ms"});
  EXPECT_THAT(one.standard_error, HasSubstr("there is one reading alone, and energy takes two: a shorter --interval"));
  const auto brief = run({"record", "-o", path("brief.db"), "--duration", "1s"});
  EXPECT_THAT(brief.standard_error, HasSubstr("every 100 ms")) << "often enough for energy";
  EXPECT_THAT(brief.standard_error, ::testing::Not(HasSubstr("one reading")));
  file("there.html", "mine");
  expect_error({"report", db, "--html", path("there.html")}, 2, "exists already");
  EXPECT_EQ(read_file(path("there.html")).value_or(""), "mine");
  EXPECT_EQ(run({"report", db, "--html", path("there.html"), "--force"}).exit_code, 0);
  expect_error({"report", db, "--html", "/no/such/folder/a.html"}, 2, "cannot write");
  expect_error({"report", db, "--html", "-", "--json"}, 2, "standard output can take one");
  expect_error({"report", db, db}, 2, "unexpected argument");
}

TEST_F(Record, ARunKeepsARecordingAndSaysWhatWasWasted) {
  const auto done = run({"run", "-n", "8", "--record", path("run.db"), "--report", path("run.json"), "--sim-load",
                         "memory=60GiB,util=0", "--sample-period", "100ms", "--", "sleep", "4"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_error, HasSubstr("8 GPUs held, none used"));
  const auto report = nlohmann::json::parse(read_file(dir_ / "run.json").value_or(""), nullptr, false);
  EXPECT_EQ(report["waste"][0]["id"], "unused_gpus");
  EXPECT_TRUE(report["gpus"][0]["utilization_percent"]["mean"].is_number());
  const auto summary = json({"report", path("run.db")});
  EXPECT_EQ(summary["held"], true);
  EXPECT_EQ(summary["exit_code"], 0);
  EXPECT_EQ(summary["gpus"].size(), 8U);
  EXPECT_EQ(summary["waste"][0]["id"], "unused_gpus");
  EXPECT_THAT(run({"report", path("run.json")}).standard_output, HasSubstr("8 GPUs held, none used"));
  expect_error({"run", "-n", "1", "--record", path("run.db"), "--", "true"}, 2, "exists already");
  EXPECT_THAT(run({"run", "-n", "1", "--record", path("run.db"), "--", "true"}).standard_error,
              HasSubstr("name another file with --record"));
}

TEST_F(Record, ARunHearsOfXidsAndTellsThemInItsReportAndItsRecording) {
  ASSERT_EQ(run({"sim", "start", "lab", "--fleet", "h100x8"}).exit_code, 0);
  environment_["GPUWARDEN_SIMULATE"] = "lab";
  const std::string script = "sleep 2; " + std::string(GPUWARDEN_PROGRAM) + " sim fault lab xid=31 --gpu 2; sleep 2";
  const auto done = run({"run", "--gpu-ids", "2", "--record", path("run.db"), "--report", path("run.json"),
                         "--sample-period", "100ms", "--", "sh", "-c", script});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_error, HasSubstr("GPU 2 xid: Xid 31 at "));
  const auto report = nlohmann::json::parse(read_file(dir_ / "run.json").value_or(""), nullptr, false);
  for (const auto& told : {report, json({"report", path("run.db")}), json({"report", path("run.json")})}) {
    const auto& happenings = told["happenings"];
    const auto xids = std::ranges::count_if(happenings, [](const auto& one) { return one["kind"] == "xid"; });
    EXPECT_EQ(xids, 1) << told.dump();
  }
  EXPECT_EQ(run({"sim", "stop", "lab"}).exit_code, 0);
}

}  // namespace
}  // namespace gpuwarden
