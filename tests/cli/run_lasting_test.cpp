// SPDX-License-Identifier: Apache-2.0
// `gpuwarden run` when things go wrong for long: GPUs that go and come back, several nodes, time that is over.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "support/patience.hpp"

namespace gpuwarden::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class RunLasting : public Program {
 protected:
  ~RunLasting() override {
    if (!fleet_.empty()) run({"sim", "stop", fleet_});
  }
  /// A simulated node of its own, whose GPUs can be harmed.
  void start_fleet(const std::string& preset) {
    ASSERT_EQ(run({"sim", "start", "lab", "--fleet", preset}).exit_code, 0);
    fleet_ = environment_["GPUWARDEN_SIMULATE"] = "lab";
    environment_["GPUWARDEN"] = GPUWARDEN_PROGRAM;
    environment_["DIR"] = dir_.path().string();
  }
  Completed shell(const std::string& script) const {
    auto done = run_patiently({.argv = {"sh", "-c", script}, .environment = environment_});
    EXPECT_TRUE(done.has_value());
    return done.value_or(Completed{});
  }
  /// A job that saves and ends when it is sent SIGUSR1, by the options that `signal_after` says have it sent after so
  /// many seconds. A shell that a busy machine starts late is killed by the signal: then with more time.
  template <class Options>
  Completed saves(Options signal_after) {
    Completed done;
    for (const int seconds : {1, 8, 30}) {
      std::vector<std::string> words{"run", "--no-report"};
      std::ranges::move(signal_after(seconds), std::back_inserter(words));
      for (const char* word : {"--", "sh", "-c", "trap 'echo saved; exit 0' USR1; while :; do sleep 0.05; done"})
        words.emplace_back(word);
      done = run(words);
      if (done.exit_code != 128 + SIGUSR1) break;
    }
    return done;
  }
  std::string shown(const std::string& name) const { return read_file(dir_ / name).value_or("(none)"); }

  std::string fleet_;
};

// Rank 0 notes each start down. In the first try it takes its GPU off the bus and fails.
constexpr const char* kLosesOne =
    "[ $RANK = 0 ] || exec sleep 60; echo $WORLD_SIZE $GPUWARDEN_RESTART_COUNT $TORCHELASTIC_RESTART_COUNT "
    ">>$DIR/tries;"
    "if [ $GPUWARDEN_RESTART_COUNT = 0 ]; then sleep 0.5; $GPUWARDEN sim fault lab --gpu 0 xid=79; sleep 1; exit 9; "
    "fi;";

TEST_F(RunLasting, AnElasticJobGoesOnWithWhatIsLeft) {
  start_fleet("h100x8");
  const auto done =
      run({"run", "-n", "6:8", "--nproc-per-node", "gpu", "--grace", "1s", "--sample-period", "200ms", "--report",
           (dir_ / "r.json").string(), "--", "sh", "-c", std::string(kLosesOne) + "kill -TERM 0; exit 0"});
  EXPECT_EQ(shown("tries"), "8 0 0\n7 1 0\n") << done.standard_error;
  EXPECT_THAT(done.standard_error, HasSubstr("starting again, on what is left"));
  const auto json = nlohmann::json::parse(shown("r.json"), nullptr, false);
  ASSERT_EQ(json["attempts"].size(), 2U) << "the second one ended with its ranks' signal";
  EXPECT_EQ(json["attempts"][0]["counts"], false);
  EXPECT_EQ(json["attempts"][0]["gpus_at_fault"].size(), 1U);
  EXPECT_EQ(json["gpus"].size(), 7U);
}

TEST_F(RunLasting, ItGrowsAgainAtTheNextCheckpointWhenTheGpuIsWell) {
  start_fleet("h100x8");
  const std::string grows = std::string(kLosesOne) +
                            "[ $WORLD_SIZE = 8 ] && { touch $DIR/finished; exit 0; };"
                            "$GPUWARDEN sim clear lab --gpu 0; i=0; while :; do i=$((i+1));"
                            " echo $i >$GPUWARDEN_CHECKPOINT; sleep 6; done";
  const std::string ends =
      "while [ ! -e $DIR/finished ]; do [ $RANK = 0 ] && break; sleep 0.1; done;"
      "[ -e $DIR/finished ] && exit 0;";
  const auto done = run({"run", "-n", "6:8", "--nproc-per-node", "gpu", "--grace", "1s", "--sample-period", "200ms",
                         "--probation", "1s", "--checkpoint", (dir_ / "state").string(), "--report",
                         (dir_ / "r.json").string(), "--", "sh", "-c", ends + grows});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_EQ(shown("tries"), "8 0 0\n7 1 0\n8 2 0\n") << done.standard_error;
  EXPECT_THAT(done.standard_error, HasSubstr("starting again with 8 instead of 7"));
  EXPECT_EQ(nlohmann::json::parse(shown("r.json"), nullptr, false)["regroups"], 1);
}

