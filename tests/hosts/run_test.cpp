// SPDX-License-Identifier: Apache-2.0
// A job on several hosts, with hosts that answer as the test says.
#include "gpuwarden/hosts/run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "gpuwarden/base/file.hpp"
#include "hosts/fake_hosts.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::hosts::testing {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class RunOnHosts : public ::testing::Test {
 protected:
  RunOnHosts() {
    job_.version = "0.1.0";
    job_.run_id = "run-1";
    hooks_.warning = [this](const std::string& text) { warnings_.push_back(text); };
  }
  FakeHost& add(const std::string& name, std::uint32_t ranks = 1) {
    Order order;
    order.command = {"train"};
    job_.hosts.push_back({{name, {}}, order});
    FakeHost& there = links_.hosts[name];
    there.held.ranks = ranks;
    return there;
  }
  Result<HostsReport> run() { return run_on_hosts(job_, links_, hooks_, clock_); }

  gpuwarden::testing::FakeClock clock_;
  FakeHosts links_{clock_};
  JobOnHosts job_;
  HostsHooks hooks_;
  std::vector<std::string> warnings_;
};

TEST_F(RunOnHosts, RanksCountOnOverUnlikeHosts) {
  add("a", 1);
  add("b", 4);
  add("c", 2);
  const auto report = run();
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->last.exit_code, 0);
  const auto start = [&](const std::string& name) { return links_.hosts[name].starts.at(0); };
  EXPECT_EQ(start("a").first_rank, 0U);
  EXPECT_EQ(start("b").first_rank, 1U);
  EXPECT_EQ(start("c").first_rank, 5U);
  for (const char* name : {"a", "b", "c"}) {
    EXPECT_EQ(start(name).world_size, 7U) << name;
    EXPECT_EQ(start(name).nodes, 3U) << name;
    EXPECT_EQ(start(name).address, "10.0.0.1") << "the first address is not reached by the others";
    EXPECT_EQ(start(name).port, 15001) << name;
    EXPECT_EQ(start(name).job, "run-1") << name;
    EXPECT_TRUE(links_.hosts[name].input_closed) << name;
  }
  EXPECT_EQ(start("c").node, 2U);
}

TEST_F(RunOnHosts, OneHostThatLacksGpusStartsNothingAnywhere) {
  add("a");
  add("b").refuses = Error{ErrorCode::unsatisfied, "only 2 of the 4 requested GPUs are available", "wait"};
  const auto report = run();
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, ErrorCode::unsatisfied);
  EXPECT_EQ(report.error().message, "b: only 2 of the 4 requested GPUs are available");
  EXPECT_TRUE(links_.hosts["a"].starts.empty());
  EXPECT_TRUE(links_.hosts["a"].input_closed) << "it gives its GPUs back";
}

TEST_F(RunOnHosts, EachHostThatLacksSomethingIsNamed) {
  add("a").refuses = Error{ErrorCode::unsatisfied, "no GPU is free", ""};
  add("b");
  add("c").version = "0.0.9";
  const auto report = run();
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().message, "c has gpuwarden 0.0.9, this is 0.1.0");
  EXPECT_THAT(links_.calls, Not(Contains(HasSubstr(":order")))) << "no GPU is asked for before all can take part";
  links_.hosts["c"].version = "0.1.0";
  links_.hosts["c"].refuses = Error{ErrorCode::unsatisfied, "only 1 of 2", ""};
  FakeHosts again(clock_);
  again.hosts = links_.hosts;
  const auto both = run_on_hosts(job_, again, hooks_, clock_);
  ASSERT_FALSE(both.has_value());
  EXPECT_THAT(both.error().message,
              AllOf(HasSubstr("2 hosts"), HasSubstr("\n  a: no GPU is free"), HasSubstr("\n  c: only 1 of 2")));
}

TEST_F(RunOnHosts, SshsOwnWordsAreToldWhereItIsRefused) {
  add("a");
  FakeHost& refused = add("b");
  refused.ssh_exit_code = 255;
  refused.ssh_words = "ada@b: Permission denied (publickey).\r\n";
  const auto report = run();
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, ErrorCode::unavailable);
  EXPECT_EQ(report.error().message, "cannot connect to b: ada@b: Permission denied (publickey).");
  EXPECT_THAT(links_.calls, Not(Contains("a:order")));
}

