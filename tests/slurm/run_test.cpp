// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/slurm/run.hpp"

#include <nlohmann/json.hpp>

#include "gpuwarden/slurm/site.hpp"
#include "slurm/fake_programs.hpp"
#include "support/fake_clock.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::slurm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string told(const std::string& id, const std::string& state, const std::string& reason, const std::string& exit,
                 const std::string& nodes = "gn1") {
  return "JobId=" + id + " JobName=x UserId=ada(1) JobState=" + state + " Reason=" + reason + " ExitCode=" + exit +
         " RunTime=00:00:01 TimeLimit=1:00 Partition=gpu NodeList=" + nodes + " NumNodes=1\n";
}
std::string show(const std::string& id) { return "scontrol show job -o " + id; }

constexpr const char* kLostGpu = R"({"simulated": false, "exit_code": 9, "ranks": [{}],
  "gpus": [{"index": 3, "uuid": "GPU-3", "name": "H100", "trouble": "the GPU is lost", "mean_utilization_percent": 50.0,
            "peak_memory_bytes": 1024, "energy_joules": null}],
  "attempts": [{"restart": "other_gpus", "why": "GPU 3 fell off the bus", "gpus_at_fault": ["GPU-3"]}]})";

class SlurmRun : public ::testing::Test {
 protected:
  Result<Outcome> go(Policy policy = {}) {
    policy.log_directory = dir_.path().string();
    hooks_.follow.stop = stop_;
    hooks_.follow.changed = [&](const Job& job) { states_.push_back(job.state + " " + job.reason); };
    hooks_.follow.output = [&](std::string_view text) { log_ += text; };
    hooks_.failed = [&](const Attempt& attempt) { failed_.push_back(attempt); };
    return run(programs_, {.name = "x", .command = "true"}, policy, hooks_, clock_);
  }
  void report(const std::string& id, const std::string& node, std::string_view text) const {
    testing::put(dir_ / ("slurm-" + id) / (node + ".json"), text);
  }

  testing::TempDir dir_;
  testing::FakeClock clock_;
  FakePrograms programs_;
  Hooks hooks_;
  std::stop_token stop_;
  std::vector<std::string> states_;
  std::vector<Attempt> failed_;
  std::string log_;
};

TEST_F(SlurmRun, FollowsAJobToItsEnd) {
  testing::put(dir_ / "slurm-12.out", "step 1\nstep 2\n");
  report("12", "gn1", R"({"exit_code": 0, "ranks": [{}, {}], "gpus": []})");
  programs_.on("sbatch --parsable", "12;lab\n")
      .on(show("12"), told("12", "PENDING", "Priority", "0:0", "(null)"))
      .on(show("12"), told("12", "PENDING", "Priority", "0:0", "(null)"))
      .on(show("12"), told("12", "RUNNING", "None", "0:0"))
      .on(show("12"), told("12", "COMPLETED", "None", "0:0"));
  const auto outcome = go();
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_THAT(states_, ElementsAre("PENDING Priority", "RUNNING ", "COMPLETED "));
  EXPECT_EQ(log_, "step 1\nstep 2\n");
  EXPECT_EQ(outcome->reports.at(0).ranks, 2U);
  EXPECT_THAT(programs_.inputs.at(0), HasSubstr("#SBATCH --job-name=x\n"));
  EXPECT_EQ(to_json(*outcome)["exit_code"], 0);
}

TEST_F(SlurmRun, WhileItRunsASummaryIsToldOnceAMinute) {
  programs_.on("sbatch --parsable", "12\n").on(show("12"), told("12", "PENDING", "Priority", "0:0"));
  for (int i = 0; i < 40; ++i) programs_.on(show("12"), told("12", "RUNNING", "None", "0:0"));
  programs_.on(show("12"), told("12", "COMPLETED", "None", "0:0"));
  std::size_t summaries = 0;
  hooks_.follow.summary = [&](const Job& job) {
    EXPECT_EQ(job.state, "RUNNING");
    ++summaries;
    return true;
  };
  std::size_t stills = 0;
  hooks_.follow.still = [&](const Job&) { ++stills; };
  ASSERT_TRUE(go());
  EXPECT_GE(summaries, 2U);
  EXPECT_LE(summaries, 4U) << "forty looks take less than five minutes";
  EXPECT_EQ(stills, 0U) << "something was told each minute";
}

