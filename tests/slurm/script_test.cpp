// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/slurm/script.hpp"

#include "gpuwarden/base/subprocess.hpp"
#include "support/patience.hpp"

namespace gpuwarden::slurm {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

BatchJob two_nodes() {
  BatchJob job{
      .name = "train", .nodes = 2, .gpus = 4, .gpu_type = "h100", .gpu_option = GpuOption::per_node, .cpus = 32};
  job.time = std::chrono::hours(2);
  job.partition = "gpu";
  job.signal = "USR1@60";
  job.exclude = {"gn3", "gn7"};
  return job;
}

NodeRun run_in(const std::string& folder) {
  return {.program = "/opt/gpuwarden",
          .log_directory = folder,
          .options = {"--nproc-per-node=gpu"},
          .command = {"python", "train.py", "--name", "it's"}};
}

std::string script_of(const BatchJob& job) {
  auto script = sbatch_script(job);
  EXPECT_TRUE(script) << script.error().message;
  return script.value_or("");
}

/// Whether a shell reads it.
void expect_shell(const std::string& script) {
  const auto done = testing::run_patiently({.argv = {"bash", "-n"}, .standard_input = script});
  ASSERT_TRUE(done);
  EXPECT_EQ(done->exit_code, 0) << done->standard_error << script;
}

constexpr const char* kGolden = R"(#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=h100:4
#SBATCH --cpus-per-task=32
#SBATCH --time=2:00:00
#SBATCH --partition=gpu
#SBATCH --signal=USR1@60
#SBATCH --exclude=gn3,gn7
#SBATCH --output=/home/ada/logs/slurm-%j.out
#SBATCH --no-requeue

set -euo pipefail
logs=/home/ada/logs/slurm-$SLURM_JOB_ID
mkdir -p "$logs"
unset ${!PET_@}
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_ADDR=$(scontrol show node "$first" | sed -n 's/.*NodeAddr=\([^ ]*\).*/\1/p') || true
MASTER_ADDR=${MASTER_ADDR:-$first}
MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export MASTER_ADDR MASTER_PORT
for _ in 1 2 3 4 5 6 7 8; do
  (exec 3<>"/dev/tcp/$MASTER_ADDR/$MASTER_PORT") 2>/dev/null || break
  MASTER_PORT=$((20000 + (MASTER_PORT - 20000 + 1237) % 10000))
done
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" --kill-on-bad-exit=1 sh -c 'logs=$1/$SLURMD_NODENAME; shift; exec "$0" run --log-dir "$logs" --report "$logs.json" --status "$logs.status" "$@"' /opt/gpuwarden "$logs" --nnodes 2 --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT" --rdzv-id "slurm-$SLURM_JOB_ID" -n 4 --nproc-per-node=gpu -- python train.py --name 'it'\''s'
)";

TEST(SlurmScript, TwoNodesMeetAndRunGpuwardenOnceEach) {
  const std::string script = script_of(job_of(two_nodes(), run_in("/home/ada/logs")).value());
  EXPECT_EQ(script, kGolden);
  expect_shell(script);
}

TEST(SlurmScript, APortThatIsBusyOnTheFirstNodeIsNotTheMeetingPlace) {
  const std::string script = script_of(job_of(two_nodes(), run_in("/logs")).value());
  const std::size_t begin = script.find("MASTER_PORT=");
  const std::string choose = script.substr(begin, script.find("srun --cpus") - begin);
  // Somebody listens where the job's number leads; a job for whose number nobody does keeps its own port.
  const auto done = testing::run_patiently({.argv = {"python3", "-c", R"(
import socket, subprocess, sys
for busy in range(20000, 30000):
    keep = socket.socket()
    try:
        keep.bind(("127.0.0.1", busy))
        keep.listen()
        break
    except OSError:
        keep.close()
said = subprocess.run(["bash", "-c", sys.argv[1] + "echo $MASTER_PORT"], stdout=subprocess.PIPE, text=True,
                      env={"SLURM_JOB_ID": str(busy - 20000), "MASTER_ADDR": "127.0.0.1"}).stdout
port = int(said)
assert 20000 <= port < 30000 and port != busy, (busy, said)
keep.close()
said = subprocess.run(["bash", "-c", sys.argv[1] + "echo $MASTER_PORT"], stdout=subprocess.PIPE, text=True,
                      env={"SLURM_JOB_ID": str(busy - 20000), "MASTER_ADDR": "127.0.0.1"}).stdout
assert int(said) == busy, (busy, said)
)",
                                                     choose}});
  ASSERT_TRUE(done);
  EXPECT_EQ(done->exit_code, 0) << done->standard_error << choose;
}

TEST(SlurmScript, OneNodeNeedsNoMeetingPlace) {
  const std::string script = script_of(job_of({.gpus = 1, .cpus = 4}, run_in("/logs")).value());
  EXPECT_THAT(script, HasSubstr("#SBATCH --gres=gpu:1\n"));
  EXPECT_THAT(script, Not(HasSubstr("MASTER")));
  EXPECT_THAT(script, Not(HasSubstr("--nnodes")));
  expect_shell(script);
  EXPECT_THAT(script_of(job_of({.cpus = 4}, run_in("/logs")).value()), HasSubstr(" --device cpu --nproc"));
}

