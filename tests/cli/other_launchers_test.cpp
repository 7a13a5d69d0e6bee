// SPDX-License-Identifier: Apache-2.0
// `run` in the hands of those who know torchrun, mpirun, srun and accelerate: each of their options is taken, needless,
// or answered with what to write here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class OtherLaunchers : public Program {
 protected:
  Completed launch(std::vector<std::string> words) {
    words.insert(words.begin(), {"run", "--device", "cpu", "--no-report"});
    return run(words);
  }
};

/// torchrun's options of PyTorch 2.13 (torch/distributed/run.py), with a value that it takes.
constexpr std::pair<const char*, const char*> kTorchruns[] = {
    {"--nnodes", "1:1"},
    {"--nproc-per-node", "1"},
    {"--rdzv-backend", "c10d"},
    {"--rdzv-endpoint", "127.0.0.1:0"},
    {"--rdzv-id", "job7"},
    {"--rdzv-conf", "join_timeout=60,read_timeout=5"},
    {"--standalone", ""},
    {"--max-restarts", "1"},
    {"--monitor-interval", "5"},
    {"--start-method", "spawn"},
    {"--event-log-handler", "null"},
    {"--role", "trainer"},
    {"--no-python", ""},
    {"--redirects", "0"},
    {"--tee", "0"},
    {"--local-ranks-filter", "0"},
    {"--node-rank", "0"},
    {"--master-addr", "127.0.0.1"},
    {"--master-port", "0"},
    {"--local-addr", "127.0.0.1"},
    {"--logs-specs", "default"},
    {"--numa-binding", "node"},
    {"--signals-to-handle", "SIGTERM"},
    {"--virtual-local-rank", ""},
    {"--duplicate-stdout-filters", "apple"},
    {"--duplicate-stderr-filters", "apple"},
};

TEST_F(OtherLaunchers, EveryOptionOfTorchrunsIsTakenOrAnswered) {
  for (const auto& [option, value] : kTorchruns) {
    std::string underscores = option;
    std::replace(underscores.begin() + 2, underscores.end(), '-', '_');
    for (const std::string& spelling : {std::string(option), underscores}) {
      for (const bool joined : {false, true}) {
        std::vector<std::string> words{spelling};
        if (*value != '\0' && joined) words[0] += std::string("=") + value;
        if (*value != '\0' && !joined) words.emplace_back(value);
        words.insert(words.end(), {"--", "true"});
        const auto done = launch(words);
        if (done.exit_code == 0) continue;
        EXPECT_THAT(done.standard_error, AllOf(HasSubstr("unknown option '" + spelling), HasSubstr("hint: write ")))
            << words[0];
      }
    }
  }
}