TEST(SlurmStatus, SumsUpWhatTheGpusOfANodeDo) {
  const NodeStatus status = read_status("gn1", R"({"simulated": true, "gpus": [
      {"usable": true, "utilization_percent": 90, "memory_used_bytes": 10, "memory_total_bytes": 80,
       "temperature_celsius": 61, "power_watts": 300.5},
      {"usable": false, "utilization_percent": null, "memory_used_bytes": null, "memory_total_bytes": null,
       "temperature_celsius": 70}]})");
  EXPECT_TRUE(status.simulated);
  EXPECT_EQ(status.gpus, 2U);
  EXPECT_THAT(status.utilization, ElementsAre(90.0));
  EXPECT_EQ(status.memory_used_bytes, 10U);
  EXPECT_EQ(status.memory_total_bytes, 80U);
  EXPECT_EQ(status.hottest_celsius, 70.0);
  EXPECT_EQ(status.in_trouble, 1U);
  EXPECT_EQ(read_status("gn1", "{").gpus, 0U);
  EXPECT_EQ(read_status("gn1", R"({"gpus": [7, {"utilization_percent": "x"}]})").gpus, 2U);
}

TEST_F(SlurmRun, StatusesAreThoseOfTheJobsOwnNodes) {
  std::filesystem::create_directories(dir_ / "slurm-1");
  const auto now = std::chrono::system_clock::now();
  const auto text_of = [](Clock::WallTime time) {
    return R"({"time": ")" + format_utc(time) + R"(", "gpus": [{"usable": true, "utilization_percent": 5}]})";
  };
  const std::string text = text_of(now);
  testing::put(dir_ / "slurm-1/gn1.status", text);
  testing::put(dir_ / "slurm-1/gn7.status", text);
  testing::put(dir_ / "slurm-1/gn2.status", "half of {");
  const auto statuses = read_statuses(dir_ / "slurm-1", "gn[1-2]", now);
  ASSERT_EQ(statuses.size(), 1U);
  EXPECT_EQ(statuses[0].node, "gn1");
}

TEST_F(SlurmRun, AnOldStatusIsNotWhatTheGpusDoJustNow) {
  std::filesystem::create_directories(dir_ / "slurm-1");
  const auto now = std::chrono::system_clock::now();
  const auto put = [&](const std::string& node, const std::string& time) {
    testing::put(dir_ / "slurm-1" / (node + ".status"), R"({"time": )" + time + R"(, "gpus": [{"usable": true}]})");
  };
  const auto quoted = [](Clock::WallTime time) { return '"' + format_utc(time) + '"'; };
  put("gn1", quoted(now - std::chrono::minutes(6)));
  put("gn2", quoted(now - std::chrono::minutes(5)));
  put("gn3", quoted(now + std::chrono::minutes(4)));
  put("gn4", "null");
  put("gn5", R"("yesterday")");
  testing::put(dir_ / "slurm-1/gn6.status", R"({"gpus": [{"usable": true}]})");
  std::vector<std::string> told;
  for (const NodeStatus& one : read_statuses(dir_ / "slurm-1", "gn[1-6]", now)) told.push_back(one.node);
  EXPECT_THAT(told, ElementsAre("gn2", "gn3")) << "clocks may be some minutes apart";
}

TEST_F(SlurmRun, ALongLogIsShownToItsEnd) {
  testing::put(dir_ / "slurm-12.out", std::string(std::size_t{9} << 20U, 'x'));
  programs_.on("sbatch --parsable", "12\n")
      .on(show("12"), told("12", "RUNNING", "None", "0:0"))
      .on(show("12"), told("12", "COMPLETED", "None", "0:0"));
  ASSERT_TRUE(go());
  EXPECT_EQ(log_.size(), std::size_t{9} << 20U);
}

