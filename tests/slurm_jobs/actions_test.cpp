// SPDX-License-Identifier: Apache-2.0
// What `gpuwarden slurm` tells of a cluster, and what is refused.
#include "slurm_jobs/cluster.hpp"

namespace gpuwarden::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(SlurmJobs, NodesQueueAndWhyTellWhatGoesOn) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  ASSERT_NO_FATAL_FAILURE(start({.count = 2}));
  const std::vector<std::string> long_job{"run",
                                          "--slurm",
                                          "--no-follow",
                                          "-q",
                                          "--nodes",
                                          "2",
                                          "--gpus-per-node",
                                          "5",
                                          "--gpu-type",
                                          "h100",
                                          "--cpus-per-task",
                                          "1",
                                          "--mem",
                                          "100M",
                                          "--log-dir",
                                          logs(),
                                          "--job-name",
                                          "first",
                                          "--",
                                          "sleep",
                                          "600"};
  const auto first = run(long_job);
  EXPECT_EQ(first.standard_output, "1\n") << first.standard_error;
  ASSERT_TRUE(eventually(kProgramDeadline, [&] { return json({"slurm", "queue"})["jobs"][0]["state"] == "RUNNING"; }));
  EXPECT_EQ(run(long_job).standard_output, "2\n");
  const auto nodes = json({"slurm", "nodes"});
  EXPECT_EQ(nodes["types"][0]["type"], "h100");
  EXPECT_EQ(nodes["types"][0]["total"], 16);
  EXPECT_EQ(nodes["types"][0]["free"], 6);
  EXPECT_THAT(run({"slurm", "nodes"}).standard_output, HasSubstr("h100: 6 of 16 free, at most 3 on one node"));
  ASSERT_TRUE(eventually(kProgramDeadline, [&] { return json({"slurm", "why", "2"})["reason"] == "Resources"; }));
  const auto why = run({"slurm", "why", "2"});
  EXPECT_EQ(why.exit_code, 0);
  EXPECT_THAT(why.standard_output,
              AllOf(HasSubstr("job 2 (first) waits"), HasSubstr("waits until enough nodes and GPUs are free"),
                    HasSubstr("it asks for 2 nodes with 5 h100 free each; partition gpu has 0 such nodes now"),
                    HasSubstr("submitted 20")));
  EXPECT_THAT(run({"slurm", "queue"}).standard_output,
              AllOf(HasSubstr("first"), HasSubstr("node[0-1]"), HasSubstr("2 x 5 h100")));
}

TEST_F(SlurmJobs, AScriptIsPrintedAndSlurmTakesIt) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  ASSERT_NO_FATAL_FAILURE(start({.count = 2, .partition = "DefaultTime=10:00 MaxTime=1:00:00"}));
  const std::vector<std::string> words{"--nodes", "2",  "--gpus-per-node", "8",       "--log-dir",
                                       logs(),    "--", "python",          "train.py"};
  std::vector<std::string> script{"slurm", "script"};
  script.insert(script.end(), words.begin(), words.end());
  std::vector<std::string> dry{"run", "--slurm", "--dry-run"};
  dry.insert(dry.end(), words.begin(), words.end());
  const auto printed = run(script);
  EXPECT_EQ(printed.exit_code, 0) << printed.standard_error;
  EXPECT_EQ(run(dry).standard_output, printed.standard_output);
  EXPECT_THAT(printed.standard_output,
              AllOf(HasSubstr("#SBATCH --time=0:10:00\n"), HasSubstr("#SBATCH --gpus-per-node=8\n"),
                    HasSubstr("#SBATCH --cpus-per-task=128\n")));
  EXPECT_THAT(printed.standard_error, HasSubstr("the default of partition gpu"));
  const auto ranks = run({"slurm", "script", "--nproc-per-node", "4", "--log-dir", logs(), "--", "python", "train.py"});
  EXPECT_THAT(ranks.standard_output, HasSubstr("#SBATCH --gpus-per-node=4\n")) << "a GPU for each rank";
  const auto taken = cluster_->run({"sbatch", "--test-only", file("job.sh", printed.standard_output)});
  EXPECT_EQ(taken.exit_code, 0) << taken.standard_error;
  EXPECT_EQ(run({"slurm", "queue"}).standard_output, "no jobs\n") << "nothing was submitted";
}

TEST_F(SlurmJobs, AShellGetsItsGpus) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  ASSERT_NO_FATAL_FAILURE(start({.count = 1}));
  const auto done = run({"slurm", "shell", "--gpus-per-node", "2", "--cpus-per-task", "1", "--mem", "100M", "--", "sh",
                         "-c", "echo on $SLURMD_NODENAME: $CUDA_VISIBLE_DEVICES; exit 4"});
  EXPECT_EQ(done.exit_code, 4) << done.standard_error;
  EXPECT_EQ(done.standard_output, "on node0: 0,1\n");
}

