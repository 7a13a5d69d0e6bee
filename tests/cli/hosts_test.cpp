// SPDX-License-Identifier: Apache-2.0
// run --hosts and list --hosts, with an ssh that runs each command here, in folders of the host's own. The real one:
// tests/sshd.
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/program.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// As ssh does, the shell of the host gets the words behind the host's name in one.
constexpr std::string_view kStandIn = R"(#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in -[op]) shift 2 ;; -*) shift ;; *) break ;; esac
done
host=$1; shift
folder=FOLDER/$host
[ -d "$folder" ] || { echo "ssh: Could not resolve hostname $host: Name or service not known" >&2; exit 255; }
export GPUWARDEN_LEASE_DIR="$folder/leases" GPUWARDEN_SIM_DIR="$folder/sim" GPUWARDEN_STATE_DIR="$folder/state"
export THE_HOST=$host SECRET_OF_THE_LAUNCHER=
cd "$folder" || exit 1
cat "$folder/greeting" 2>/dev/null
sh -c "$*"
exit $?
)";

class HostsCommand : public Program {
 protected:
  HostsCommand() {
    std::string text(kStandIn);
    text.replace(text.find("FOLDER"), 6, shell_word((dir_ / "hosts").string()));
    ssh_ = file("ssh", text);
    ::chmod(ssh_.c_str(), 0755);
    for (const char* host : {"a", "b", "c"}) std::filesystem::create_directories(dir_ / "hosts" / host);
  }
  std::vector<std::string> on(const std::string& command, const std::string& hosts,
                              std::vector<std::string> words) const {
    words.insert(words.begin(), {command, "--simulate", "h100x8", "--ssh", ssh_, "--remote-program", GPUWARDEN_PROGRAM,
                                 "--hosts", hosts});
    return words;
  }
  Completed launch(const std::string& hosts, std::vector<std::string> words) const {
    return run(on("run", hosts, std::move(words)));
  }
  void refuses(const std::string& hosts, std::vector<std::string> words, int code, const std::string& what) const {
    expect_error(on("run", hosts, std::move(words)), code, what);
  }
  std::string shown(const std::filesystem::path& path) const { return read_file(path).value_or("(none)"); }

  std::string ssh_;
};