TEST(SlurmPrograms, WhatWasCutOffIsNotTakenForTheWhole) {
  class Talkative final : public Programs {
   public:
    Result<Completed> run(const Command& /*command*/) override {
      return Completed{.exit_code = 0, .truncated = true, .standard_output = "node1"};
    }
  } programs;
  const auto output = output_of(programs, {"sinfo"});
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code, ErrorCode::corrupt);
  EXPECT_EQ(output.error().message, "sinfo prints more than is read");
}

TEST_F(SlurmRun, SbatchsOwnWordsAreTheError) {
  programs_.on("sbatch --parsable", "", 1,
               "sbatch: error: Batch job submission failed: Requested node configuration is not available\n");
  const auto outcome = go();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::unsatisfied);
  EXPECT_EQ(outcome.error().message,
            "sbatch: Batch job submission failed: Requested node configuration is not available");
}

TEST_F(SlurmRun, ANodeWithAFailedGpuIsDrainedAndLeftOut) {
  report("1", "gn1", kLostGpu);
  report("2", "gn2", R"({"exit_code": 0, "ranks": [{}], "gpus": []})");
  programs_.on("sbatch --parsable", "1\n").on("sbatch --parsable", "2\n");
  programs_.on(show("1"), told("1", "FAILED", "NonZeroExitCode", "9:0"))
      .on("scontrol update NodeName=gn1 State=DRAIN Reason=gpuwarden: GPU 3: the GPU is lost", "")
      .on(show("2"), told("2", "COMPLETED", "None", "0:0", "gn2"));
  const auto outcome = go({.max_restarts = 1});
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->job.id, "2");
  ASSERT_EQ(failed_.size(), 1U);
  EXPECT_TRUE(failed_[0].again);
  EXPECT_THAT(failed_[0].drained, ElementsAre(NodeFault{"gn1", "GPU 3: the GPU is lost"}));
  EXPECT_THAT(programs_.inputs.at(3), HasSubstr("#SBATCH --exclude=gn1\n")) << "the second submission";
  EXPECT_EQ(to_json(*outcome)["attempts"][0]["drained"][0]["node"], "gn1");
}

TEST_F(SlurmRun, WhereDrainingIsNotPermittedTheCommandIsThere) {
  report("1", "gn1", kLostGpu);
  const std::string words = "scontrol update NodeName=gn1 State=DRAIN Reason=gpuwarden: GPU 3: the GPU is lost";
  programs_.on("sbatch --parsable", "1\n")
      .on(show("1"), told("1", "FAILED", "NonZeroExitCode", "9:0"))
      .on(words, "", 1, "slurm_update error: Invalid user id\n");
  const auto outcome = go();
  ASSERT_TRUE(outcome);
  ASSERT_EQ(failed_.size(), 1U);
  EXPECT_FALSE(failed_[0].again) << "no tries are left";
  EXPECT_TRUE(failed_[0].drained.empty());
  ASSERT_EQ(failed_[0].not_drained.size(), 1U);
  EXPECT_EQ(drain_command(failed_[0].not_drained[0]),
            "scontrol update NodeName=gn1 State=DRAIN 'Reason=gpuwarden: GPU 3: the GPU is lost'");
  EXPECT_EQ(exit_code_of(outcome->job), 9);
}

TEST_F(SlurmRun, ANodeOfAnotherJobIsNotDrainedWhateverLiesInTheFolder) {
  report("1", "gn1", R"({"exit_code": 9, "ranks": []})");
  report("1", "node[0-99]", kLostGpu);
  report("1", "gn2", kLostGpu);
  programs_.on("sbatch --parsable", "1\n").on(show("1"), told("1", "FAILED", "NonZeroExitCode", "9:0"));
  const auto outcome = go();
  ASSERT_TRUE(outcome);
  ASSERT_EQ(outcome->reports.size(), 1U);
  EXPECT_EQ(outcome->reports[0].node, "gn1");
  EXPECT_TRUE(failed_.at(0).verdict.faults.empty());
}