TEST_F(OtherLaunchers, WhatIsNeedlessIsToldAndDoesNoHarm) {
  const auto done = launch({"--monitor_interval", "5", "--use_env", "--start-method=fork", "--", "echo", "ran"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_EQ(done.standard_output, "ran\n");
  EXPECT_THAT(done.standard_error,
              AllOf(HasSubstr("warning: --monitor-interval is not needed: the end of a rank is noticed at once"),
                    HasSubstr("--use-env is not needed"), HasSubstr("--start-method is not needed")));
  EXPECT_EQ(launch({"-q", "--monitor-interval", "5", "--", "true"}).standard_error, "");
  expect_error({"run", "--monitor-interval"}, 2, "--monitor-interval needs a value");
}

TEST_F(OtherLaunchers, SlipsHaveTheRightSpelling) {
  constexpr std::pair<const char*, const char*> kSlips[] = {{"-np", "--nproc-per-node N"},
                                                            {"-N2", "--nnodes N"},
                                                            {"--host", "--hosts a:4,b:4"},
                                                            {"-x", "--env NAME"},
                                                            {"--bind-to", "--numa-binding"},
                                                            {"--ntasks-per-node", "--nproc-per-node N"},
                                                            {"--gres=gpu:4", "-n N"},
                                                            {"-p", "--partition NAME"},
                                                            {"--num_processes", "--nproc-per-node N"},
                                                            {"--main_process_port=1", "--master-port PORT"},
                                                            {"--logs_specs", "--log-dir DIR"},
                                                            {"--num_nodes", "--nnodes N"}};
  for (const auto& [typed, hint] : kSlips) {
    const auto done = run({"run", typed, "2", "--", "true"});
    EXPECT_EQ(done.exit_code, 2) << typed;
    EXPECT_THAT(done.standard_error, AllOf(HasSubstr("unknown option '"), HasSubstr(hint))) << typed;
  }
  EXPECT_THAT(run({"run", "-n", "p", "--", "true"}).standard_error, HasSubstr("'p' is not")) << "that is -n's own";
}

TEST_F(OtherLaunchers, TorchrunsVariablesAreDefaults) {
  const std::string show = "echo $WORLD_SIZE $ROLE_NAME $TORCHELASTIC_MAX_RESTARTS";
  environment_["PET_NPROC_PER_NODE"] = "2";
  environment_["PET_ROLE"] = "eval";
  environment_["PET_MAX_RESTARTS"] = "3";
  environment_["PET_STANDALONE"] = "0";
  environment_["PET_LOG_DIR"] = "";
  auto done = launch({"-q", "--local-ranks-filter", "0", "--", "sh", "-c", show});
  EXPECT_EQ(done.standard_output, "[rank 0] 2 eval 3\n") << done.standard_error;
  done = launch({"-q", "--nproc-per-node", "1", "--role", "mine", "--", "sh", "-c", show});
  EXPECT_EQ(done.standard_output, "1 mine 3\n") << "the command line comes first";
  const std::string config = file("job.yaml", "run:\n  role: of the file\n  grace: 3s\n");
  done = launch({"-q", "--config", config, "--nproc-per-node", "1", "--", "sh", "-c", show});
  EXPECT_EQ(done.standard_output, "1 eval 3\n") << "a file comes last: " << done.standard_error;
}

TEST_F(OtherLaunchers, RanksThatAreCountedHaveAGpuEachAsUnderTorchrun) {
  const auto gpus = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"run", "--no-report", "--simulate", "h100x8"});
    words.insert(words.end(), {"--", "sh", "-c", "[ $RANK != 0 ] || echo $CUDA_VISIBLE_DEVICES | tr , '\\n' | wc -l"});
    const auto done = run(words);
    EXPECT_EQ(done.exit_code, 0) << done.standard_error;
    return std::string(trim(done.standard_output.substr(done.standard_output.find(']') + 1)));
  };
  EXPECT_EQ(gpus({"--nproc-per-node", "4"}), "4");
  EXPECT_EQ(gpus({"--nnodes=1", "--nproc_per_node", "2"}), "2");
  EXPECT_EQ(gpus({"--nproc-per-node", "2", "--one-gpu-per-rank"}), "1") << "each sees its own";
  environment_["PET_NPROC_PER_NODE"] = "3";
  EXPECT_EQ(gpus({"--standalone"}), "3");
  environment_.erase("PET_NPROC_PER_NODE");
  EXPECT_EQ(gpus({"--config", file("job.yaml", "run:\n  nproc-per-node: 2\n")}), "2");
  // Whatever says how many, or which, holds.
  EXPECT_EQ(gpus({"-n", "1", "--nproc-per-node", "4"}), "1");
  EXPECT_EQ(gpus({"--gpu-ids", "3", "--nproc-per-node", "2"}), "1");
  EXPECT_EQ(gpus({"--device", "cuda:1", "--nproc-per-node", "2"}), "1");
  EXPECT_EQ(gpus({"--config", file("one.yaml", "distributed:\n  num_gpus: 1\n"), "--nproc-per-node", "2"}), "1");
  environment_["GPUWARDEN_NUM_GPUS"] = "1";
  EXPECT_EQ(gpus({"--nproc-per-node", "2"}), "1");
}

TEST_F(OtherLaunchers, WhereThereAreFewerGpusThanRanksTheHintSaysHowTheyShareOne) {
  const auto done = run({"run", "--simulate", "rtx4090x2", "--nproc-per-node", "4", "--", "true"});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_THAT(done.standard_error, AllOf(HasSubstr("4"), HasSubstr("each of the 4 ranks takes a GPU"),
                                         HasSubstr("-n 1 --nproc-per-node 4")));
  EXPECT_THAT(run({"run", "--simulate", "rtx4090x2", "-n", "4", "--", "true"}).standard_error,
              Not(HasSubstr("ranks takes")))
      << "these were asked for";
}

