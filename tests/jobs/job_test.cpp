// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/jobs/job.hpp"

#include <csignal>
#include <nlohmann/json.hpp>
#include <stop_token>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/hosts/values.hpp"
#include "gpuwarden/jobs/host_work.hpp"
#include "gpuwarden/knowledge/overlays.hpp"
#include "gpuwarden/machine/reserve.hpp"
#include "jobs/values.hpp"
#include "machine/simulated.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::jobs {
namespace {

using namespace std::chrono_literals;
using gpuwarden::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::said;
using ::testing::SizeIs;

/// Shell scripts on a simulated fleet of eight.
class JobsOfShells : public gpuwarden::testing::Machines {
 protected:
  machine::Machine open() {
    auto machine = machine::Machine::open(machine::Simulated{"h100x8"}, options());
    EXPECT_THAT(machine, IsOk());
    return std::move(*machine);
  }
  Job job_of(const NamedValues& values, const std::string& script, placement::Request gpus = {.count = 1}) {
    auto job = job_from(values, {.argv = {"/bin/sh", "-c", script, "sh", dir_.path().string()},
                                 .environment = {{"PATH", "/usr/bin:/bin"}},
                                 .gpus = {.gpus = std::move(gpus)}});
    EXPECT_THAT(job, IsOk());
    job->options.run.sample_period = 20ms;
    job->options.run.warning = [this](const std::string& text) { warnings_.push_back(text); };
    return std::move(*job);
  }
  std::vector<std::string> warnings_;
};

TEST_F(JobsOfShells, RunAgainOnTheirGpusUntilTheyEndWell) {
  const auto machine = open();
  const std::string status = (dir_ / "status.json").string();
  Job job = job_of(said({{"max-restarts", "3"}, {"restart-delay", "1ms"}, {"status", status.c_str()}}),
                   "sleep 0.2; echo $CUDA_VISIBLE_DEVICES >>$1/tried; [ $GPUWARDEN_RESTART_COUNT = 1 ]");
  std::vector<std::string> starts;
  job.options.starting = [&](launch::JobSpec& spec, const machine::Reservation& held) {
    EXPECT_FALSE(spec.takes_signals) << "whose signals they are the face says";
    starts.push_back(placement::cuda_visible_devices(held.decision()));
  };
  auto gpus = hold_gpus(job, machine, system_clock());
  ASSERT_THAT(gpus, IsOk());
  const auto store = machine.open_leases("", "");
  const auto situation = store->inspect(machine.lease_devices(machine.read()));
  ASSERT_THAT(situation.leases, SizeIs(1));
  EXPECT_THAT(situation.leases[0].holders.at(0).command, HasSubstr("/bin/sh -c sleep"));
  const auto healed = run(job, machine, std::move(*gpus), system_clock());
  ASSERT_THAT(healed, IsOk());
  EXPECT_EQ(healed->report.end.exit_code, 0);
  EXPECT_THAT(healed->failed, SizeIs(1));
  ASSERT_THAT(starts, SizeIs(2));
  EXPECT_EQ(read_file(dir_ / "tried").value_or(""), starts[0] + "\n" + starts[0] + "\n");
  EXPECT_THAT(read_file(status).value_or(""), HasSubstr("\"gpus\""));
  EXPECT_THAT(warnings_, ElementsAre());
}

TEST_F(JobsOfShells, EndInAPauseWithTheirToken) {
  const auto machine = open();
  Job job = job_of(said({{"max-restarts", "3"}, {"restart-delay", "1h"}}), "exit 3");
  std::stop_source stop;
  job.options.run.stop = stop.get_token();
  job.options.failed = [&](const healing::Attempt&) { stop.request_stop(); };
  auto gpus = hold_gpus(job, machine, system_clock(), stop.get_token());
  ASSERT_THAT(gpus, IsOk());
  const auto healed = run(job, machine, std::move(*gpus), system_clock());
  ASSERT_THAT(healed, IsOk());
  EXPECT_EQ(healed->report.end.interrupted_by, SIGTERM);
  EXPECT_EQ(healed->report.end.exit_code, 128 + SIGTERM);
  EXPECT_THAT(healed->failed, SizeIs(1));
}

TEST_F(JobsOfShells, WaitWithTheTokenOfWhoeverAttends) {
  const auto machine = open();
  Job job = job_of(said({{"max-restarts", "3"}, {"restart-delay", "1h"}}), "exit 3");
  int waits = 0;
  job.options.attend = [&](const std::function<void(const std::stop_token&)>& wait) {
    std::stop_source ended;
    ended.request_stop();
    ++waits;
    wait(ended.get_token());
  };
  auto gpus = hold_gpus(job, machine, system_clock());
  ASSERT_THAT(gpus, IsOk());
  const auto healed = run(job, machine, std::move(*gpus), system_clock());
  ASSERT_THAT(healed, IsOk());
  EXPECT_EQ(waits, 1);
  EXPECT_EQ(healed->report.end.interrupted_by, SIGTERM);
}

TEST_F(JobsOfShells, DoNotWaitForGpusBeyondTheirToken) {
  const auto machine = open();
  std::stop_source stop;
  stop.request_stop();
  Job job = job_of(said({}), "true", {.count = 8});
  const auto all = hold_gpus(job, machine, system_clock());
  ASSERT_THAT(all, IsOk());
  job.gpus.wait = 1h;
  const auto none = hold_gpus(job, machine, system_clock(), stop.get_token());
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::interrupted);
}