TEST_F(RunLasting, BelowTheLeastItEndsAsTheFailureDid) {
  start_fleet("rtx4090x2");
  const auto done = run({"run", "-n", "1:2", "--num-gpus", "2", "--", "true"});
  EXPECT_EQ(done.exit_code, 2) << "given twice";
  const auto ended = run({"run", "--nproc-per-node", "2:2", "--max-restarts", "1", "--grace", "1s", "--sample-period",
                          "200ms", "--", "sh", "-c", std::string(kLosesOne) + "exit 0"});
  EXPECT_EQ(ended.exit_code, 9);
  EXPECT_THAT(ended.standard_error, HasSubstr("it could not be started again: only 1 of the 2 requested GPUs"));
}

TEST_F(RunLasting, WhenAllGpusFailItGoesOnOnTheCpuWhereThatIsWanted) {
  start_fleet("t4x1");
  const std::string job =
      "echo \"$CUDA_VISIBLE_DEVICES\" >>$DIR/seen; [ -z \"$CUDA_VISIBLE_DEVICES\" ] && exit 0; sleep 0.5;"
      "$GPUWARDEN sim fault lab --gpu 0 xid=79; sleep 1; exit 9";
  EXPECT_EQ(run({"run", "--", "sh", "-c", job}).exit_code, 9);
  ASSERT_EQ(run({"sim", "clear", "lab", "--gpu", "0"}).exit_code, 0);
  EXPECT_TRUE(eventually(kSoon, [&] { return run({"select", "-n", "1"}).exit_code == 0; })) << "its use fades away";
  const auto done = run({"run", "--cpu-fallback", "--", "sh", "-c", job});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_error, HasSubstr("going on on the CPU"));
  EXPECT_THAT(shown("seen"), ::testing::EndsWith("\n\n"));
}

TEST_F(RunLasting, AJobThatDoesNotNoticeThatItsGpusAreGoneIsEnded) {
  start_fleet("t4x1");
  const auto done = run(
      {"run", "--grace", "1s", "--", "sh", "-c", "sleep 0.5; $GPUWARDEN sim fault lab --gpu 0 lost; exec sleep 100"});
  EXPECT_EQ(done.exit_code, 143);
  EXPECT_THAT(done.standard_error, HasSubstr("GPU 0 is lost, and the job did not end by itself"));
}

TEST_F(RunLasting, NodesAgreeOnTheirRestarts) {
  start_fleet("h100x8");
  const auto node = [](int number) {
    return "$GPUWARDEN run -q --nnodes 2 --node-rank " + std::to_string(number) + " --rdzv-id nodes-" +
           std::to_string(::getpid()) + " --max-restarts 2 --restart-delay 10ms --grace 1s --nproc-per-node " +
           std::to_string(number + 1) +
           " -- sh -c 'echo $RANK of $WORLD_SIZE, try $GPUWARDEN_RESTART_COUNT >>$DIR/ranks;"
           " [ $GPUWARDEN_RESTART_COUNT = 1 ] && exit 0; [ $RANK = 2 ] || exec sleep 60; sleep 0.5; exit 7'";
  };
  const auto done = shell("(" + node(0) + ") & first=$!; " + node(1) + "; code=$?; wait $first && exit $code");
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  const std::string ranks = shown("ranks");
  for (const char* line : {"0 of 3, try 0\n", "1 of 3, try 0\n", "2 of 3, try 0\n", "0 of 3, try 1\n",
                           "1 of 3, try 1\n", "2 of 3, try 1\n"})
    EXPECT_THAT(ranks, HasSubstr(line));
}

TEST_F(RunLasting, WhatNoRestartHealsEndsAllNodes) {
  start_fleet("h100x8");
  const auto node = [](int number) {
    return "$GPUWARDEN run --no-report --nnodes 2 --node-rank " + std::to_string(number) + " --rdzv-id ends-" +
           std::to_string(::getpid()) +
           " --max-restarts 2 --grace 1s -- sh -c '[ $RANK = 0 ] && exec sleep 60; sleep 0.5;"
           " echo \"TypeError: x\" >&2; exit 3'";
  };
  const auto done = shell(node(0) + " & first=$!; " + node(1) + "; other=$?; wait $first; echo $? $other >$DIR/codes");
  EXPECT_EQ(shown("codes"), "3 3\n") << done.standard_error;
  EXPECT_THAT(done.standard_error, HasSubstr("the job ends on all nodes: node 1: TypeError"));
}