TEST_F(HostsCommand, EveryRankKnowsItsPlaceInTheWholeJob) {
  const auto done =
      launch("a:2,b", {"-q", "--nproc-per-node", "gpu", "--", "sh", "-c",
                       "echo $THE_HOST $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output, HasSubstr("[a:0] a 0/3 0/2 0/2\n"));
  EXPECT_THAT(done.standard_output, HasSubstr("[a:1] a 1/3 1/2 0/2\n"));
  EXPECT_THAT(done.standard_output, HasSubstr("[b:2] b 2/3 0/1 1/2\n"));
}

TEST_F(HostsCommand, RanksThatAreCountedHaveAGpuEachOnEveryHost) {
  const std::vector<std::string> show{"--", "sh", "-c",
                                      "echo $RANK of $WORLD_SIZE: $(echo $CUDA_VISIBLE_DEVICES | tr , '\\n' | wc -l)"};
  const auto launched = [&](const std::string& hosts, std::vector<std::string> words) {
    words.insert(words.end(), show.begin(), show.end());
    const auto done = launch(hosts, words);
    EXPECT_EQ(done.exit_code, 0) << done.standard_error;
    return done.standard_output;
  };
  const std::string each = launched("a,b", {"-q", "--nproc-per-node", "2"});
  EXPECT_THAT(each, HasSubstr("0 of 4: 2\n"));
  EXPECT_THAT(each, HasSubstr("3 of 4: 2\n"));
  EXPECT_THAT(launched("a:1,b:1", {"-q", "--nproc-per-node", "2"}), HasSubstr("3 of 4: 1\n"))
      << "their own numbers hold";
  refuses("a", {"--nproc-per-node", "9", "--", "true"}, 1, "-n 1 --nproc-per-node 9");
}

TEST_F(HostsCommand, AllRanksMeetAtOnePlaceOfTheFirstHost) {
  const auto done =
      launch("a,b,c", {"-q", "--", "sh", "-c", "echo at $MASTER_ADDR:$MASTER_PORT id $TORCHELASTIC_RUN_ID"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  std::set<std::string> places;
  for (const auto line : split(trim(done.standard_output), '\n')) places.emplace(line.substr(line.find("at ")));
  EXPECT_EQ(places.size(), 1U) << done.standard_output;
  const auto fixed = launch("a,b", {"-q", "--master-addr", "first.example", "--", "sh", "-c", "echo $MASTER_ADDR"});
  EXPECT_THAT(fixed.standard_output, AllOf(HasSubstr("[a:0] first.example\n"), HasSubstr("[b:1] first.example\n")));
}

TEST_F(HostsCommand, WordsAndFoldersReachTheRanksUnharmed) {
  const auto odd = dir_ / "a'; echo foo";
  std::filesystem::create_directories(odd);
  const auto done = launch(
      "a", {"-q", "--chdir", odd.string(), "--env", "ODD=it's \"$HOME\"", "--", "sh", "-c",
            "printf '<%s>' \"$PWD\" \"$ODD\" \"$@\"; echo", "x", "a'; echo foo", "$HOME", "", "two  words", "*"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_EQ(done.standard_output,
            "[a:0] <" + odd.string() + "><it's \"$HOME\"><a'; echo foo><$HOME><><two  words><*>\n");
  refuses("a,b", {"--chdir", "/no/such", "--", "true"}, 2, "a: cannot change to /no/such");
}

TEST_F(HostsCommand, EachHostHasItsOwnLeasesAndTheRanksHoldThem) {
  const auto done = launch(
      "a:2,b:3", {"-q", "--", "sh", "-c", GPUWARDEN_PROGRAM " lease --list --simulate h100x8 | grep -c '^GPU-'"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output, AllOf(HasSubstr("[a:0] 2\n"), HasSubstr("[b:1] 3\n")));
}

TEST_F(HostsCommand, GpusAreHeldOnEveryHostOrOnNone) {
  const std::string mark = (dir_ / "started").string();
  refuses("a:2,b:9", {"--", "touch", mark}, 1, "b: 9 GPUs were requested, but this machine has 8 GPUs");
  EXPECT_FALSE(std::filesystem::exists(mark));
  EXPECT_EQ(launch("a:8,b:8", {"-q", "--", "true"}).exit_code, 0) << "all were given back";
}

TEST_F(HostsCommand, TheFirstFailureEndsAllAndIsTheExitCode) {
  const auto done = launch(
      "a,b:2", {"--nproc-per-node", "gpu", "--", "sh", "-c", "if [ $RANK = 2 ]; then exit 7; fi; exec sleep 60"});
  EXPECT_EQ(done.exit_code, 7) << done.standard_error;
  EXPECT_THAT(done.standard_error, AllOf(HasSubstr("rank 2 on b failed first"), HasSubstr("  a: exit code 143")));
}

TEST_F(HostsCommand, LogsLieByHostAndRankAndTheReportHoldsAll) {
  const std::string logs = (dir_ / "logs").string();
  const std::string report = (dir_ / "report.json").string();
  // A rank that fails ends the job: the other one may not even have begun.
  const std::string said = (dir_ / "said").string();
  const auto done = launch("a,b", {"--log-dir", logs, "--report", report, "--", "sh", "-c",
                                   "[ $RANK = 0 ] || until [ -e " + said +
                                       " ]; do sleep 0.05; done; echo out of $RANK; "
                                       "echo err >&2; touch " +
                                       said + "; exit $RANK"});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_EQ(shown(dir_ / "logs/a/rank-0.out"), "out of 0\n");
  EXPECT_EQ(shown(dir_ / "logs/b/rank-1.out"), "out of 1\n");
  EXPECT_EQ(shown(dir_ / "logs/b/rank-1.err"), "err\n");
  EXPECT_THAT(done.standard_output, HasSubstr("[b:1] out of 1\n"));
  EXPECT_THAT(done.standard_error, HasSubstr("[b:1] err\n"));
  const auto json = nlohmann::json::parse(shown(report), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["first_failure"]["host"], "b");
  EXPECT_EQ(json["hosts"][1]["report"]["exit_code"], 1);
}

TEST_F(HostsCommand, APostMortemIsTheReportOfTheHostThatFailed) {
  const std::string why = (dir_ / "why.json").string();
  const auto done =
      launch("a,b", {"-q", "--post-mortem", why, "--", "sh", "-c", "if [ $RANK = 1 ]; then exit 7; fi; exec sleep 60"});
  EXPECT_EQ(done.exit_code, 7) << done.standard_error;
  const auto json = nlohmann::json::parse(shown(why), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["exit_code"], 7);
  const auto told = run({"report", why});
  EXPECT_EQ(told.exit_code, 0) << told.standard_error;
}

TEST_F(HostsCommand, AFailedJobIsStartedAgainOnAllHosts) {
  const auto done =
      launch("a,b", {"--max-restarts", "2", "--restart-delay", "10ms", "--", "sh", "-c",
                     "echo $RANK try $GPUWARDEN_RESTART_COUNT; test $RANK$GPUWARDEN_RESTART_COUNT != 10"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_output,
              AllOf(HasSubstr("[a:0] 0 try 1\n"), HasSubstr("[b:1] 1 try 1\n"), Not(HasSubstr("try 2"))));
  EXPECT_THAT(done.standard_error, HasSubstr("starting again on the same hosts"));
}

TEST_F(HostsCommand, NothingIsLeftWhereTheLauncherIsKilled) {
  const std::string pids = (dir_ / "pids").string();
  std::filesystem::create_directories(pids);
  std::string words = shell_word(GPUWARDEN_PROGRAM);
  for (const std::string& word : on("run", "a,b",
                                    {"--grace", "60s", "--", "sh", "-c",
                                     "trap '' TERM; sleep 300 & echo $! > " + pids + "/$RANK-child; echo $$ > " + pids +
                                         "/$RANK; wait; sleep 300"}))
    words += " " + shell_word(word);
  const auto killed = run_patiently({.argv = {"sh", "-c",
                                              words + " </dev/null >/dev/null 2>&1 & launcher=$!; until [ -s " + pids +
                                                  "/0 -a -s " + pids + "/1 ]; do sleep 0.05; done; kill -9 $launcher"},
                                     .environment = environment_});
  ASSERT_EQ(killed->exit_code, 0);
  for (const char* name : {"0", "0-child", "1", "1-child"}) {
    const auto pid = parse_integer(trim(shown(dir_ / "pids" / name)));
    ASSERT_TRUE(pid.has_value()) << name;
    EXPECT_TRUE(eventually(kSoon, [&] { return ::kill(static_cast<pid_t>(*pid), 0) != 0; })) << name;
  }
}

TEST_F(HostsCommand, AnAgentThatIsKilledIsALostHostAndItsRanksEnd) {
  // The rank's parents are two guardians, and theirs is the agent.
  const std::string script = "echo $$ > " + (dir_ / "rank-").string() +
                             "$RANK; if [ $RANK = 1 ]; then p=$$; for i in 1 2 3; do p=$(awk "
                             "'/^PPid/ {print $2}' /proc/$p/status); done; kill -9 $p; fi; trap '' TERM; sleep 300";
  const auto done = launch("a,b", {"--grace", "1s", "--max-restarts", "3", "--", "sh", "-c", script});
  EXPECT_EQ(done.exit_code, 255) << done.standard_error;
  EXPECT_THAT(done.standard_error, AllOf(HasSubstr("lost b: gpuwarden there ended with exit code 137"),
                                         HasSubstr("it is not started again: lost b")));
  for (const char* name : {"rank-0", "rank-1"}) {
    const auto pid = parse_integer(trim(shown(dir_ / name)));
    ASSERT_TRUE(pid.has_value()) << name;
    EXPECT_TRUE(eventually(kSoon, [&] { return ::kill(static_cast<pid_t>(*pid), 0) != 0; })) << name;
  }
}

TEST_F(HostsCommand, ASignalReachesAllRanksWhichHaveTheLastWord) {
  const std::string up = (dir_ / "up").string();
  const std::string saved = (dir_ / "saved").string();
  const std::string rank =
      "trap 'echo $RANK >> " + saved + "; exit 9' TERM; echo $RANK >> " + up + "; while :; do sleep 0.05; done";
  std::string words = shell_word(GPUWARDEN_PROGRAM);
  for (const std::string& word : on("run", "a,b", {"-q", "--", "sh", "-c", rank})) words += " " + shell_word(word);
  const std::string script = words + " </dev/null & launcher=$!; until [ \"$(cat " + up +
                             " 2>/dev/null | wc -l)\" = 2 ]; do sleep 0.05; done; kill -TERM $launcher; wait $launcher";
  const auto done = run_patiently({.argv = {"sh", "-c", script}, .environment = environment_});
  EXPECT_EQ(done->exit_code, 9) << done->standard_error;
  const std::string all = shown(saved);
  EXPECT_THAT(all, AllOf(HasSubstr("0\n"), HasSubstr("1\n")));
}

TEST_F(HostsCommand, WhatIsWrongIsToldBeforeAnythingStarts) {
  refuses("a,nowhere", {"--", "true"}, 3, "cannot connect to nowhere: ssh: Could not resolve hostname nowhere");
  refuses("a,b,a", {"--", "true"}, 2, "--hosts: host 'a' is listed twice");
  refuses("a:2,b:2", {"-n", "4", "--", "true"}, 2, "-n 4 is for hosts without a number of their own");
  refuses("a:2", {"--gpu-ids", "0", "--", "true"}, 2, "a:2 and --gpu-ids cannot be used together");
  refuses("a,b", {"--nnodes", "3", "--", "true"}, 2, "--nnodes 3, but 2 hosts are given");
  refuses("a,b", {"--node-rank", "1", "--", "true"}, 2, "--hosts and --node-rank cannot be used together");
  refuses("a,b", {"--log-dir", "/proc/no", "--", "true"}, 2, "cannot write logs into /proc/no/a");
  refuses("a,b", {"--report", "/no/such/x", "--", "true"}, 2, "--report: cannot write");
  refuses("a,b", {"--env", "NO_SUCH_VARIABLE", "--", "true"}, 2, "--env: NO_SUCH_VARIABLE is not set here");
  refuses("a,b", {"--", "no-such-program"}, 2, "a: 'no-such-program' was not found");
  refuses("a,b", {}, 2, "no command to run was given");
  expect_error({"run", "--ssh", "x", "--", "true"}, 2, "--ssh requires --hosts");
  expect_error({"run", "--env", "A=b", "--", "true"}, 2, "--env requires --hosts");
  expect_error({"run", "--hosts", "a", "--ssh", "no-such-ssh", "--", "true"}, 2, "'no-such-ssh' was not found");
}

TEST_F(HostsCommand, WhatIsForOneMachineIsRefusedNotDropped) {
  refuses("a,b", {"--checkpoint", "x", "--", "true"}, 2, "--hosts and --checkpoint cannot be used together");
  refuses("a,b", {"--probation", "1m", "--", "true"}, 2, "--hosts and --probation cannot be used together");
  refuses("a,b", {"--cpu-fallback", "--", "true"}, 2, "--hosts and --cpu-fallback cannot be used together");
  refuses("a,b", {"--end-leftovers", "x"}, 2, "--hosts and --end-leftovers cannot be used together");
  refuses("a,b", {"-n", "2:4", "--", "true"}, 2, "--hosts and a range of --num-gpus cannot be used together");
  refuses("a,b", {"--nproc-per-node", "2:4", "--", "true"}, 2, "a range of --nproc-per-node cannot be used together");
  refuses("a,b", {"--nnodes", "1:2", "--", "true"}, 2, "a range of --nnodes cannot be used together");
  refuses("a,b", {"--signal", "USR1@60", "--", "true"}, 2, "--signal requires --time-limit");
  refuses("a,b", {"--config", file("c.yaml", "run:\n  cpu-fallback: true\n"), "--", "true"}, 2,
          "--hosts and --cpu-fallback cannot be used together");
}

TEST_F(HostsCommand, ATimeLimitEndsTheJobOnAllHosts) {
  const auto done = launch("a,b", {"-q", "--time-limit", "1s", "--", "sleep", "300"});
  EXPECT_EQ(done.exit_code, 124) << done.standard_error;
}

TEST_F(HostsCommand, TheRunPartOfAConfigurationIsTheLaunchersToo) {
  const std::string report = (dir_ / "report.json").string();
  const std::string config =
      file("c.yaml", "run:\n  max-restarts: 1\n  restart-delay: 10ms\n  report: " + report + "\n");
  const auto done = launch("a", {"-q", "--config", config, "--", "sh", "-c", "test $GPUWARDEN_RESTART_COUNT = 1"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  const auto json = nlohmann::json::parse(shown(report), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["hosts"][0]["report"]["exit_code"], 0) << "written once, by the launcher";
}

TEST_F(HostsCommand, AnotherVersionOrNoneIsTold) {
  const std::string old = file("old", "#!/bin/sh\necho gpuwarden 0.0.9\n[ \"$1\" = --version ] || exit 2\n");
  ::chmod(old.c_str(), 0755);
  expect_error({"run", "--ssh", ssh_, "--remote-program", old, "--hosts", "a,b", "--", "true"}, 3,
               "a has gpuwarden 0.0.9, this is ");
  expect_error({"run", "--ssh", ssh_, "--remote-program", "/no/such", "--hosts", "a", "--", "true"}, 3,
               "there is no gpuwarden on a");
}

TEST_F(HostsCommand, WhatALoginPrintsDoesNotDisturb) {
  put(dir_ / "hosts/a/greeting", "Welcome to host a\n");
  const auto done = launch("a", {"-q", "--", "echo", "fine"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_EQ(done.standard_output, "[a:0] fine\n");
}

TEST_F(HostsCommand, AListShowsTheGpusOfAllHostsInOneTable) {
  const auto done = run(on("list", "a,b", {}));
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_TRUE(done.standard_output.starts_with("SIMULATED a (h100x8), b (h100x8)\nhost ")) << done.standard_output;
  for (const char* row : {"\na     0 H100", "\na     7 H100", "\nb     0 H100"})
    EXPECT_THAT(done.standard_output, HasSubstr(row));
  const auto json = nlohmann::json::parse(run(on("list", "a,b", {"--json"})).standard_output, nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["nodes"][1]["name"], "b");
  EXPECT_EQ(json["nodes"][1]["snapshot"]["gpus"].size(), 8U);
}

TEST_F(HostsCommand, AListNamesTheHostThatDoesNotAnswerAndShowsTheRest) {
  const auto done = run(on("list", "a,nowhere", {}));
  EXPECT_EQ(done.exit_code, 3);
  EXPECT_THAT(done.standard_output,
              AllOf(HasSubstr("\na        0 H100"), HasSubstr("nowhere"), HasSubstr("Could not resolve hostname")));
  const auto json = nlohmann::json::parse(run(on("list", "a,nowhere", {"--json"})).standard_output, nullptr, false);
  EXPECT_THAT(json["nodes"][1]["problem"]["message"].get<std::string>(), HasSubstr("cannot connect to nowhere"));
  expect_error({"list", "--hosts", "a", "--watch"}, 2, "--hosts and --watch cannot be used together");
}

TEST_F(HostsCommand, AListOfASickHostFailsAsListDoes) {
  auto words = on("list", "a", {});
  *std::ranges::find(words, "h100x8") = "h100x8-sick";
  const auto done = run(words);
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_THAT(done.standard_output, HasSubstr("fell off the PCIe bus"));
}

TEST_F(HostsCommand, SoManyGpusInAllAreTakenOnTheFewestHosts) {
  const auto done = launch("a,b,c", {"--gpus", "12", "--nproc-per-node", "gpu", "--", "sh", "-c", "echo $WORLD_SIZE"});
  EXPECT_EQ(done.exit_code, 0) << done.standard_error;
  EXPECT_THAT(done.standard_error, AllOf(HasSubstr("12 ranks on 2 hosts"), Not(HasSubstr("  c:"))));
  EXPECT_THAT(done.standard_output, HasSubstr("12\n"));
  const auto without = launch("a,gone,c", {"-G", "9", "--", "true"});
  EXPECT_EQ(without.exit_code, 0) << without.standard_error;
  EXPECT_THAT(without.standard_error, HasSubstr("left out: gone: "));
  refuses("a,b", {"--gpus", "17", "--", "true"}, 1, "17 GPUs were requested, but the 2 nodes have 16");
  refuses("a:2,b", {"--gpus", "4", "--", "true"}, 2, "a:2 and --gpus cannot be used together");
  refuses("a,b", {"--gpus", "4", "-n", "2", "--", "true"}, 2, "--gpus and --num-gpus cannot be used together");
  expect_error({"run", "--gpus", "4", "--", "true"}, 2, "--gpus requires --hosts");
  EXPECT_THAT(run({"run", "--gpus", "2", "--", "true"}).standard_error,
              HasSubstr("write -n 2 for GPUs of this machine"));
}

}  // namespace
}  // namespace gpuwarden::testing