TEST_F(JobsOfShells, AStatusThatCannotBeWrittenIsTold) {
  const auto machine = open();
  const Job job = job_of(said({{"status", "/nowhere/at/all.json"}}), "sleep 0.2");
  auto gpus = hold_gpus(job, machine, system_clock());
  ASSERT_THAT(gpus, IsOk());
  ASSERT_THAT(run(job, machine, std::move(*gpus), system_clock()), IsOk());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("--status: ")));
}

TEST_F(JobsOfShells, FallBackToTheCpuOnlyWhereTheyMay) {
  const auto machine = open();
  placement::Decision refused;
  const auto none = hold_gpus(job_of(said({}), "true", {.count = 9}), machine, system_clock(), {}, &refused);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::unsatisfied);
  EXPECT_THAT(refused.verdicts, SizeIs(8)) << "why each of them would not do";
  const auto cpu = hold_gpus(job_of(said({{"cpu-fallback", ""}}), "true", {.count = 9}), machine, system_clock());
  ASSERT_THAT(cpu, IsOk());
  EXPECT_TRUE(cpu->decision().cpu);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("running on the CPU")));
  EXPECT_TRUE(hold_gpus(job_of(said({}), "true", {.force_cpu = true}), machine, system_clock())->decision().cpu);
}

TEST_F(JobsOfShells, AreRecordedWhereThatIsAskedFor) {
  const auto machine = open();
  const std::string file = (dir_ / "gpus.db").string();
  const Job job = job_of(said({{"record", file.c_str()}}), "true");
  const auto gpus = hold_gpus(job, machine, system_clock());
  ASSERT_THAT(gpus, IsOk());
  EXPECT_EQ(*open_recorder(job_of(said({}), "true"), *gpus, system_clock()), nullptr);
  EXPECT_EQ(*open_recorder(job, machine::Reservation::of_cpu(), system_clock()), nullptr) << "there is nothing to keep";
  const auto recorder = open_recorder(job, *gpus, system_clock());
  ASSERT_THAT(recorder, IsOk());
  EXPECT_TRUE(std::filesystem::exists(file));
  const auto again = open_recorder(job, *gpus, system_clock());
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().hint, "name another file with --record, or remove this one where nobody needs it");
}

TEST_F(JobsOfShells, WarningsOfAReservationAreNotOfContainersWhereItIsSimulated) {
  const auto machine = open();
  const auto gpus = hold_gpus(job_of(said({}), "true"), machine, system_clock());
  ASSERT_THAT(gpus, IsOk());
  EXPECT_EQ(machine::warnings_of(*gpus, machine), gpus->decision().warnings);
}

/// An agent's work, whose face reads the script from the order's command.
class WorkOfAHost : public JobsOfShells {
 protected:
  std::unique_ptr<hosts::AgentWork> work() {
    HostFace face;
    face.read = [this](const hosts::Order& order, const Environment& environment) -> Result<OrderedJob> {
      GPUWARDEN_TRY(
          Job job,
          job_from(said({}), {.argv = order.command, .environment = environment, .gpus = {.gpus = {.count = gpus_}}}));
      GPUWARDEN_TRY(auto knowledge, knowledge::read_knowledge({}));
      return OrderedJob{std::move(job), std::move(knowledge), open()};
    };
    face.open = [this](const std::vector<std::string>&) -> Result<machine::Machine> { return open(); };
    face.text = [](const launch::RunReport&, const healing::Attempt* failed) {
      return failed == nullptr ? "  well\n" : "  failed: " + failed->judgement.why + "\n";
    };
    face.refusal = [](Error error) {
      error.hint = "ask for fewer";
      return error;
    };
    return make_host_work({{"PATH", "/usr/bin:/bin"}}, std::move(face));
  }
  hosts::Order order_of(const std::string& script) const {
    return {.run_id = "run-7-0",
            .nodes = 2,
            .command = {"/bin/sh", "-c", script, "sh", dir_.path().string()},
            .environment = {{"WORD", "hello"}},
            .folder = dir_.path().string()};
  }
  std::uint32_t gpus_ = 2;
  hosts::RunEars ears_{.first_failed = [](std::uint32_t, int) {},
                       .warning = [this](const std::string& text) { warnings_.push_back(text); }};
};