TEST_F(SlurmRun, WhatCannotBeSubmittedAgainKeepsItsOutcome) {
  report("1", "gn1", R"({"exit_code": 9, "attempts": [{"restart": "again", "why": "it was killed"}]})");
  programs_.on("sbatch --parsable", "1\n")
      .on("sbatch --parsable", "", 1, "sbatch: error: QOSMaxSubmitJobPerUserLimit\n");
  programs_.on(show("1"), told("1", "FAILED", "NonZeroExitCode", "9:0"));
  const auto outcome = go({.max_restarts = 3});
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(exit_code_of(*outcome), 9);
  ASSERT_EQ(failed_.size(), 1U);
  EXPECT_FALSE(failed_[0].again);
  EXPECT_THAT(failed_[0].verdict.why, HasSubstr("it could not be submitted again: sbatch: QOSMaxSubmit"));
}

TEST_F(SlurmRun, AStopAtTheEndOfAJobSubmitsNoOther) {
  std::stop_source source;
  stop_ = source.get_token();
  report("1", "gn1", R"({"exit_code": 9, "attempts": [{"restart": "again", "why": "it was killed"}]})");
  programs_.on("sbatch --parsable", "1\n").on(show("1"), told("1", "FAILED", "NonZeroExitCode", "9:0"));
  hooks_.submitted = [&](const std::string&) { source.request_stop(); };
  const auto outcome = go({.max_restarts = 3});
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(std::ranges::count(programs_.asked, "sbatch --parsable"), 1);
  EXPECT_FALSE(failed_.at(0).again);
}

TEST_F(SlurmRun, ASimulatedGpuDrainsNoRealNode) {
  std::string simulated = kLostGpu;
  simulated.replace(simulated.find("false"), 5, "true");
  report("1", "gn1", simulated);
  programs_.on("sbatch --parsable", "1\n").on(show("1"), told("1", "FAILED", "NonZeroExitCode", "9:0"));
  ASSERT_TRUE(go());
  EXPECT_EQ(failed_.at(0).not_drained.size(), 1U);
}

TEST_F(SlurmRun, ProgramsWithoutAClusterSaySo) {
  programs_.on("sinfo", "", 1,
               "sinfo: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\nsinfo: fatal: Could not "
               "establish a configuration source\n");
  const auto output = output_of(programs_, {"sinfo"});
  EXPECT_EQ(output.error().code, ErrorCode::unavailable);
  EXPECT_THAT(output.error().message, ::testing::HasSubstr("sinfo finds no Slurm cluster"));
  EXPECT_THAT(output.error().hint, ::testing::HasSubstr("login node"));
}

TEST_F(SlurmRun, AControllerThatIsAwayIsAskedAgain) {
  const std::string away = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n";
  std::vector<std::string> warnings;
  hooks_.follow.warning = [&](const std::string& text) { warnings.push_back(text); };
  programs_.on("sbatch --parsable", "1\n")
      .on(show("1"), told("1", "RUNNING", "None", "0:0"))
      .on(show("1"), "", 1, away)
      .on(show("1"), "", 1, away)
      .on(show("1"), told("1", "COMPLETED", "None", "0:0"));
  ASSERT_TRUE(go());
  EXPECT_EQ(warnings.size(), 1U) << "once for an outage";
}

TEST_F(SlurmRun, AControllerThatStaysAwayIsGivenUp) {
  programs_.on("sbatch --parsable", "1\n").on(show("1"), "", 1, "Unable to contact slurm controller\n");
  const auto outcome = go();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::unavailable);
}

TEST_F(SlurmRun, AnErrorOfScontrolsThatPassesDoesNotEndTheFollowing) {
  programs_.on("sbatch --parsable", "1\n")
      .on(show("1"), told("1", "RUNNING", "None", "0:0"))
      .on(show("1"), "", 1, "slurm_load_jobs error: Socket timed out on send/recv operation\n")
      .on(show("1"), told("1", "COMPLETED", "None", "0:0"));
  const auto outcome = go();
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->job.state, "COMPLETED");
}

