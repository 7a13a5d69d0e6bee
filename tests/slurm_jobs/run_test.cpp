// SPDX-License-Identifier: Apache-2.0
// `gpuwarden run --slurm` from the submission to the gathered report.
#include "slurm_jobs/cluster.hpp"

namespace gpuwarden::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(SlurmJobs, TwoNodesRunTwoRanksEach) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  ASSERT_NO_FATAL_FAILURE(start());
  const std::string record = (dir_ / "record").string();
  const auto done =
      slurm_run({"--nodes", "2", "--gpus-per-node", "2", "--gpu-type", "H100", "--nproc-per-node", "gpu", "--report",
                 (dir_ / "report.json").string(), "--", "sh", "-c",
                 "echo \"rank $RANK of $WORLD_SIZE, local $LOCAL_RANK, node $GROUP_RANK, at $MASTER_ADDR\" >>" +
                     record + "; echo said by $RANK"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error << done.standard_output;
  EXPECT_THAT(sorted_lines(record),
              ElementsAre("rank 0 of 4, local 0, node 0, at 127.0.0.1", "rank 1 of 4, local 1, node 0, at 127.0.0.1",
                          "rank 2 of 4, local 0, node 1, at 127.0.0.1", "rank 3 of 4, local 1, node 1, at 127.0.0.1"));
  EXPECT_THAT(done.standard_output, AllOf(HasSubstr("said by 0"), HasSubstr("said by 3"))) << "the log's tail";
  EXPECT_THAT(done.standard_error, AllOf(HasSubstr("submitted job 1"), HasSubstr("has ended well")));
  EXPECT_THAT(content(dir_ / "logs/slurm-1/node0/rank-1.out"), HasSubstr("said by 1"));
  EXPECT_THAT(content(dir_ / "logs/slurm-1/node1/rank-2.out"), HasSubstr("said by 2"));
  const auto report = nlohmann::json::parse(content(dir_ / "report.json"), nullptr, false);
  ASSERT_EQ(report["nodes"].size(), 2U);
  EXPECT_EQ(report["nodes"][1]["node"], "node1");
  EXPECT_EQ(report["nodes"][1]["report"]["gpus"].size(), 2U);
  EXPECT_EQ(report["simulated"], true);
}

TEST_F(SlurmJobs, RanksOfTorchMeetOverGloo) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  GPUWARDEN_NEEDS(has_torch(), "PyTorch");
  ASSERT_NO_FATAL_FAILURE(start());
  const std::string program = file("rank.py", kTorchProgram);
  const std::string record = (dir_ / "record").string();
  const auto done = slurm_run({"--nodes", "2", "--gpus-per-node", "2", "--nproc-per-node", "gpu", "--", kPython,
                               program, record, "a'; echo foo"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error << done.standard_output;
  const auto lines = sorted_lines(record);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_THAT(lines[3], ContainsRegex("^rank 3 of 4, local 1, sum 10, GPUs GPU-.*, words a'; echo foo$"));
}

TEST_F(SlurmJobs, TheExitCodeIsTheJobsAndOneFailureEndsAll) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  ASSERT_NO_FATAL_FAILURE(start());
  // Slurm ends a sleep, and its shell afterwards.
  const auto done =
      slurm_run({"--nodes", "2", "--", "sh", "-c", "[ $RANK = 1 ] && exit 7; sleep 200 && touch " + logs() + "/late"});
  EXPECT_EQ(done.exit_code, 7) << done.standard_error;
  EXPECT_THAT(done.standard_error, AllOf(HasSubstr("has failed"), HasSubstr("exit code 7")));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "logs/late"));
}

