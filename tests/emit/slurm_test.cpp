// SPDX-License-Identifier: Apache-2.0
// A real Slurm takes the batch scripts, refuses what it has no room for, and runs them with the GPUs that were asked
// for.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <fstream>

#include "emit/emitted.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "support/slurm_cluster.hpp"

namespace gpuwarden::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Says what it was started with; LATE makes one node wait (200 seconds, or until the test's folder is gone), and FAIL
/// makes one fail.
constexpr const char* kStandInTorchrun = R"(#!/bin/sh
echo "$SLURMD_NODENAME GPUs $CUDA_VISIBLE_DEVICES of $SLURM_GPUS_ON_NODE, $SLURM_CPUS_PER_TASK CPUs: $*" >>"$RECORD"
[ "$SLURMD_NODENAME" != "$FAIL" ] || exit 3
[ "$SLURMD_NODENAME" = "$LATE" ] || exit 0
left=200
while [ $left -gt 0 ] && [ -d "${RECORD%/*}" ]; do sleep 1; left=$((left - 1)); done
[ $left -gt 0 ] || echo "$SLURMD_NODENAME has waited" >>"$RECORD"
)";
constexpr std::chrono::seconds kStart(240);  ///< for jobs to begin, on a slow machine

class Slurm : public Emitted {
 protected:
  static bool is_there() { return SlurmCluster::is_installed(); }

  void start(const SlurmNodes& nodes = {}) {
    auto started = SlurmCluster::start(nodes);
    ASSERT_TRUE(started) << started.error().message << started.error().hint;
    cluster_ = std::move(*started);
    stand_in("torchrun", kStandInTorchrun);
    for (const char* name : {"FAIL", "LATE"}) cluster_->set(name, "-");
    cluster_->set("RECORD", record().string());
    for (const char* name : {"PATH", "PET_REDIRECTS", "PET_TEE"}) cluster_->set(name, environment_[name]);
  }

  std::filesystem::path record() const { return dir_ / "record"; }
  std::string script(const std::string& text) const { return file("job.sh", text); }
  Completed test_only(const std::string& text) const { return cluster_->run({"sbatch", "--test-only", script(text)}); }
  SlurmJob run_job(const std::string& text) const {
    const auto id = cluster_->submit(script(text));
    EXPECT_TRUE(id) << id.error().message;
    return id ? cluster_->wait(*id) : SlurmJob{};
  }

  std::unique_ptr<SlurmCluster> cluster_;
};

/// The script with one option's value replaced.
std::string with(std::string text, const std::string& option, const std::string& value) {
  const auto begin = text.find("#SBATCH --" + option + "=");
  EXPECT_NE(begin, std::string::npos) << option;
  if (begin == std::string::npos) return text;
  return text.replace(begin, text.find('\n', begin) - begin, "#SBATCH --" + option + "=" + value);
}

struct Accepted {
  std::vector<std::string> words;
  std::string where;  ///< as sbatch --test-only says it
};

TEST_F(Slurm, AcceptsWhatIsEmitted) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  ASSERT_NO_FATAL_FAILURE(start());
  const Accepted cases[] = {
      {{"gpt2-xl", "--gpus", "h100"}, "using 4 processors on nodes node0 "},
      {{"llama-3.1-8b", "--gpus", "8xh100"}, "using 32 processors on nodes node0 "},
      {{"llama-3.1-8b", "--gpus", "16xh100"}, "using 64 processors on nodes node[0-1] "},
      {{"llama-3.1-8b", "--gpus", "8xh100", "--gpus-per-node", "4"}, "using 32 processors on nodes node[0-1] "},
      {{"llama-3.1-8b", "--gpus", "8xh100", "--cpus", "96", "--micro-batch", "2", "--global-batch", "64"},
       "using 96 processors on nodes node0 "},
      {{"llama-3.1-8b", "--gpus", "4xa100", "--strategy", "zero3", "--offload", "all"}, "on nodes node0 "},
      {{"llama-3.1-8b", "--gpus", "2xh100", "--task", "lora", "--program", "train it.py"}, "on nodes node0 "},
      {{"llama-3.1-8b", "--gpus", "16xh100", "--tensor-parallel", "8", "--strategy", "fsdp2"},
       "using 64 processors on nodes node[0-1] "},
      {{"--params", "7B", "--gpus", "8xh100", "--precision", "mixed", "--recompute", "selective"}, "on nodes node0 "},
  };
  for (const Accepted& accepted : cases) {
    const std::string text = emitted("slurm", accepted.words);
    const Completed done = test_only(text);
    EXPECT_EQ(done.exit_code, 0) << text << done.standard_error;
    EXPECT_THAT(done.standard_error,
                AllOf(ContainsRegex("^sbatch: Job [0-9]+ to start at "), HasSubstr(accepted.where)))
        << text;
  }
}