TEST_F(SlurmRun, AStopLeavesTheJobAlone) {
  std::stop_source source;
  source.request_stop();
  stop_ = source.get_token();
  programs_.on("sbatch --parsable", "1\n").on(show("1"), told("1", "RUNNING", "None", "0:0"));
  const auto outcome = go();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::interrupted);
}

TEST_F(SlurmRun, WhatWasForgottenIsLookedUpInTheHistory) {
  programs_.on(show("9"), "", 1, "slurm_load_jobs error: Invalid job id specified\n")
      .on(std::string("sacct -n -X -P -j 9 -o ") + kHistoryFormat, "9|FAILED|3:0|gn1|x\n");
  EXPECT_EQ(exit_code_of(find_job(programs_, "9").value()), 3);
  programs_.on(show("8"), "", 1, "slurm_load_jobs error: Invalid job id specified\n")
      .on(std::string("sacct -n -X -P -j 8 -o ") + kHistoryFormat, "", 1, "Slurm accounting storage is disabled\n");
  EXPECT_EQ(find_job(programs_, "8").error().code, ErrorCode::not_found);
}

TEST_F(SlurmRun, ThatAJobIsNotKnownIsReadFromSlurmsWordsOnce) {
  programs_.on("scancel 8", "", 1, "scancel: error: Kill job error on job id 8: Invalid job id specified\n")
      .on("scancel 9", "", 1, "scancel: error: Kill job error on job id 9: Access/permission denied\n")
      .on(show("9"), "", 1, "slurm_load_jobs error: Zero Bytes were transmitted or received\n");
  EXPECT_EQ(cancel(programs_, "8").error().code, ErrorCode::not_found);
  EXPECT_EQ(cancel(programs_, "9").error().code, ErrorCode::failed);
  EXPECT_EQ(find_job(programs_, "9").error().code, ErrorCode::unavailable) << "it may pass";
}

TEST_F(SlurmRun, TheExitCodeIsThatOfTheNodeThatFailedByItself) {
  report("1", "gn1", R"({"exit_code": 143, "ranks": []})");
  report("1", "gn2", R"({"exit_code": 7, "ranks": []})");
  programs_.on("sbatch --parsable", "1\n").on(show("1"), told("1", "FAILED", "NonZeroExitCode", "143:0", "gn[1-2]"));
  EXPECT_EQ(exit_code_of(go().value()), 7) << "srun tells the greatest";
}

Job failed_job(const std::string& state = "FAILED") { return {.id = "1", .state = state}; }

TEST(SlurmVerdict, TheGuiltyNodeSpeaksNotThoseThatWereEnded) {
  const NodeReport ended =
      read_report("gn1", R"({"exit_code": 143, "attempts": [{"restart": "again", "why": "ended"}]})");
  const NodeReport guilty =
      read_report("gn2", R"({"exit_code": 1, "attempts": [{"restart": "never", "why": "TypeError: x"}]})");
  const Verdict verdict = judge(failed_job(), {ended, guilty}, false);
  EXPECT_FALSE(verdict.again);
  EXPECT_EQ(verdict.why, "gn2: TypeError: x");
}

TEST(SlurmVerdict, ANodeThatEndedItsJobItselfWasNotEndedByOthers) {
  const NodeReport early = read_report("gn1", R"({"exit_code": 143, "interrupted_by": null,
      "attempts": [{"restart": "never", "why": "the memory is nearly used up"}]})");
  const NodeReport ended = read_report("gn2", R"({"exit_code": 1, "interrupted_by": 15, "attempts": []})");
  const Verdict verdict = judge(failed_job(), {ended, early}, false);
  EXPECT_FALSE(verdict.again);
  EXPECT_EQ(verdict.why, "gn1: the memory is nearly used up");
}