TEST_F(SlurmJobs, WhatCannotBeIsRefusedBeforeAnythingIsSubmitted) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  ASSERT_NO_FATAL_FAILURE(start({.count = 2, .partition = "MaxTime=1:00:00"}));
  expect_error({"run", "--slurm", "--gpus-per-node", "9", "--", "true"}, 2, "no partition has 1 node with 9 GPUs each");
  expect_error({"run", "--slurm", "--nodes", "3", "--", "true"}, 2, "no partition has 3 nodes with 1 GPU each");
  expect_error({"run", "--slurm", "--gpu-type", "b200", "--", "true"}, 2, "no GPUs of type 'b200'");
  expect_error({"run", "--slurm", "--time", "2h", "--", "true"}, 2, "is more than partition gpu allows");
  expect_error({"run", "--slurm", "--partition", "x", "--", "true"}, 2, "there is no partition 'x'");
  expect_error({"run", "--slurm", "--gpus-per-node", "2", "-n", "3", "--", "true"}, 2, "contradict each other");
  expect_error({"run", "--slurm", "--gpus-per-node", "0", "--nproc-per-node", "gpu", "--", "true"}, 2,
               "no GPUs are asked for");
  expect_error({"run", "--slurm", "--nnodes", "2", "--", "true"}, 2, "--slurm and --nnodes mean nothing together");
  expect_error({"run", "--slurm", "--gpu-ids", "0", "--", "true"}, 2, "Slurm chooses the GPUs");
  expect_error({"run", "--slurm", "--log-dir", "/proc/no", "--", "true"}, 2, "cannot write logs into /proc/no");
  expect_error({"run", "--slurm", "--mem", "3TB", "--log-dir", logs(), "-q", "--", "true"}, 1, "sbatch: ");
  expect_error({"slurm", "why", "77"}, 2, "Slurm knows no job 77");
  expect_error({"slurm", "nodes", "--partition", "x"}, 2, "there is no partition 'x'");
  EXPECT_EQ(run({"slurm", "queue"}).standard_output, "no jobs\n");
}

TEST_F(SlurmJobs, ALogThatTheNodeCannotWriteIsSaid) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  ASSERT_NO_FATAL_FAILURE(start({.count = 1}));
  ASSERT_EQ(cluster_->run({"scontrol", "update", "PartitionName=gpu", "State=DOWN"}).exit_code, 0);
  Daemon launcher(
      {GPUWARDEN_PROGRAM, "run", "--slurm", "--cpus-per-task", "1", "--mem", "100M", "--log-dir", logs(), "--", "true"},
      environment_, dir_ / "launcher.log");
  ASSERT_TRUE(eventually(kProgramDeadline,
                         [&] { return read_file(dir_ / "launcher.log").value_or("").contains("submitted job"); }));
  // As a file system that the nodes do not share would have it.
  std::filesystem::remove_all(logs());
  ASSERT_EQ(cluster_->run({"scontrol", "update", "PartitionName=gpu", "State=UP"}).exit_code, 0);
  EXPECT_TRUE(eventually(kProgramDeadline, [&] { return !launcher.runs(); }));
  EXPECT_THAT(content(dir_ / "launcher.log"),
              AllOf(HasSubstr("has left no log"), HasSubstr("--log-dir names a folder")));
}

TEST_F(SlurmJobs, TheDoctorNamesTheNodeThatIsNotAsTheOthers) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  file("node1/fleet.yaml", "name: other\ndriver: 535.54.03\ngpus:\n  - {model: NVIDIA H100 80GB HBM3, count: 8}\n");
  ASSERT_NO_FATAL_FAILURE(start({.count = 3}));
  const auto report = json({"slurm", "doctor"});
  ASSERT_EQ(report["nodes"].size(), 3U) << report.dump(2);
  EXPECT_EQ(report["not_looked_at"].size(), 0U);
  bool named = false;
  for (const auto& one : report["outliers"])
    named = named || (one["machine"] == "node1" && one["what"] == "driver" && one["value"] == "535.54.03");
  EXPECT_TRUE(named) << report["outliers"].dump(2);
  const auto text = run({"slurm", "doctor", "--partition", "gpu"});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.standard_output,
              AllOf(HasSubstr("[simulated] node0: 8 GPUs, driver 550.54.15"), HasSubstr("not as the others:")));
}

class WithoutSlurm : public Program {};

TEST_F(WithoutSlurm, ItsAbsenceIsSaid) {
  environment_["PATH"] = (dir_ / "nothing").string();
  expect_error({"run", "--slurm", "--", "true"}, 3, "cannot start scontrol");
  expect_error({"slurm", "nodes"}, 3, "cannot start scontrol");
  expect_error({"slurm", "queue"}, 3, "cannot start squeue");
  expect_error({"slurm"}, 2, "slurm needs an action");
  expect_error({"slurm", "node"}, 2, "unknown action 'node'");
  expect_error({"slurm", "why"}, 2, "needs the number of a job");
  expect_error({"slurm", "queue", "--gpu-type", "h100"}, 2, "takes no --gpu-type");
  expect_error({"run", "--nodes", "2", "--", "true"}, 2, "--nodes needs --slurm");
}

}  // namespace
}  // namespace gpuwarden::testing