TEST_F(Slurm, RefusesWhatNoNodeHas) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  ASSERT_NO_FATAL_FAILURE(start());
  const std::string good =
      emitted("slurm", {"llama-3.1-8b", "--gpus", "8xh100", "--strategy", "zero3", "--offload", "all"});
  ASSERT_EQ(test_only(good).exit_code, 0);
  for (const std::string& bad : {with(good, "gres", "gpu:9"), with(good, "gres", "gpu:a100:8"),
                                 with(good, "nodes", "3"), with(good, "cpus-per-task", "129"),
                                 with(good, "mem", "3000000M"), with(good, "nodes", "many"), "no script\n" + good}) {
    EXPECT_NE(test_only(bad).exit_code, 0) << bad;
  }
}

TEST_F(Slurm, StartsTorchrunWithTheGpusOfTheJob) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  ASSERT_NO_FATAL_FAILURE(start());
  const std::string text =
      emitted("slurm", {"llama-3.1-8b", "--task", "lora", "--gpus", "2xh100", "--program", "train it.py"});
  const SlurmJob job = run_job(text);
  EXPECT_EQ(job.state, "COMPLETED");
  EXPECT_EQ(job.exit_code, 0);
  EXPECT_THAT(sorted_lines(record()),
              ElementsAre("node0 GPUs 0,1 of 2, 8 CPUs: --rdzv_backend=c10d --rdzv_endpoint=localhost:0 "
                          "--nproc_per_node=2 train it.py"));
  const auto logs = list_directory(cluster_->folder());
  ASSERT_EQ(logs.size(), 1U);
  EXPECT_THAT(logs[0].filename().string(), ContainsRegex("^meta-llama-Llama-3.1-8B-[0-9]+\\.log$"));
  EXPECT_EQ(read_file(logs[0]).value(), "");
}

TEST_F(Slurm, NodesMeetAtTheFirst) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  ASSERT_NO_FATAL_FAILURE(start());
  const auto id = cluster_->submit(script(emitted("slurm", {"llama-3.1-8b", "--gpus", "16xh100"})));
  ASSERT_TRUE(id) << id.error().message;
  EXPECT_EQ(cluster_->wait(*id).state, "COMPLETED");
  const std::string words = fmt::format(
      "GPUs 0,1,2,3,4,5,6,7 of 8, 32 CPUs: --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d "
      "--rdzv_endpoint=127.0.0.1:{} train.py",
      20'000 + std::stoi(*id) % 10'000);
  EXPECT_THAT(sorted_lines(record()), ElementsAre("node0 " + words, "node1 " + words));
}

TEST_F(Slurm, AFailureOnOneNodeEndsTheOther) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  ASSERT_NO_FATAL_FAILURE(start());
  cluster_->set("LATE", "node0");
  cluster_->set("FAIL", "node1");
  const SlurmJob job = run_job(emitted("slurm", {"llama-3.1-8b", "--gpus", "16xh100"}));
  EXPECT_EQ(job.state, "FAILED");
  EXPECT_NE(job.exit_code, 0);
  const auto lines = sorted_lines(record());
  EXPECT_LE(lines.size(), 2U) << "node0 waited to the end: " << lines.back();
}