TEST_F(RunLasting, AnElasticNumberOfNodesStartsWithThoseThatCame) {
  start_fleet("h100x8");
  const auto done = shell("$GPUWARDEN run -q --nnodes 1:3 --node-rank 0 --rdzv-id one-" + std::to_string(::getpid()) +
                          " --nproc-per-node 2 -- sh -c 'echo $RANK of $WORLD_SIZE in $GROUP_WORLD_SIZE'");
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output, AllOf(HasSubstr("0 of 2 in 1"), HasSubstr("1 of 2 in 1")));
}

TEST_F(RunLasting, TheTimeLimitEndsAJobAfterASignalThatLetsItSave) {
  environment_["GPUWARDEN_SIMULATE"] = "h100x8";
  EXPECT_EQ(run({"run", "-q", "--time-limit", "1s", "--max-restarts", "5", "--", "sleep", "100"}).exit_code, 124);
  EXPECT_EQ(run({"run", "-q", "--time-limit", "00:00:01", "--", "sleep", "100"}).exit_code, 124) << "as Slurm has it";
  for (const char* later : {"30:00", "2:00:00", "1-12:00:00"})
    EXPECT_EQ(run({"run", "-q", "--time-limit", later, "--", "true"}).exit_code, 0) << later;
  const auto saved = saves([&](int seconds) {
    return std::vector<std::string>{"--time-limit", "60s", "--signal", fmt::format("SIGUSR1@{}", 60 - seconds)};
  });
  EXPECT_EQ(saved.exit_code, 0) << saved.standard_error;
  EXPECT_EQ(saved.standard_output, "saved\n");
  EXPECT_THAT(saved.standard_error, HasSubstr("the ranks were sent SIGUSR1"));
  const auto slurm = saves([&](int seconds) {
    environment_["SLURM_JOB_END_TIME"] = std::to_string(::time(nullptr) + 60 + seconds);
    return std::vector<std::string>{"--signal", "USR1@60"};
  });
  EXPECT_EQ(slurm.standard_output, "saved\n") << slurm.standard_error;
}

TEST_F(RunLasting, WhatCannotBeMeantIsRefused) {
  environment_["GPUWARDEN_SIMULATE"] = "h100x8";
  expect_error({"run", "--signal", "USR1@60", "--", "true"}, 2, "--signal requires --time-limit");
  expect_error({"run", "--signal", "NOPE", "--time-limit", "1h", "--", "true"}, 2, "'NOPE' is not a signal");
  expect_error({"run", "--signal", "USR1@2h", "--time-limit", "1h", "--", "true"}, 2, "before the job begins");
  expect_error({"run", "--time-limit", "2", "--", "true"}, 2, "--time-limit: 2 has no unit");
  expect_error({"run", "--time-limit", "1:2:3:4", "--", "true"}, 2, "--time-limit: '1:2:3:4' is not a time");
  expect_error({"run", "--time-limit", "0:00", "--", "true"}, 2, "--time-limit must be greater than 0");
  expect_error({"run", "--checkpoint", "x", "--", "true"}, 2, "--checkpoint requires a range");
  expect_error({"run", "--priority", "3", "--", "true"}, 2, "--priority requires --wait");
  expect_error({"run", "--priority", "x", "--wait", "--", "true"}, 2, "not a whole number");
  expect_error({"run", "-n", "4:2", "--", "true"}, 2, "'4:2' is not a range");
  expect_error({"run", "-n", "2:4", "--nproc-per-node", "1:4", "--", "true"}, 2, "different ranges");
  expect_error({"run", "-n", "2:4", "--gpu-ids", "0,1", "--", "true"}, 2, "cannot be used together");
  expect_error({"run", "-n", "2:4", "--model", "llama-3.1-8b", "--", "true"}, 2, "cannot be used together");
  expect_error({"run", "--nnodes", "3:2", "--", "true"}, 2, "'3:2' is not a range");
}

TEST_F(RunLasting, ARangeTakesWhatThereIs) {
  start_fleet("h100x8");
  const auto done = shell(
      "$GPUWARDEN run -q -n 6 -- python3 -c 'import subprocess\n"  // which inherits no locks
      "subprocess.call([\"sh\", \"-c\", \"unset CUDA_VISIBLE_DEVICES; $GPUWARDEN select -n 1:4; $GPUWARDEN select -n "
      "3:4\"])'");
  EXPECT_EQ(std::ranges::count(done.standard_output, ','), 1) << "two are left: " << done.standard_output;
  EXPECT_THAT(done.standard_error, HasSubstr("only 2 of the 3 requested GPUs are available"));
}