TEST_F(OtherLaunchers, DeepSpeedsNumberOfGpusIsAnsweredWithTheRightSpelling) {
  const auto done = run({"run", "--simulate", "h100x8", "--num_gpus", "2", "train.py"});
  EXPECT_EQ(done.exit_code, 2);
  EXPECT_THAT(done.standard_error, AllOf(HasSubstr("--num_gpus 2 is a rank for each GPU in DeepSpeed"),
                                         HasSubstr("write --nproc-per-node 2 for the ranks, -n 2 for one process")));
  EXPECT_EQ(run({"run", "--simulate", "h100x8", "--num_gpus=2", "--", "true"}).exit_code, 2);
  for (std::vector<std::string> words : {std::vector<std::string>{"--num-gpus", "2", "--", "echo", "--num_gpus", "2"},
                                         std::vector<std::string>{"--num_gpus", "2", "--nproc_per_node", "2", "true"},
                                         std::vector<std::string>{"--num_gpus", "1", "true"}}) {
    words.insert(words.begin(), {"run", "-q", "--simulate", "h100x8"});
    EXPECT_EQ(run(words).exit_code, 0) << words[4];
  }
}

/// An option whose variable nobody reads would leave no trace.
TEST_F(OtherLaunchers, EveryOptionOfTorchrunsHasItsVariable) {
  const std::string value = "/dev/null/q7q";
  const auto is_heard = [&](const std::string& option) {
    std::string variable = "PET_";
    for (const char c : option.substr(2)) variable += c == '-' ? '_' : static_cast<char>(std::toupper(c));
    environment_[variable] = value;
    const auto done = launch({"--", "sh", "-c", "echo $ROLE_NAME $MASTER_ADDR $TORCHELASTIC_RUN_ID"});
    environment_.erase(variable);
    return done.exit_code != 0 || done.standard_output.contains(value) || done.standard_error.contains(option);
  };
  for (const auto& [option, typed] : kTorchruns) EXPECT_TRUE(is_heard(option)) << option;
  for (const char* option : {"--module", "--run-path", "--log-dir"}) EXPECT_TRUE(is_heard(option)) << option;
  EXPECT_FALSE(is_heard("--grace")) << "which is no option of torchrun's";
}

TEST_F(OtherLaunchers, TheMeetingPlaceOfTheVariablesGivesWayToOneThatIsTyped) {
  environment_["PET_RDZV_ENDPOINT"] = "10.0.0.9:1234";
  environment_["PET_MASTER_ADDR"] = "10.0.0.8";
  const std::string show = "echo $MASTER_ADDR";
  EXPECT_EQ(launch({"-q", "--", "sh", "-c", show}).standard_output, "10.0.0.9\n") << "an endpoint goes first";
  EXPECT_EQ(launch({"-q", "--master-addr", "127.0.0.1", "--", "sh", "-c", show}).standard_output, "127.0.0.1\n");
  EXPECT_EQ(launch({"-q", "--standalone", "--", "sh", "-c", show}).standard_output, "127.0.0.1\n");
  environment_["PET_STANDALONE"] = "1";
  EXPECT_EQ(launch({"-q", "--", "sh", "-c", show}).standard_output, "127.0.0.1\n");
}

TEST_F(OtherLaunchers, AVariableThatCannotBeMeantIsNamed) {
  environment_["PET_NNODES"] = "x";
  EXPECT_EQ(launch({"--", "true"}).exit_code, 2);
  environment_["PET_NNODES"] = "1";
  environment_["PET_NPROC_PER_NODE"] = "abc";
  expect_error({"run", "--device", "cpu", "--", "true"}, 2, "PET_NPROC_PER_NODE: 'abc' is not a whole number");
  expect_error({"run", "--device", "cpu", "--nproc-per-node", "xyz", "--", "true"}, 2,
               "--nproc-per-node: 'xyz' is not a whole number");
  environment_.erase("PET_NPROC_PER_NODE");
  environment_["PET_STANDALONE"] = "yes";
  expect_error({"run", "--device", "cpu", "--", "true"}, 2, "PET_STANDALONE: 'yes' is not 0 or 1");
  environment_.erase("PET_STANDALONE");
  environment_["PET_LOGS_SPECS"] = "mine";
  expect_error({"run", "--device", "cpu", "--", "true"}, 2, "PET_LOGS_SPECS: unknown option");
}