TEST_F(RunOnHosts, AHostWithoutGpuwardenIsNamed) {
  FakeHost& bare = add("a");
  bare.ssh_exit_code = 127;
  bare.ssh_words = "bash: line 1: gpuwarden: command not found\n";
  const auto report = run();
  ASSERT_FALSE(report.has_value());
  EXPECT_THAT(report.error().message,
              HasSubstr("there is no gpuwarden on a: bash: line 1: gpuwarden: command not found"));
}

TEST_F(RunOnHosts, WhatAShellsStartFilePrintsIsNoMessage) {
  add("a").noise = "Welcome to a!\n{not json\n";
  const auto report = run();
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->last.exit_code, 0);
}

TEST_F(RunOnHosts, AHostThatNeverEndsALineIsLeft) {
  add("a").noise = std::string(std::size_t{70} << 10U, 'x');
  const auto report = run();
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, ErrorCode::corrupt);
  EXPECT_EQ(report.error().message, "a: no agent answers in 64 KiB of output");
}

TEST_F(RunOnHosts, WhoDoesNotReachTheFirstHostIsNamedBeforeAnythingStarts) {
  add("a");
  add("b");
  add("c").unreachable = "Connection timed out";
  const auto report = run();
  ASSERT_FALSE(report.has_value());
  EXPECT_THAT(report.error().message,
              AllOf(HasSubstr("do not reach a"), HasSubstr("from c: 10.0.0.1: Connection timed out")));
  EXPECT_TRUE(links_.hosts["a"].starts.empty());
}

TEST_F(RunOnHosts, TheFirstFailureByTimeIsTheJobsAndEndsTheOthers) {
  add("a", 2).runs = [](FakeHosts& links, std::size_t link, const Start&) {
    links.failed(link, 1, 3, milliseconds(40));
  };
  add("b", 2).runs = [](FakeHosts& links, std::size_t link, const Start&) {
    links.failed(link, 2, 9, milliseconds(30));
  };
  add("c", 1).runs = [](FakeHosts&, std::size_t, const Start&) {};  // until it is told to end
  const auto report = run();
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->last.exit_code, 9);
  EXPECT_EQ(report->last.failed_host, 1U);
  EXPECT_EQ(report->last.failed_rank, 2U);
  EXPECT_THAT(links_.calls, Contains("c:signal"));
  EXPECT_THAT(links_.calls, Not(Contains("b:signal"))) << "its agent ends the others of its ranks itself";
  ASSERT_TRUE(report->last.hosts[2].done.has_value());
}

TEST_F(RunOnHosts, AHostThatFallsSilentIsNamedAndTheOthersAreStopped) {
  add("a").runs = [](FakeHosts&, std::size_t, const Start&) {};
  add("b").runs = [](FakeHosts& links, std::size_t link, const Start&) { links.host(link).silent = true; };
  const auto begun = clock_.now();
  const auto report = run();
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->last.exit_code, kHostLost);
  EXPECT_THAT(report->last.hosts[1].lost, HasSubstr("lost b: nothing was heard of it for 15 s"));
  EXPECT_TRUE(links_.hosts["b"].cut_off);
  EXPECT_THAT(links_.calls, Contains("a:signal"));
  EXPECT_LT(clock_.now() - begun, seconds(30));
}

TEST_F(RunOnHosts, AnInterruptGoesToAllRanksAndIsTheExitCode) {
  for (const char* name : {"a", "b"}) add(name).runs = [](FakeHosts&, std::size_t, const Start&) {};
  links_.signal(SIGINT, seconds(5));
  const auto report = run();
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->last.exit_code, 128 + SIGINT);
  EXPECT_EQ(report->last.interrupted_by, SIGINT);
  EXPECT_THAT(links_.calls, AllOf(Contains("a:signal"), Contains("b:signal")));
}