TEST_F(WorkOfAHost, HoldsGpusAndRunsRanksAtTheirPlace) {
  const auto agent = work();
  const auto held = agent->hold(order_of("echo $WORD $NODE_RANK $WORLD_SIZE $(pwd) >$1/said"), {}, ears_);
  ASSERT_THAT(held, IsOk());
  EXPECT_THAT(held->gpus, SizeIs(2));
  EXPECT_EQ(held->ranks, 1U);
  EXPECT_TRUE(held->simulated);
  const hosts::Done done =
      agent->run({.node = 1, .nodes = 2, .first_rank = 1, .world_size = 2, .port = 29500, .job = "run-7"}, {}, ears_);
  EXPECT_EQ(done.exit_code, 0) << done.why;
  EXPECT_EQ(done.text, "  well\n");
  EXPECT_EQ(nlohmann::json::parse(done.report).at("exit_code"), 0);
  EXPECT_THAT(read_file(dir_ / "said").value_or(""), HasSubstr("hello"));
  EXPECT_THAT(read_file(dir_ / "said").value_or(""), HasSubstr(" 2 " + dir_.path().string()));
}

TEST_F(WorkOfAHost, JudgesWhatFails) {
  const auto agent = work();
  ASSERT_THAT(agent->hold(order_of("echo \"TypeError: no\" >&2; exit 3"), {}, ears_), IsOk());
  const hosts::Done done = agent->run({.port = 29500, .job = "run-7"}, {}, ears_);
  EXPECT_EQ(done.exit_code, 3);
  EXPECT_FALSE(done.why.empty());
  EXPECT_EQ(done.text, "  failed: " + done.why + "\n");
  EXPECT_EQ(nlohmann::json::parse(done.report).at("attempts").size(), 1U);
}

TEST_F(WorkOfAHost, TheTotalIsOfAllTriesSinceTheFirst) {
  const auto agent = work();
  nlohmann::json total;
  for (int tries = 1; tries <= 2; ++tries) {
    ASSERT_THAT(agent->hold(order_of("sleep 0.1; exit 3"), {}, ears_), IsOk());
    total = nlohmann::json::parse(agent->run({.port = 29500, .job = "run-7"}, {}, ears_).report).at("total");
    EXPECT_EQ(total.at("tries"), tries);
  }
  EXPECT_GE(total.at("run_seconds"), 0.2);
  EXPECT_GE(total.at("wall_seconds"), total.at("run_seconds"));
}

TEST_F(WorkOfAHost, AProgramThatIsNotThereIsNotTriedAgain) {
  const auto agent = work();
  hosts::Order order = order_of("");
  order.command = {"/nowhere/at/all"};
  ASSERT_THAT(agent->hold(order, {}, ears_), IsOk());
  const hosts::Done done = agent->run({.port = 29500, .job = "run-7"}, {}, ears_);
  EXPECT_EQ(done.exit_code, 127);
  EXPECT_EQ(done.restart, "never");
}

TEST_F(WorkOfAHost, TellsWhatItLacks) {
  const auto agent = work();
  gpus_ = 9;
  const auto refused = agent->hold(order_of("true"), {}, ears_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().hint, "ask for fewer");
  hosts::Order elsewhere = order_of("true");
  elsewhere.folder = "/nowhere/at/all";
  gpus_ = 1;
  ASSERT_THAT(agent->hold(elsewhere, {}, ears_), IsOk());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("the command runs in the login's folder")));
  elsewhere.needs_folder = true;
  EXPECT_FALSE(agent->hold(elsewhere, {}, ears_));
}

TEST_F(WorkOfAHost, ShowsItsGpus) {
  const auto node = work()->look({});
  ASSERT_THAT(node, IsOk());
  EXPECT_THAT(node->dump(), HasSubstr("H100"));
}

}  // namespace
}  // namespace gpuwarden::jobs