TEST_F(SlurmJobs, ANodeWithALostGpuIsDrainedAndTheJobGoesElsewhere) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  file("node0/fleet.yaml",
       "name: sick\ngpus:\n  - {model: NVIDIA H100 80GB HBM3, faults: [xid=79]}\n"
       "  - {model: NVIDIA H100 80GB HBM3, count: 7}\n");
  ASSERT_NO_FATAL_FAILURE(start());
  const auto done = slurm_run({"--gpus-per-node", "2", "--max-restarts", "2", "--drain", "always", "--", "sh", "-c",
                               "echo ran on $SLURMD_NODENAME"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error << done.standard_output;
  EXPECT_THAT(done.standard_output, HasSubstr("ran on node1"));
  EXPECT_THAT(done.standard_error, AllOf(HasSubstr("node node0 is drained (GPU 0:"), HasSubstr("without node0")));
  EXPECT_THAT(node_state("node0"), AllOf(HasSubstr("drained"), HasSubstr("gpuwarden: GPU 0")));
}

TEST_F(SlurmJobs, AGpuThatFailsInMidRunMovesTheJob) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  ASSERT_NO_FATAL_FAILURE(start());
  // The fleet of node0 is one that lasts, so that a fault can be put into it.
  environment_["GPUWARDEN_SIM_DIR"] = (dir_ / "node0/SIM").string();
  std::filesystem::create_directories(dir_ / "node0");
  ASSERT_EQ(run({"sim", "start", "lab", "--fleet", "h100x8"}).exit_code, 0);
  const std::string program = std::string(GPUWARDEN_PROGRAM);
  const std::string script = file("work.sh", "[ $SLURMD_NODENAME = node1 ] && exit 0\nsleep 1\n" + program +
                                                 " sim fault lab --gpu 0 xid=79\nsleep 3\nexit 9\n");
  const auto done = slurm_run({"--gpus-per-node", "1", "--max-restarts", "1", "--simulate", "lab", "--", "sh", script});
  EXPECT_EQ(run({"sim", "stop", "lab"}).exit_code, 0);
  // node1 knows no fleet of this name: where the job went is what the queue says.
  EXPECT_THAT(done.standard_error, AllOf(HasSubstr("submitting it again, without node0"), HasSubstr("job 2 "),
                                         HasSubstr("should be drained; an administrator can: scontrol update")));
  EXPECT_THAT(node_state("node0"), HasSubstr("idle")) << "a simulated GPU's fault drains no node by itself";
}

TEST_F(SlurmJobs, ACancelledJobLeavesNoProcess) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  ASSERT_NO_FATAL_FAILURE(start());
  const std::string record = (dir_ / "pids").string();
  // Two that flee: into another session, and from their environment.
  const std::string program = file("flee.sh", "echo $$ >>" + record + "\n(setsid sh -c 'echo $$ >>" + record +
                                                  "; exec sleep 600' &)\nenv -i sh -c '(sh -c \"echo \\$\\$ >>" +
                                                  record + "; exec sleep 600\" &)'\nsleep 600\n");
  Daemon launcher({GPUWARDEN_PROGRAM, "run", "--slurm", "--nodes", "2", "--cpus-per-task", "1", "--mem", "100M",
                   "--log-dir", logs(), "--", "sh", program},
                  environment_, dir_ / "launcher.log");
  ASSERT_TRUE(eventually(kProgramDeadline, [&] { return sorted_lines(record).size() == 6; }))
      << content(dir_ / "launcher.log");
  EXPECT_EQ(cluster_->run({"scancel", "1"}).exit_code, 0);
  EXPECT_TRUE(eventually(kProgramDeadline, [&] { return !launcher.runs(); })) << content(dir_ / "launcher.log");
  EXPECT_THAT(content(dir_ / "launcher.log"), HasSubstr("was cancelled"));
  for (const std::string& line : sorted_lines(record)) {
    const auto pid = static_cast<pid_t>(parse_integer(line).value_or(0));
    ASSERT_GT(pid, 0);
    EXPECT_TRUE(eventually(kSoon, [&] { return ::kill(pid, 0) != 0; })) << pid << " still runs";
  }
}