TEST_F(RunOnHosts, AnInterruptBeforeTheStartStartsNothing) {
  add("a").silent = true;
  links_.signal(SIGTERM, seconds(2));
  const auto report = run();
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, ErrorCode::interrupted);
}

TEST_F(RunOnHosts, AFailedJobIsStartedAgainOnTheSameHosts) {
  job_.restarts.max_restarts = 2;
  job_.restarts.restart_arguments = {"--resume"};
  job_.restarts.first_pause = seconds(40);
  add("a").runs = [](FakeHosts& links, std::size_t link, const Start& start) {
    if (start.restart_count == 0) return links.failed(link, 0, 1, milliseconds(10));
    links.done(link, 0, milliseconds(10));
  };
  add("b").runs = [](FakeHosts& links, std::size_t link, const Start& start) {
    if (start.restart_count > 0) links.done(link, 0, milliseconds(10));
  };
  const auto report = run();
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->last.exit_code, 0);
  ASSERT_EQ(report->failed.size(), 1U);
  EXPECT_TRUE(report->failed[0].restarts);
  EXPECT_GE(report->failed[0].pause, seconds(32));
  EXPECT_LE(report->failed[0].pause, seconds(48));
  const auto& starts = links_.hosts["b"].starts;
  ASSERT_EQ(starts.size(), 2U) << "beats keep both sides alive in the pause";
  EXPECT_THAT(starts[1].arguments, ElementsAre("--resume"));
  EXPECT_EQ(std::ranges::count(links_.calls, "a:order"), 1) << "the GPUs stay held";
}

TEST_F(RunOnHosts, TheHostsAreToldTheTimeThatIsLeftAndNoTryBeginsWithoutAny) {
  add("a").runs = [](FakeHosts& hosts, std::size_t link, const Start& start) {
    hosts.failed(link, start.first_rank, 7, seconds(20));
  };
  job_.restarts.max_restarts = 5;
  job_.restarts.longest_pause = seconds(1);
  job_.time_limit = [this] {
    return launch::TimeLimit{.end = clock_.now() + seconds(60), .signal = SIGUSR1, .before = seconds(10)};
  };
  const auto report = run();
  ASSERT_TRUE(report.has_value()) << report.error().message;
  const auto& starts = links_.hosts["a"].starts;
  ASSERT_EQ(starts.size(), 3U) << "after 63 s none is started";
  EXPECT_EQ(starts[0].time_left, seconds(60));
  EXPECT_EQ(starts[0].time_signal, SIGUSR1);
  EXPECT_EQ(starts[0].time_signal_before, seconds(10));
  EXPECT_LT(starts[1].time_left, seconds(40));
  EXPECT_EQ(report->last.decision, "no time is left for another try");
}

TEST_F(RunOnHosts, WhatTheHooksSayIsWrittenAmongTheRanksErrors) {
  add("a");
  hooks_.starting = [this](const std::vector<HostEnd>&, const Start&) { warnings_.emplace_back("they start\n"); };
  hooks_.to_tell = [this] {
    std::string all;
    for (const std::string& one : std::exchange(warnings_, {})) all += one;
    return all;
  };
  ::testing::internal::CaptureStderr();
  const auto report = run();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "they start\n");
  ASSERT_TRUE(report.has_value()) << report.error().message;
}

TEST_F(RunOnHosts, WhatEndsEveryTryTheSameWayIsNotStartedAgain) {
  job_.restarts.max_restarts = 3;
  add("a").runs = [](FakeHosts& links, std::size_t link, const Start&) {
    Done done;
    done.exit_code = 1;
    done.restart = "never";
    done.why = "TypeError: no";
    links.send_back(link, kDone, to_json(done), {}, milliseconds(10));
  };
  const auto report = run();
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->last.exit_code, 1);
  EXPECT_EQ(report->last.decision, "another try would end the same way: TypeError: no");
  EXPECT_EQ(links_.hosts["a"].starts.size(), 1U);
}