TEST(SlurmVerdict, ARankThatASignalReachedBeforeItsLauncherIsNotTheOneThatFailed) {
  const NodeReport killed = read_report("gn1", R"({"exit_code": 143, "interrupted_by": null,
      "attempts": [{"restart": "again", "why": "it was ended by signal 15, SIGTERM"}]})");
  const NodeReport guilty = read_report("gn2", R"({"exit_code": 7, "interrupted_by": null,
      "attempts": [{"restart": "never", "why": ""}]})");
  const Verdict verdict = judge(failed_job(), {killed, guilty}, false);
  EXPECT_FALSE(verdict.again);
  EXPECT_EQ(verdict.why, "gn2: exit code 7");
  EXPECT_EQ(exit_code_of(Outcome{.job = failed_job(), .reports = {killed, guilty}}), 7);
}

TEST(SlurmVerdict, ARankThatWasKilledHasFailedByItself) {
  const NodeReport killed = read_report("gn1", R"({"exit_code": 137, "interrupted_by": null,
      "attempts": [{"restart": "never", "why": "the host ran out of memory"}]})");
  const NodeReport peer = read_report("gn2", R"({"exit_code": 1, "interrupted_by": null,
      "attempts": [{"restart": "again", "why": "connection closed by peer"}]})");
  EXPECT_EQ(judge(failed_job(), {killed, peer}, false).why, "gn1: the host ran out of memory");
}

TEST(SlurmVerdict, ANodeThatCannotGiveItsGpusIsAtFault) {
  const NodeReport refused = read_report("gn1", R"({"exit_code": 1, "error": {"message": "only 1 of the 2"},
      "gpus_in_trouble": [{"index": 0, "uuid": "GPU-0", "cause": "lost: the GPU is lost"}]})");
  const Verdict verdict = judge(failed_job(), {refused}, false);
  EXPECT_TRUE(verdict.again);
  EXPECT_THAT(verdict.faults, ElementsAre(NodeFault{"gn1", "GPU 0: lost: the GPU is lost"}));
  const NodeReport busy =
      read_report("gn1", R"({"exit_code": 1, "error": {"message": "in use"}, "gpus_in_trouble": []})");
  EXPECT_FALSE(judge(failed_job(), {busy}, false).again);
}

TEST(SlurmVerdict, WhatTheSiteDidIsTriedAgain) {
  EXPECT_TRUE(judge(failed_job("NODE_FAIL"), {}, false).again);
  EXPECT_TRUE(judge(failed_job("PREEMPTED"), {}, false).again);
  EXPECT_FALSE(judge(failed_job("OUT_OF_MEMORY"), {}, false).again);
  EXPECT_TRUE(judge(failed_job("TIMEOUT"), {}, true).again) << "it was told before, and saved";
  const Verdict late = judge(failed_job("TIMEOUT"), {}, false);
  EXPECT_FALSE(late.again);
  EXPECT_THAT(late.why, HasSubstr("--signal"));
  EXPECT_FALSE(judge(failed_job(), {}, false).again) << "nothing is known";
}

TEST(SlurmReports, OnesOfAnEarlierJobOfThatNumberDoNotCount) {
  const testing::TempDir dir;
  testing::put(dir / "gn1.json", kLostGpu);
  const auto now = system_clock().wall_now();
  EXPECT_EQ(read_reports(dir.path(), "gn1", now).size(), 1U);
  EXPECT_TRUE(read_reports(dir.path(), "gn1", now + std::chrono::hours(1)).empty());
}

TEST(SlurmReports, DamageIsNoReport) {
  for (const char* text : {"", "[]", "{", "7"}) {
    const NodeReport report = read_report("gn1", text);
    EXPECT_FALSE(report.readable) << text;
    EXPECT_EQ(report.exit_code, std::nullopt);
  }
  const NodeReport odd = read_report("gn1", R"({"gpus": 7, "ranks": "x", "attempts": {}, "exit_code": "y"})");
  const NodeReport huge = read_report("gn1", R"({"exit_code": 1e99, "gpus": [{"index": 99999999999}]})");
  EXPECT_EQ(huge.exit_code, std::nullopt);
  EXPECT_EQ(huge.gpus.at(0).index, -1);
  EXPECT_TRUE(odd.readable);
  EXPECT_EQ(odd.exit_code, std::nullopt);
}

}  // namespace
}  // namespace gpuwarden::slurm