TEST_F(RunLasting, WithLogsThePostMortemIsKeptBesideThem) {
  environment_["GPUWARDEN_SIMULATE"] = "h100x8";
  const std::string logs = (dir_ / "logs").string();
  EXPECT_EQ(run({"run", "-q", "--log-dir", logs, "--sample-period", "50ms", "--", "sh", "-c",
                 "sleep 1; echo 'RuntimeError: x' >&2; exit 4"})
                .exit_code,
            4);
  const auto json = nlohmann::json::parse(shown("logs/post-mortem.json"), nullptr, false);
  EXPECT_EQ(json["exit_code"], 4);
  ASSERT_FALSE(json["post_mortem"]["telemetry"].empty());
  EXPECT_THAT(json["post_mortem"]["telemetry"][0]["state"], ::testing::AnyOf("available", "busy"));
  const auto report = run({"report", logs + "/post-mortem.json"});
  EXPECT_EQ(report.exit_code, 0) << report.standard_error;
  EXPECT_THAT(report.standard_output, HasSubstr("RuntimeError: x"));
  EXPECT_EQ(run({"run", "-q", "--log-dir", logs + "2", "--", "true"}).exit_code, 0);
  EXPECT_EQ(shown("logs2/post-mortem.json"), "(none)") << "it did not fail";
}

TEST_F(RunLasting, AFullDiskOfTheLogsEndsTheJobInOrder) {
  environment_["GPUWARDEN_SIMULATE"] = "h100x8";
  environment_["GPUWARDEN"] = GPUWARDEN_PROGRAM;
  environment_["DIR"] = (dir_ / "disk").string();
  std::filesystem::create_directory(dir_ / "disk");
  const auto done = shell(
      "exec unshare -m sh -c 'mount -t tmpfs -o size=24m none $DIR || exit 99; $GPUWARDEN run --log-dir $DIR/logs -- "
      "sh -c \"trap \\\"echo saved; exit 0\\\" TERM; head -c 20000000 /dev/zero >$DIR/big; while :; do sleep 0.1; "
      "done\"'");
  if (done.exit_code == 99 || done.standard_error.contains("unshare")) GTEST_SKIP() << "mounting is not permitted here";
  EXPECT_EQ(done.exit_code, 1) << done.standard_error;
  EXPECT_THAT(done.standard_output, HasSubstr("saved"));
  EXPECT_THAT(done.standard_error, HasSubstr("the disk of the logs in"));
}

TEST_F(RunLasting, AGpuThatFailsInTheMiddleOfAJobIsNeverUsedByItAgain) {
  start_fleet("h100x8");
  // Each try notes its GPUs down; the first loses its own in mid-run, two more fail for other reasons, the last ends.
  // When the loss has been seen, the GPU is well again: it is kept out by what the job knows of it, for a minute.
  const auto done =
      run({"run", "-n", "2", "--max-restarts", "5", "--restart-delay", "10ms", "--sample-period", "100ms", "--report",
           (dir_ / "r.json").string(), "--status", (dir_ / "status").string(), "--", "sh", "-c",
           "echo $CUDA_VISIBLE_DEVICES >>$DIR/tries; case $GPUWARDEN_RESTART_COUNT in 0) "
           "until [ -e $DIR/status ]; do sleep 0.1; done; $GPUWARDEN sim fault lab --gpu 0 xid=79; "
           "until grep -q '\"usable\":false' $DIR/status; do sleep 0.1; done; "
           "$GPUWARDEN sim clear lab --gpu 0; exit 9 ;; 1|2) exit 4 ;; esac; exit 0"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  const std::string text = shown("tries");
  std::vector<std::string> tries;
  for (const auto line : split(text, '\n')) {
    if (!line.empty()) tries.emplace_back(line);
  }
  ASSERT_EQ(tries.size(), 4U) << text;
  const auto json = nlohmann::json::parse(shown("r.json"), nullptr, false);
  ASSERT_EQ(json["attempts"].size(), 3U);
  ASSERT_EQ(json["attempts"][0]["gpus_at_fault"].size(), 1U);
  const std::string sick = json["attempts"][0]["gpus_at_fault"][0];
  EXPECT_TRUE(tries[0].contains(sick));
  for (std::size_t i = 1; i < tries.size(); ++i) {
    EXPECT_FALSE(tries[i].contains(sick)) << "try " << i << " is on the GPU that failed";
    EXPECT_EQ(split(tries[i], ',').size(), 2U) << "on two GPUs all the same";
  }
  EXPECT_EQ(json["gpus"].size(), 2U);
  for (const auto& gpu : json["gpus"]) EXPECT_NE(gpu["uuid"], sick);
}

}  // namespace
}  // namespace gpuwarden::testing