TEST_F(RunOnHosts, AJobThatLostAHostIsNotStartedAgain) {
  job_.restarts.max_restarts = 3;
  add("a").runs = [](FakeHosts&, std::size_t, const Start&) {};
  add("b").runs = [](FakeHosts& links, std::size_t link, const Start&) { links.host(link).silent = true; };
  const auto report = run();
  ASSERT_TRUE(report.has_value());
  EXPECT_THAT(report->last.decision, HasSubstr("it is not started again: lost b"));
}

TEST_F(RunOnHosts, AHostWhoseGpuWasAtFaultIsAskedForOthers) {
  job_.restarts.max_restarts = 1;
  add("a").runs = [](FakeHosts& links, std::size_t link, const Start& start) {
    if (start.restart_count > 0) return links.done(link, 0, milliseconds(10));
    Done done;
    done.exit_code = 1;
    done.restart = "other_gpus";
    done.gpus_at_fault = {Uuid("GPU-7")};
    links.send_back(link, kDone, to_json(done), {}, milliseconds(10));
  };
  const auto report = run();
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->last.exit_code, 0);
  auto heard = links_.hosts["a"].heard;
  std::erase_if(heard, [](const Message& one) { return one.type != kOrder; });
  ASSERT_EQ(heard.size(), 2U);
  EXPECT_THAT(order_from_json(heard[1].head).value().without, ElementsAre(Uuid("GPU-7")));
}

TEST_F(RunOnHosts, JobsThatWaitAskInTheOrderOfTheMachines) {
  job_.one_by_one = true;
  add("x").machine = "node2";
  add("y").machine = "node1";
  ASSERT_TRUE(run().has_value());
  const auto at = [&](const std::string& call) { return std::ranges::find(links_.calls, call) - links_.calls.begin(); };
  EXPECT_LT(at("y:order"), at("x:order"));
  EXPECT_EQ(links_.hosts["x"].starts.at(0).node, 0U) << "ranks are in the order in which they were named";
}

TEST_F(RunOnHosts, LogsAreKeptByHostAndRank) {
  const gpuwarden::testing::TempDir folder;
  job_.log_directory = folder / "logs";
  job_.redirects = launch::StreamChoice::parse("3").value();
  add("a");
  add("b", 2).runs = [](FakeHosts& links, std::size_t link, const Start& start) {
    links.send_back(link, kOutput, {{"rank", start.first_rank + 1}, {"stream", 1}}, "loss 1\nno end", milliseconds(1));
    links.send_back(link, kOutput, {{"rank", start.first_rank}, {"stream", 2}}, "warn\xff\n", milliseconds(1));
    links.done(link, 0, milliseconds(5));
  };
  ASSERT_TRUE(run().has_value());
  EXPECT_EQ(read_file(folder / "logs/b/rank-2.out").value_or(""), "loss 1\nno end");
  EXPECT_EQ(read_file(folder / "logs/b/rank-1.err").value_or(""), "warn\xff\n") << "byte by byte";
}

TEST_F(RunOnHosts, AFolderThatCannotBeWrittenIsToldBeforeAnyHostIsAsked) {
  job_.log_directory = "/proc/no";
  add("a");
  const auto report = run();
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().message, "cannot write logs into /proc/no/a");
  EXPECT_TRUE(links_.calls.empty());
}

TEST_F(RunOnHosts, TheReportTellsOfEachHost) {
  add("a").runs = [](FakeHosts& links, std::size_t link, const Start&) { links.failed(link, 0, 7, milliseconds(10)); };
  add("b").runs = [](FakeHosts&, std::size_t, const Start&) {};
  const auto report = run();
  ASSERT_TRUE(report.has_value());
  const Json json = to_json(*report, job_);
  EXPECT_EQ(json["exit_code"], 7);
  EXPECT_EQ(json["first_failure"]["host"], "a");
  EXPECT_EQ(json["first_failure"]["rank"], 0);
  EXPECT_EQ(json["hosts"][1]["host"], "b");
  EXPECT_EQ(json["hosts"][1]["exit_code"], 143);
  EXPECT_TRUE(json["hosts"][1]["lost"].is_null());
}

}  // namespace
}  // namespace gpuwarden::hosts::testing