TEST_F(Slurm, TwoJobsOnANodeGetDifferentGpus) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  ASSERT_NO_FATAL_FAILURE(start({.count = 1}));
  cluster_->set("LATE", "node0");
  const std::string text = emitted("slurm", {"gpt2-xl", "--gpus", "4xh100"});
  const auto first = cluster_->submit(script(text));
  const auto second = cluster_->submit(script(text));
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(eventually(kStart, [&] { return sorted_lines(record()).size() == 2; }));
  const auto lines = sorted_lines(record());
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_TRUE(lines[0].starts_with("node0 GPUs 0,1,2,3 of 4")) << lines[0];
  EXPECT_TRUE(lines[1].starts_with("node0 GPUs 4,5,6,7 of 4")) << lines[1];
}

TEST_F(Slurm, TorchrunOfPyTorchStartsItsRanks) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  GPUWARDEN_NEEDS(has_torch(), "PyTorch");
  ASSERT_NO_FATAL_FAILURE(start());
  std::filesystem::remove(dir_ / "bin/torchrun");
  const std::string program = file("rank.py", kTorchProgram);
  std::string text = emitted("slurm", {"llama-3.1-8b", "--task", "lora", "--gpus", "2xh100", "--program", program});
  const auto end = text.rfind('\n');
  text.insert(end, " " + record().string());
  EXPECT_EQ(run_job(text).state, "COMPLETED");
  EXPECT_THAT(sorted_lines(record()), ElementsAre("rank 0 of 2, local 0, sum 3, GPUs 0,1, words -",
                                                  "rank 1 of 2, local 1, sum 3, GPUs 0,1, words -"));
}

TEST_F(Slurm, TheClusterLeavesNothingBehind) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  ASSERT_NO_FATAL_FAILURE(start());
  cluster_->set("LATE", "node0");
  const auto id = cluster_->submit(script(emitted("slurm", {"gpt2-xl", "--gpus", "h100"})));
  ASSERT_TRUE(id);
  ASSERT_TRUE(eventually(kStart, [&] { return sorted_lines(record()).size() == 1; }));
  const std::vector<pid_t> servers = cluster_->servers();
  const std::filesystem::path folder = cluster_->folder().parent_path();
  EXPECT_EQ(servers.size(), 4U);
  EXPECT_EQ(cluster_->stop(), 0U) << "jobs outlive the cluster";
  EXPECT_EQ(cluster_->stop(), 0U) << "nothing is left to stop";
  cluster_.reset();
  for (const pid_t pid : servers) EXPECT_NE(::kill(pid, 0), 0) << pid;
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(Slurm, WhatOutlivesTheClusterIsCounted) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  ASSERT_NO_FATAL_FAILURE(start({.count = 1}));
  const auto started = cluster_->run({"sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo $!"}).standard_output;
  const auto pid = parse_integer(trim(started));
  ASSERT_TRUE(pid) << started;
  EXPECT_EQ(cluster_->stop(std::chrono::seconds(2)), 1U);
  if (::kill(static_cast<pid_t>(*pid), SIGKILL) == 0) ADD_FAILURE() << "it was not killed";
}

TEST(SlurmStates, OnlyFinalOnesAreOver) {
  for (const char* state : {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"})
    EXPECT_TRUE(SlurmCluster::is_over(state)) << state;
  for (const char* state : {"", "PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUED"})
    EXPECT_FALSE(SlurmCluster::is_over(state)) << state;
}

TEST_F(Slurm, AClusterThatCannotStartSaysWhy) {
  GPUWARDEN_NEEDS(is_there(), "Slurm");
  const auto broken = SlurmCluster::start({.gpu = "a type of GPU"});
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, ErrorCode::unavailable);
  EXPECT_THAT(broken.error().hint, HasSubstr("slurmctld.log"));
}

}  // namespace
}  // namespace gpuwarden::testing