TEST_F(SlurmJobs, ATimeLimitIsToldBeforeAndTheJobGoesOnFromItsCheckpoint) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  ASSERT_NO_FATAL_FAILURE(start());
  const std::string program =
      file("steps.sh",
           "[ -e checkpoint ] && echo resumed && exit 0\ntrap 'echo saved; touch checkpoint' USR1\n"
           "echo began\nwhile :; do sleep 0.2; done\n");
  const auto done = slurm_run({"--time", "1", "--signal", "USR1@30", "--max-restarts", "1", "--", "sh", "-c",
                               "cd " + dir_.path().string() + " && exec sh " + program});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error << done.standard_output;
  EXPECT_THAT(done.standard_output, ContainsRegex("began\n(.*\n)*.*saved\n(.*\n)*.*resumed\n"));
  EXPECT_THAT(done.standard_error, HasSubstr("it reached its time limit"));
}

TEST_F(SlurmJobs, ALogFolderMayHaveAnyName) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  ASSERT_NO_FATAL_FAILURE(start({.count = 1}));
  const std::string folder = (dir_ / "a'; echo foo \"$HOME\" 100%j").string();
  const auto done =
      run({"run", "--slurm", "--cpus-per-task", "1", "--mem", "100M", "--log-dir", folder, "--", "echo", "it's"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output, HasSubstr("it's\n"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/slurm-1/node0.json"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/slurm-1.out"));
}

TEST_F(SlurmJobs, CtrlCLeavesTheJobWhichCanBeFollowedAgain) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  ASSERT_NO_FATAL_FAILURE(start({.count = 1}));
  const std::string go = (dir_ / "go").string();
  Daemon launcher({GPUWARDEN_PROGRAM, "run", "--slurm", "--cpus-per-task", "1", "--mem", "100M", "--log-dir", logs(),
                   "--", "sh", "-c", "echo began; while [ ! -e " + go + " ]; do sleep 0.1; done; echo done; exit 5"},
                  environment_, dir_ / "launcher.log");
  ASSERT_TRUE(eventually(kProgramDeadline, [&] { return content(dir_ / "launcher.log").contains("began"); }));
  ::kill(launcher.pid(), SIGTERM);
  EXPECT_TRUE(eventually(kSoon, [&] { return !launcher.runs(); }));
  EXPECT_THAT(content(dir_ / "launcher.log"),
              AllOf(HasSubstr("job 1 goes on"), HasSubstr("gpuwarden slurm follow 1"), HasSubstr("scancel 1")));
  put(go, "");
  const auto done = run({"slurm", "follow", "1"});
  EXPECT_EQ(done.exit_code, 5) << done.standard_error;
  EXPECT_THAT(done.standard_output, HasSubstr("done\n"));
}

TEST_F(SlurmJobs, ASecondCtrlCCancels) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  ASSERT_NO_FATAL_FAILURE(start({.count = 1}));
  Daemon launcher({GPUWARDEN_PROGRAM, "run", "--slurm", "--cpus-per-task", "1", "--mem", "100M", "--log-dir", logs(),
                   "--", "sh", "-c", "echo began; sleep 600"},
                  environment_, dir_ / "launcher.log");
  ASSERT_TRUE(eventually(kProgramDeadline, [&] { return content(dir_ / "launcher.log").contains("began"); }));
  ::kill(launcher.pid(), SIGINT);
  ASSERT_TRUE(eventually(kSoon, [&] { return content(dir_ / "launcher.log").contains("Ctrl-C once more"); }));
  ::kill(launcher.pid(), SIGINT);
  EXPECT_TRUE(eventually(kSoon, [&] { return !launcher.runs(); }));
  EXPECT_THAT(content(dir_ / "launcher.log"), HasSubstr("job 1 is cancelled"));
  EXPECT_EQ(cluster_->wait("1").state, "CANCELLED");
}

}  // namespace
}  // namespace gpuwarden::testing