TEST(SlurmScript, WhereAJobSeesAllGpusTheGrantedOnesAreNamed) {
  NodeRun run = run_in("/logs");
  run.by_number = true;
  const std::string script = script_of(job_of({.gpus = 2}, run).value());
  expect_shell(script);
  EXPECT_THAT(script, HasSubstr("gpus=${SLURM_STEP_GPUS:-$SLURM_JOB_GPUS}; shift; unset CUDA_VISIBLE_DEVICES;"));
  EXPECT_THAT(script, HasSubstr(" --gpu-ids \"$gpus\" "));
  EXPECT_THAT(script, Not(HasSubstr(" -n 2")));
  EXPECT_THAT(script_of(job_of({}, run).value()), Not(HasSubstr("--gpu-ids"))) << "none were granted";
}

TEST(SlurmScript, TorchrunsVariablesOfWhoeverSubmitsEndAtTheBatchScript) {
  for (const bool by_number : {false, true}) {
    NodeRun run = run_in("/tmp");
    run.by_number = by_number;
    std::string lines;
    const auto job = job_of({.gpus = 1}, run);
    ASSERT_TRUE(job);
    for (const std::string& line : job->setup) {
      if (!line.contains("logs")) lines += line + "\n";
    }
    // Without any it has nothing to do, which is no failure.
    for (const Environment& variables :
         {Environment{{"PET_NNODES", "4"}, {"PET_X", "a b"}, {"PETS", "2"}}, Environment{{"PETS", "2"}}}) {
      Environment environment = variables;
      environment["PATH"] = "/usr/bin:/bin";
      const auto done = testing::run_patiently(
          {.argv = {"bash", "-c", "set -euo pipefail\n" + lines + "env | grep ^PET"}, .environment = environment});
      ASSERT_TRUE(done);
      EXPECT_EQ(done->standard_output, "PETS=2\n") << lines << done->standard_error;
      EXPECT_EQ(done->exit_code, 0);
    }
  }
}

TEST(SlurmScript, OlderSitesAreAskedByGres) {
  BatchJob job = two_nodes();
  job.gpu_option = GpuOption::gres;
  EXPECT_THAT(script_of(job), HasSubstr("#SBATCH --gres=gpu:h100:4\n"));
  EXPECT_THAT(script_of(job), Not(HasSubstr("gpus-per-node")));
}

TEST(SlurmScript, FoldersMayHaveAnyName) {
  for (const char* folder :
       {"/tmp/a'; echo foo", "/tmp/a b\"c", "/tmp/$(touch x)`y`", "/tmp/#no comment", "/tmp/100%j"}) {
    const auto job = job_of({.nodes = 2, .gpus = 1}, run_in(folder));
    ASSERT_TRUE(job) << folder;
    expect_shell(script_of(*job));
    // What the shell makes of the folder is the folder again.
    const std::string line = job->setup.at(0) + "; printf %s \"$logs\"";
    const auto done = testing::run_patiently({.argv = {"bash", "-c", "SLURM_JOB_ID=7; " + line}});
    EXPECT_EQ(done->standard_output, std::string(folder) + "/slurm-7");
  }
  EXPECT_EQ(job_of({}, run_in("/tmp/100%j"))->output, "/tmp/100%%j/slurm-%j.out");
  EXPECT_EQ(job_of({}, run_in("/tmp/a\\b")).error().code, ErrorCode::invalid_argument);
}

TEST(SlurmScript, LineBreaksNeverReachAnOption) {
  BatchJob job = two_nodes();
  job.account = "a\n#SBATCH --partition=other";
  EXPECT_EQ(sbatch_script(job).error().code, ErrorCode::invalid_argument);
}

TEST(SlurmScript, WordsAreQuotedOnlyWhereTheyMustBe) {
  EXPECT_EQ(sbatch_word("gn[1-3],gn7"), "gn[1-3],gn7");
  EXPECT_EQ(sbatch_word("/tmp/a'; echo foo"), "\"/tmp/a'; echo foo\"");
  EXPECT_EQ(sbatch_word("a\"b"), "\"a\\\"b\"");
  EXPECT_EQ(plain_name("train it.py"), "train-it.py");
  EXPECT_EQ(plain_name(""), "train");
}

TEST(SlurmScript, ASessionTakesTheSameOptions) {
  BatchJob job = two_nodes();
  job.signal.clear();
  EXPECT_EQ(srun_command(job, true, {"bash", "-i"}),
            (std::vector<std::string>{"srun", "--job-name=train", "--nodes=2", "--ntasks-per-node=1",
                                      "--gpus-per-node=h100:4", "--cpus-per-task=32", "--time=2:00:00",
                                      "--partition=gpu", "--exclude=gn3,gn7", "--pty", "bash", "-i"}));
}

}  // namespace
}  // namespace gpuwarden::slurm
