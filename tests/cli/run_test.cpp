// SPDX-License-Identifier: Apache-2.0
// gpuwarden run as torchrun's users meet it, and where a job fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sched.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "support/patience.hpp"

namespace gpuwarden::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class RunCommand : public Program {
 protected:
  /// `run` on a simulated node, with these words behind it.
  Completed launch(std::vector<std::string> words) {
    words.insert(words.begin(), {"run", "--simulate", "h100x8"});
    return run(words);
  }
  std::string shown(const std::filesystem::path& path) const { return read_file(path).value_or("(none)"); }
};

TEST_F(RunCommand, APythonProgramIsRunByPython) {
  const std::string program = file("train.py", "import os, sys\nprint(os.environ['RANK'], sys.argv[1:])\n");
  const auto done = launch({"-q", "--nproc_per_node", "2", program, "--lr", "3"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output, HasSubstr("[rank 1] 1 ['--lr', '3']\n"));
  const auto module = launch({"-q", "-m", "json.tool", "--help"});
  EXPECT_THAT(module.standard_output, HasSubstr("usage: python -m json.tool"));
}

TEST_F(RunCommand, StreamsGoWhereTorchrunsDigitsSay) {
  const std::string logs = (dir_ / "logs").string();
  const auto done = launch({"-q", "--nproc-per-node", "2", "--log-dir", logs, "--redirects", "0:3", "--tee", "1:1",
                            "--", "sh", "-c", "echo out; echo err >&2"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_EQ(done.standard_output, "[rank 1] out\n");
  EXPECT_EQ(done.standard_error, "[rank 1] err\n");
  EXPECT_EQ(shown(dir_ / "logs/rank-0.out"), "out\n");
  EXPECT_EQ(shown(dir_ / "logs/rank-0.err"), "err\n");
  EXPECT_EQ(shown(dir_ / "logs/rank-1.out"), "out\n");
  EXPECT_EQ(shown(dir_ / "logs/rank-1.err"), "(none)") << "not asked for";
  expect_error({"run", "--simulate", "h100x8", "--tee", "4", "--", "true"}, 2, "'4' names no streams");
}

TEST_F(RunCommand, StandaloneIsOneNodeWhetherOrNotThatIsSaid) {
  const auto done = launch(
      {"-q", "--standalone", "--nnodes", "1", "--nproc-per-node", "1", "--", "sh", "-c", "echo $GROUP_WORLD_SIZE"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_EQ(done.standard_output, "1\n");
}

TEST_F(RunCommand, WhatCannotBeMeantIsRefused) {
  expect_error({"run", "--simulate", "h100x8", "--standalone", "--nnodes", "2", "--", "true"}, 2, "standalone");
  expect_error({"run", "--simulate", "h100x8", "--nnodes", "2", "--rdzv-endpoint", "a:1", "--", "true"}, 2,
               "which of the 2 nodes is this?");
  expect_error({"run", "--simulate", "h100x8", "--rdzv-endpoint", "a:b", "--", "true"}, 2, "is not HOST or HOST:PORT");
  expect_error({"run", "--simulate", "h100x8", "--rdzv-backend", "etcd", "--", "true"}, 2, "'etcd' is not known");
  expect_error({"run", "--simulate", "h100x8", "--numa-binding", "x", "--", "true"}, 2, "'x' is not known");
  expect_error({"run", "--simulate", "h100x8", "--heal", "--", "true"}, 2, "--heal needs --max-restarts");
  expect_error({"run", "--simulate", "h100x8", "--post-mortem", "/no/such/x", "--", "true"}, 2, "cannot write");
}

TEST_F(RunCommand, NodesThatShareAnIdFindTheSamePort) {
  const auto port = [&](const std::string& node) {
    return launch({"-q", "--nnodes", "2", "--node-rank", node, "--rdzv-id", "job-42", "--", "sh", "-c",
                   "echo $MASTER_PORT"})
        .standard_output;
  };
  const std::string first = port("0");
  EXPECT_NE(first, "");
  EXPECT_EQ(first, port("1"));
}

TEST_F(RunCommand, AFailedJobIsStartedAgainAndSaysWhy) {
  const std::string program = file(
      "flaky.py", "import os\nif os.environ['GPUWARDEN_RESTART_COUNT'] == '0':\n    raise ConnectionError('gone')\n");
  const auto done = launch({"--max-restarts", "2", "--restart-delay", "10ms", "--nproc-per-node", "2", program});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_error, HasSubstr("try 1 ended with exit code 1"));
  EXPECT_THAT(done.standard_error, HasSubstr("ConnectionError: gone (at"));
  EXPECT_THAT(done.standard_error, HasSubstr("starting again in 0.0 s"));
  EXPECT_THAT(done.standard_error, AllOf(HasSubstr("finished after 2 tries in "),
                                         HasSubstr("  all tries: ranks ran for "), HasSubstr("  the last try, ")));
}

TEST_F(RunCommand, APostMortemIsKeptWithoutSecretsAndShown) {
  const std::string why = (dir_ / "why.json").string();
  const std::string program = file("typo.py", "print('hf_abcdefghijklmnopqrstuvwxyzABCDEFGH')\n1 + None\n");
  const auto done = launch({"--max-restarts", "3", "--post-mortem", why, program});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_THAT(done.standard_error, HasSubstr("another try would end the same way: TypeError"));
  EXPECT_THAT(shown(why), Not(HasSubstr("hf_abcdef")));
  const auto report = run({"report", why});
  EXPECT_EQ(report.exit_code, 0) << report.standard_error;
  EXPECT_THAT(report.standard_output, HasSubstr("a plain failure is there"));
  const auto fine = (dir_ / "fine.json").string();
  EXPECT_EQ(launch({"-q", "--post-mortem", fine, "--", "true"}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(fine)) << "it did not fail";
}

TEST_F(RunCommand, APostMortemIsShownWithItsCause) {
  const std::string why = (dir_ / "why.json").string();
  const std::string said =
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.15 "
      "GiB of which 5.25 MiB is free.";
  EXPECT_EQ(
      launch({"-q", "--max-restarts", "1", "--post-mortem", why, "--", "sh", "-c", "echo '" + said + "' >&2; exit 1"})
          .exit_code,
      1);
  const auto report = run({"report", why});
  EXPECT_EQ(report.exit_code, 0) << report.standard_error;
  EXPECT_THAT(report.standard_output, HasSubstr("1. "));
  EXPECT_THAT(report.standard_output, HasSubstr("[oom_capacity]"));
}

TEST_F(RunCommand, TheSignalThatEndedARankIsNamed) {
  const std::string why = (dir_ / "why.json").string();
  const auto killed = launch(
      {"--nproc-per-node", "2", "--post-mortem", why, "--", "sh", "-c", "[ $RANK = 1 ] && kill -KILL $$; sleep 100"});
  EXPECT_EQ(killed.exit_code, 137);
  const char* words = "rank 1 was ended by signal 9, SIGKILL, as the kernel does where the machine is out of memory";
  EXPECT_THAT(killed.standard_error, HasSubstr(words));
  EXPECT_THAT(run({"report", why}).standard_output, HasSubstr(words));
  const auto fault = launch({"--", "sh", "-c", "kill -SEGV $$"});
  EXPECT_EQ(fault.exit_code, 139);
  EXPECT_THAT(fault.standard_error, HasSubstr("it was ended by signal 11, SIGSEGV\n"));
}

TEST_F(RunCommand, RanksThatIgnoreCtrlCAreSpokenOf) {
  // Whoever starts the tests may ignore SIGINT, which is inherited.
  const std::string script =
      "import signal, subprocess, sys\n"
      "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
      "p = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)\n"
      "p.stdout.readline()\n"
      "p.send_signal(signal.SIGINT)\n"
      "print(p.communicate()[0])\n"
      "sys.exit(p.returncode)\n";
  const auto done = run_patiently(
      {.argv = {"python3", "-c", script, GPUWARDEN_PROGRAM, "run", "--simulate", "h100x8", "-q", "--grace", "2s", "--",
                "sh", "-c", "trap '' INT TERM; echo up; while :; do sleep 0.1; done"},
       .environment = environment_});
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->exit_code, 130) << done->standard_output;
  EXPECT_THAT(done->standard_output,
              HasSubstr("asked to end, and are killed after 2.0 s; Ctrl-C again kills them now"));
  EXPECT_THAT(done->standard_output, HasSubstr("the ranks were killed: they did not end within 2.0 s"));
}

TEST_F(RunCommand, OneReportThatCannotBeWrittenKeepsNoOtherBack) {
  const auto done = launch(
      {"-q", "--report", "/dev/full", "--post-mortem", (dir_ / "why.json").string(), "--", "sh", "-c", "exit 5"});
  EXPECT_EQ(done.exit_code, 5);
  EXPECT_THAT(done.standard_error, HasSubstr("/dev/full"));
  EXPECT_TRUE(std::filesystem::exists(dir_ / "why.json"));
}

TEST_F(RunCommand, ASignalInThePauseIsTheJobsEnd) {
  const std::string script =
      std::string(GPUWARDEN_PROGRAM) +
      " run --simulate h100x8 -q --max-restarts 3 --restart-delay 60s -- sh -c 'echo up >&2; exit 5' 2>" +
      (dir_ / "said").string() + " & pid=$!; while ! grep -q up " + (dir_ / "said").string() +
      "; do sleep 0.05; done; sleep 1; kill -TERM $pid; wait $pid";
  Command command{.argv = {"sh", "-c", script}, .environment = environment_};
  const auto done = run_patiently(command);
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->exit_code, 143);
}

TEST_F(RunCommand, OneRanksOutputStaysAsItIsToTheByte) {
  std::string bytes;
  for (int i = 0; i < 300000; ++i) bytes += static_cast<char>(i * 7 % 256);
  const std::string data = file("data", bytes);
  const auto done = launch({"-q", "--max-restarts", "1", "--", "cat", data});
  EXPECT_EQ(done.exit_code, 0);
  EXPECT_TRUE(done.standard_output == bytes);
}

TEST_F(RunCommand, AGpuThatIsLostIsReplaced) {
  ASSERT_EQ(run({"sim", "start", "lab", "--fleet", "h100x8"}).exit_code, 0);
  environment_["GPUWARDEN_SIMULATE"] = "lab";
  const auto done =
      run({"run", "-n", "2", "--max-restarts", "2", "--restart-delay", "10ms", "--report", (dir_ / "r.json").string(),
           "--", "sh", "-c",
           std::string("echo $CUDA_VISIBLE_DEVICES; [ $GPUWARDEN_RESTART_COUNT = 1 ] && exit 0; sleep 1; ") +
               GPUWARDEN_PROGRAM + " sim fault lab --gpu 0 xid=79; sleep 2; exit 9"});
  EXPECT_EQ(run({"sim", "stop", "lab"}).exit_code, 0);
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_error, HasSubstr("on other GPUs"));
  const auto json = nlohmann::json::parse(shown(dir_ / "r.json"), nullptr, false);
  ASSERT_EQ(json["attempts"].size(), 1U);
  EXPECT_EQ(json["attempts"][0]["cause"], "fell_off_bus");
  EXPECT_EQ(json["attempts"][0]["gpus_at_fault"].size(), 1U);
  EXPECT_TRUE(json["post_mortem"].is_null());
}

TEST_F(RunCommand, ARankForEachCpuThatMayBeUsed) {
  cpu_set_t own;
  CPU_ZERO(&own);
  ASSERT_EQ(::sched_getaffinity(0, sizeof own, &own), 0);
  const auto done = launch({"-q", "--device", "cpu", "--nproc-per-node", "cpu", "--", "sh", "-c", "echo $WORLD_SIZE"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_EQ(std::ranges::count(done.standard_output, '\n'), CPU_COUNT(&own));
  EXPECT_TRUE(done.standard_output.ends_with(std::to_string(CPU_COUNT(&own)) + "\n")) << done.standard_output;
  // Bound to one of them, it is one.
  int first = 0;
  while (!CPU_ISSET(first, &own)) ++first;
  auto one = run_patiently({.argv = {"taskset", "-c", std::to_string(first), GPUWARDEN_PROGRAM, "run", "-q", "--device",
                                     "cpu", "--nproc-per-node", "cpu", "--", "sh", "-c", "echo $WORLD_SIZE"},
                            .environment = environment_});
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(one->standard_output, "1\n") << one->standard_error;
}

TEST_F(RunCommand, RanksHaveThreadsOfTheirOwnAndCpusNearTheirGpus) {
  const std::string show = "echo $LOCAL_RANK $OMP_NUM_THREADS; grep Cpus_allowed_list /proc/self/status";
  environment_.erase("OMP_NUM_THREADS");
  const auto several = launch({"-q", "-n", "2", "--nproc-per-node", "gpu", "--", "sh", "-c", show});
  EXPECT_THAT(several.standard_output, ::testing::AllOf(HasSubstr("0 1\n"), HasSubstr("1 1\n"))) << "as torchrun does";
  const auto alone = launch({"-q", "--", "sh", "-c", "echo \"<$OMP_NUM_THREADS>\""});
  EXPECT_EQ(alone.standard_output, "<>\n") << "a single rank may use what it likes";
  environment_["OMP_NUM_THREADS"] = "7";
  EXPECT_THAT(launch({"-q", "-n", "2", "--nproc-per-node", "gpu", "--", "sh", "-c", show}).standard_output,
              HasSubstr("0 7\n"))
      << "what is set stays";
  environment_.erase("OMP_NUM_THREADS");
  // Each rank's share of the cores is its own, and the threads are as many as that.
  const auto bound = launch(
      {"-n", "2", "--nproc-per-node", "gpu", "--numa-binding", "exclusive", "--no-report", "--", "sh", "-c", show});
  EXPECT_EQ(bound.exit_code, 0) << bound.standard_error;
  std::vector<std::string> lists;
  for (const auto line : split(bound.standard_output, '\n')) {
    const std::size_t at = line.find("Cpus_allowed_list:");
    if (at != std::string_view::npos) lists.emplace_back(trim(line.substr(at + 18)));
  }
  ASSERT_EQ(lists.size(), 2U) << bound.standard_output;
  // A machine that does not tell where its CPUs are binds nothing, and says so.
  const bool told = bound.standard_error.contains("--numa-binding: rank");
  EXPECT_TRUE(told || lists[0] != lists[1]) << bound.standard_output << bound.standard_error;
}

}  // namespace
}  // namespace gpuwarden::testing