TEST_F(OtherLaunchers, OnlyTheLinesOfTheRanksThatAreWantedAreShownAndAllAreLogged) {
  const auto done = launch({"-q", "--nproc-per-node", "3", "--local-ranks-filter", "0,2", "--log-dir",
                            (dir_ / "logs").string(), "--", "sh", "-c", "echo mine; echo bad >&2"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output,
              AllOf(HasSubstr("[rank 0] mine"), HasSubstr("[rank 2] mine"), Not(HasSubstr("[rank 1]"))));
  EXPECT_THAT(done.standard_error, Not(HasSubstr("[rank 1]")));
  EXPECT_EQ(read_file(dir_ / "logs/rank-1.out").value_or(""), "mine\n");
  EXPECT_EQ(launch({"-q", "--local-ranks-filter", "1", "--", "echo", "x"}).standard_output, "") << "a single rank too";
  expect_error({"run", "--local-ranks-filter", "a", "--", "true"}, 2, "--local-ranks-filter: 'a' is not a rank");
}

TEST_F(OtherLaunchers, RunPathHasAnExecutableRunByPython) {
  const std::string program = file("train", "import sys\nprint('python', sys.argv[1:])\n");
  EXPECT_EQ(launch({"-q", "--run-path", program, "--lr", "3"}).standard_output, "python ['--lr', '3']\n");
  expect_error({"run", "--run-path", "--no-python", "--", "true"}, 2, "cannot be used together");
}

TEST_F(OtherLaunchers, TheTimesOfARendezvousAreRead) {
  const auto done = launch({"--rdzv-conf", "join_timeout=60,read_timeout=5,is_host=1", "--", "true"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_error, AllOf(HasSubstr("read_timeout is not needed"), HasSubstr("is_host is not needed"),
                                         Not(HasSubstr("join_timeout is not"))));
  expect_error({"run", "--rdzv-conf", "join_timeout", "--", "true"}, 2, "'join_timeout' is not KEY=VALUE");
  expect_error({"run", "--rdzv-conf", "join_timeout=soon", "--", "true"}, 2, "'soon' is not a number of seconds");
  const auto typo = launch({"--rdzv-conf", "join_timout=60", "--", "true"});
  EXPECT_EQ(typo.exit_code, 2);
  EXPECT_THAT(typo.standard_error,
              AllOf(HasSubstr("--rdzv-conf: unknown key 'join_timout'"), HasSubstr("did you mean join_timeout?")));
  const auto strange = launch({"--rdzv-conf", "zookeeper=1", "--", "true"});
  EXPECT_EQ(strange.exit_code, 0) << strange.standard_error;
  EXPECT_THAT(strange.standard_error, HasSubstr("zookeeper is not known and means nothing here"));
  // A node that waits for another one waits as long as that says.
  const auto alone = launch({"-q", "--nnodes", "2", "--node-rank", "0", "--rdzv-id", "j", "--max-restarts", "1",
                             "--rdzv-conf", "join_timeout=0.3", "--", "true"});
  EXPECT_NE(alone.exit_code, 0);
  EXPECT_THAT(alone.standard_error, HasSubstr("only 1 of the 2 nodes came"));
}

TEST_F(OtherLaunchers, WhatAConfigurationSaysOfRestartsIsCheckedBeforeAJobIsSubmitted) {
  const auto refused = [&](const std::string& keys, const std::string& what) {
    const std::string config = file("job.yaml", "run:\n  " + keys + "\n");
    const auto done = run({"run", "--slurm", "--dry-run", "--config", config, "--", "true"});
    EXPECT_EQ(done.exit_code, 2) << keys << done.standard_error;
    EXPECT_THAT(done.standard_error, HasSubstr(what)) << keys;
  };
  refused("heal: true", "--slurm and heal of");
  refused("nnodes: 2", "--slurm and nnodes of");
  refused("signal: USR1@60", "write --signal on the command line");
  refused("no-such-key: 1", "no-such-key");
}

TEST_F(OtherLaunchers, SlowGpusAreReplacedOnlyWhereThatIsPossible) {
  expect_error({"run", "--straggler", "restart", "--", "true"}, 2, "--straggler restart needs --max-restarts");
  expect_error({"run", "--straggler", "stop", "--", "true"}, 2, "--straggler: 'stop' is not known");
  expect_error({"run", "--straggler", "restart", "--max-restarts", "1", "--gpu-ids", "0", "--", "true"}, 2,
               "--straggler restart and --gpu-ids cannot be used together");
}

}  // namespace
}  // namespace gpuwarden::testing
