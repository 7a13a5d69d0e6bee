// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/placement/select.hpp"

#include <random>

#include "gpuwarden/placement/ways_to_fit.hpp"
#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"
#include "support/reword.hpp"

namespace gpuwarden::placement {
namespace {

using namespace gpuwarden::testing;
using facts::GpuState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Select : public ::testing::Test {
 protected:
  Result<Decision> choose(const Request& request) const {
    return select(request, {snapshot_, leases_, spoken_for_, visibility_});
  }
  std::vector<std::uint32_t> chosen(const Request& request) const {
    const auto decision = choose(request);
    EXPECT_THAT(decision, IsOk());
    std::vector<std::uint32_t> indices;
    if (decision) {
      for (const auto& device : decision->selected) indices.push_back(device.index.value);
    }
    return indices;
  }
  std::string missing(const Request& request) const {
    const auto decision = choose(request);
    return decision && !decision->satisfied ? decision->missing : "(satisfied or failed)";
  }
  static Request count(std::uint32_t n) {
    Request request;
    request.count = n;
    return request;
  }
  static Request named(std::vector<std::string> names) {
    Request request;
    for (auto& name : names) request.gpu_ids.push_back({std::move(name)});
    return request;
  }
  facts::GpuProcess process(const char* user, bool compute = true) const {
    return {.pid = Pid{100}, .compute = compute, .graphics = !compute, .user = user, .command = "python x.py"};
  }

  facts::Snapshot snapshot_ = fleet(4);
  std::vector<facts::Lease> leases_;
  std::vector<Uuid> spoken_for_;
  Visibility visibility_;
};

TEST_F(Select, OneGpuIsTheDefault) { EXPECT_THAT(chosen({}), ElementsAre(0)); }

TEST_F(Select, MostFreeMemoryThenLeastLoadComeFirst) {
  snapshot_.gpus[0].sample.memory_free = 70_GiB;
  snapshot_.gpus[1].sample.utilization_gpu = Percent(9);
  snapshot_.gpus[2].sample.utilization_gpu = Percent(9);
  EXPECT_THAT(chosen(count(3)), ElementsAre(1, 2, 3));
  snapshot_.gpus[1].sample.memory_free = Bytes((80_GiB).value - 1000);
  EXPECT_THAT(chosen(count(1)), ElementsAre(2));
}

TEST_F(Select, WhatAProbeSaysInWordsDecidesNothing) {
  const std::array states{GpuState::lost, GpuState::needs_reset, GpuState::not_answering, GpuState::available};
  for (std::size_t i = 0; i < states.size(); ++i) {
    snapshot_.gpus[i].state = states[i];
    snapshot_.gpus[i].cause = "what the driver says";
    snapshot_.gpus[i].next_step = "what to do";
  }
  const auto reasons = [&] {
    std::vector<Verdict::Kind> all;
    for (const Verdict& verdict : choose(count(1))->verdicts) all.push_back(verdict.kind);
    return all;
  };
  const auto before = reasons();
  for (const std::string_view words : kOtherWords) {
    reword(snapshot_, words);
    EXPECT_THAT(chosen(count(1)), ElementsAre(3)) << words;
    EXPECT_EQ(reasons(), before) << words;
  }
}

TEST_F(Select, AGpuInTroubleIsNeverACandidateAndSaysWhy) {
  const std::array states{GpuState::lost,          GpuState::needs_reset, GpuState::not_answering,
                          GpuState::no_permission, GpuState::suspended,   GpuState::disabled};
  for (const GpuState state : states) {
    snapshot_.gpus[0].state = state;
    snapshot_.gpus[0].cause = "the cause";
    snapshot_.gpus[0].next_step = "the next step";
    snapshot_.gpus[0].sample = {};
    EXPECT_THAT(chosen({}), ElementsAre(1)) << facts::to_string(state);
    EXPECT_THAT(missing(count(4)),
                ::testing::AllOf(HasSubstr("GPU 0"), HasSubstr("the cause"), HasSubstr("the next step")));
    EXPECT_FALSE(choose(count(4))->may_come_true);
    EXPECT_THAT(missing(named({"0"})), HasSubstr("the cause"));
  }
}

TEST_F(Select, ProcessesWithoutALeaseMakeAGpuBusyButADesktopDoesNot) {
  snapshot_.gpus[0].processes = {process("bob")};
  snapshot_.gpus[1].processes = {process("root", false)};
  EXPECT_THAT(chosen({}), ElementsAre(1));
  EXPECT_THAT(missing(named({"0"})), HasSubstr("in use by bob (pid 100: python x.py)"));
  EXPECT_TRUE(choose(named({"0"}))->may_come_true);
  Request sharing = named({"0"});
  sharing.shared = true;
  EXPECT_THAT(chosen(sharing), ElementsAre(0));
}

TEST_F(Select, UsersThatCannotBeSeenCountToo) {
  snapshot_.gpus[0].sample.utilization_gpu = Percent(90);
  snapshot_.gpus[1].sample.memory_used = 20_GiB;
  EXPECT_THAT(chosen({}), ElementsAre(2));
  EXPECT_THAT(missing(named({"1"})), HasSubstr("cannot be seen"));
}

TEST_F(Select, LeasesKeepOthersOutUnlessBothShare) {
  leases_ = {{snapshot_.gpus[0].gpu.uuid, false, {{Pid{7}, "ada", "r", "python t.py", {}}}},
             {snapshot_.gpus[1].gpu.uuid, true, {}}};
  EXPECT_THAT(chosen({}), ElementsAre(2));
  EXPECT_THAT(missing(named({"0"})), HasSubstr("leased by ada (pid 7"));
  Request sharing = named({"1"});
  sharing.shared = true;
  EXPECT_THAT(chosen(sharing), ElementsAre(1));
  sharing = named({"0"});
  sharing.shared = true;
  EXPECT_THAT(missing(sharing), HasSubstr("leased"));
}

TEST_F(Select, WhatIsLeftOfAKilledRunIsNamedAndWaitingForItIsNotAdvised) {
  leases_ = {{snapshot_.gpus[0].gpu.uuid, false, {{Pid{7}, "ada", "run-1", "sleep", {}, true}}},
             {snapshot_.gpus[1].gpu.uuid, false, {{Pid{7}, "ada", "run-1", "sleep", {}, true}}}};
  const auto refused = choose(named({"0", "1"}));
  ASSERT_TRUE(refused.has_value());
  EXPECT_THAT(refused->leftover_runs, ElementsAre("run-1"));
  EXPECT_THAT(refused->missing, HasSubstr("GPUs 0-1: leased by ada (pid 7): sleep; left over of the run run-1"));
  EXPECT_THAT(ways_to_wait(*refused, "wait"), HasSubstr("gpuwarden run --end-leftovers run-1"));
  leases_.clear();
  EXPECT_EQ(ways_to_wait(*choose(count(9)), "wait"), "wait");
}

TEST_F(Select, TheSameReasonIsSaidOnceAndWhatIsWantedWithIt) {
  Request request;
  request.name_contains = "V100";
  EXPECT_EQ(missing(request), "no GPU is available\n  GPUs 0-3: named NVIDIA H100 80GB HBM3; V100 is wanted");
  EXPECT_THAT(missing(count(9)), HasSubstr("9 GPUs were requested, but this machine has 4 GPUs"));
  snapshot_.gpus[2].state = GpuState::lost;
  snapshot_.gpus[2].cause = "the GPU is lost: it fell off the PCIe bus";
  EXPECT_THAT(missing(named({"2"})), HasSubstr("GPU 2: the GPU is lost: it fell off the PCIe bus"));
}

TEST_F(Select, NobodyJumpsTheLine) {
  spoken_for_ = {snapshot_.gpus[0].gpu.uuid, snapshot_.gpus[1].gpu.uuid};
  EXPECT_THAT(chosen({}), ElementsAre(2));
  const auto decision = choose(count(3));
  ASSERT_THAT(decision, IsOk());
  EXPECT_FALSE(decision->satisfied);
  EXPECT_TRUE(decision->may_come_true);
  EXPECT_EQ(decision->candidates.size(), 4U);
}

TEST_F(Select, NamesAreIndicesUuidsPrefixesAndBusIds) {
  EXPECT_THAT(chosen(named({"2", "0"})), ElementsAre(2, 0)) << "in the user's order";
  EXPECT_THAT(chosen(named({"GPU-3"})), ElementsAre(3));
  EXPECT_THAT(chosen(named({"gpu-1000-TEST"})), ElementsAre(1));
  EXPECT_THAT(chosen(named({"12:00.0"})), ElementsAre(2));
}

TEST_F(Select, WrongNamesSayWhichExist) {
  const auto decision = choose(named({"7"}));
  ASSERT_FALSE(decision.has_value());
  EXPECT_EQ(decision.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(decision.error().hint, "there are: 0-3 (NVIDIA H100 80GB HBM3)");
  EXPECT_THAT(choose(named({"GPU-"})), FailsWith(ErrorCode::invalid_argument, HasSubstr("no GPU")));
  EXPECT_THAT(choose(named({"1", "GPU-1"})), FailsWith(ErrorCode::invalid_argument, HasSubstr("twice")));
  Request both = named({"1"});
  both.exclude = {{"1"}};
  EXPECT_THAT(choose(both), FailsWith(ErrorCode::invalid_argument, HasSubstr("excluded")));
  Request contradiction = named({"1"});
  contradiction.count = 2;
  EXPECT_THAT(choose(contradiction),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("1 GPU is listed, but 2 were requested")));
  EXPECT_THAT(choose(count(0)), FailsWith(ErrorCode::invalid_argument, HasSubstr("0 GPUs")));
}

TEST_F(Select, EachFilterKeepsOutWhatDoesNotFit) {
  snapshot_ = mixed_fleet();
  Request request;
  request.min_compute_capability = facts::ComputeCapability{8, 0};
  EXPECT_THAT(chosen(request), ElementsAre(2));
  request = {};
  request.name_contains = "t4";
  EXPECT_THAT(chosen(request), ElementsAre(0));
  request = {};
  request.min_memory = 20_GiB;
  request.count = 2;
  EXPECT_THAT(chosen(request), ElementsAre(2, 1));
  request.min_memory = 100_GiB;
  EXPECT_THAT(missing(request), HasSubstr("has 80 GiB of memory, 100 GiB are wanted"));
  request = {};
  snapshot_.gpus[2].sample.memory_free = 10_GiB;
  request.min_free_memory = 20_GiB;
  EXPECT_THAT(chosen(request), ElementsAre(1));
  request = {};
  request.max_utilization = Percent(0);
  snapshot_.gpus[1].sample.utilization_gpu = Percent(5);
  EXPECT_THAT(chosen(request), ElementsAre(0));
  request = {};
  request.exclude = {{"1"}, {"2"}};
  EXPECT_THAT(chosen(request), ElementsAre(0));
  request = {};
  request.prefer = {{"0"}, {"2"}};
  EXPECT_THAT(chosen(request), ElementsAre(0));
  snapshot_.gpus[1].gpu.compute_mode = facts::ComputeMode::prohibited;
  EXPECT_THAT(missing(named({"1"})), HasSubstr("prohibited"));
}

TEST_F(Select, AModelSizeTakesAsManyAsHoldItAndNamesTheStrategy) {
  Request request;
  request.model_size = Bytes(140'000'000'000);
  auto decision = choose(request);
  ASSERT_THAT(decision, IsOk());
  EXPECT_EQ(decision->selected.size(), 2U);
  EXPECT_EQ(decision->strategy, Strategy::fsdp);
  request.model_size = 10_GiB;
  EXPECT_EQ(choose(request)->strategy, Strategy::single);
  request.count = 3;
  EXPECT_EQ(choose(request)->strategy, Strategy::ddp);
  EXPECT_EQ(choose(request)->selected.size(), 3U);
  request.count.reset();
  request.model_size = Bytes((80_GiB).value * 10);
  EXPECT_THAT(missing(request), HasSubstr("a model of 800 GiB does not fit 4 x NVIDIA H100 80GB HBM3"));
}

TEST_F(Select, MigIsAllOrNothing) {
  snapshot_ = mig_fleet();
  EXPECT_THAT(chosen({}), ElementsAre(1)) << "a GPU with MIG on is no whole GPU";
  EXPECT_THAT(missing(named({"0"})), HasSubstr("MIG is on"));
  Request mig;
  mig.mig_profile = "1g.10gb";
  const auto decision = choose(mig);
  ASSERT_THAT(decision, IsOk());
  EXPECT_EQ(cuda_visible_devices(*decision), "MIG-1aaa");
  EXPECT_THAT(choose(named({"MIG-0aaa", "1"})),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("cannot be used together")));
  EXPECT_THAT(choose(named({"MIG-0aaa", "MIG-1aaa"})),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("only one MIG")));
  Request several = named({"MIG-0aaa", "MIG-1aaa"});
  several.one_process_per_device = true;
  EXPECT_EQ(choose(several)->selected.size(), 2U);
}

TEST_F(Select, TheBestConnectedSetIsTaken) {
  // As in a DGX-1: pairs 0-3 and 1-2 have two NVLinks, neighbours one, the diagonals none.
  snapshot_.links.emplace();
  const auto link = [&](std::uint32_t a, std::uint32_t b, int nvlinks) {
    snapshot_.links->push_back({GpuIndex{a}, GpuIndex{b}, facts::LinkLevel::system, nvlinks});
  };
  link(0, 1, 1);
  link(0, 2, 0);
  link(0, 3, 2);
  link(1, 2, 2);
  link(1, 3, 0);
  link(2, 3, 1);
  EXPECT_THAT(chosen(count(2)), ElementsAre(0, 3));
  leases_ = {{snapshot_.gpus[0].gpu.uuid, false, {}}};
  EXPECT_THAT(chosen(count(2)), ElementsAre(1, 2));
}

TEST_F(Select, ADriverThatDoesNotAnswerIsItsOwnError) {
  snapshot_ = {};
  snapshot_.problem = {facts::DriverProblem::Kind::timed_out,
                       {ErrorCode::timed_out, "driver/library version mismatch", "reboot"}};
  EXPECT_THAT(choose({}), FailsWith(ErrorCode::unavailable, HasSubstr("mismatch")));
  Request cpu;
  cpu.force_cpu = true;
  EXPECT_TRUE(choose(cpu)->cpu);
  EXPECT_EQ(cuda_visible_devices(*choose(cpu)), "");
  snapshot_ = {};
  EXPECT_EQ(missing({}), "this machine has no GPU");
}

TEST_F(Select, AGpuWhoseProcessesCannotBeReadIsNotFree) {
  snapshot_.gpus[1].processes.reset();
  snapshot_.gpus[1].processes_unreadable = true;
  Request all;
  all.all = true;
  EXPECT_THAT(chosen(all), ElementsAre(0, 2, 3));
  EXPECT_EQ(choose(all)->verdicts[1].kind, Verdict::Kind::use_unknown);
  all.allow_busy = true;
  EXPECT_THAT(chosen(all), ElementsAre(0, 1, 2, 3));
}

TEST_F(Select, WhereNoGpuHasMigInstancesThatIsSaid) {
  Request mig;
  mig.mig = true;
  EXPECT_EQ(missing(mig), "no GPU of this machine has MIG enabled");
  snapshot_.gpus[2].gpu.mig_enabled = true;
  EXPECT_EQ(missing(mig), "MIG is enabled, but no GPU has a MIG instance");
}

TEST_F(Select, DecidesByKindsNeverByWords) {
  const auto decisions = [&] {
    std::vector<std::tuple<bool, bool, Verdict::Kind>> all;
    Request everything = count(2);
    everything.exclude = {{"3"}};
    for (const auto& verdict : choose(everything)->verdicts)
      all.emplace_back(verdict.chosen, verdict.transient, verdict.kind);
    return all;
  };
  snapshot_ = fleet(8);
  snapshot_.gpus[0].state = GpuState::lost;
  snapshot_.gpus[1].processes = {process("fits, but others were preferred")};
  snapshot_.gpus[2].state = GpuState::faulty;
  leases_ = {{snapshot_.gpus[4].gpu.uuid, false, {}}};
  const auto before = decisions();
  EXPECT_EQ(std::get<2>(before[0]), Verdict::Kind::unhealthy);
  EXPECT_EQ(std::get<2>(before[1]), Verdict::Kind::in_use);
  EXPECT_EQ(std::get<2>(before[3]), Verdict::Kind::excluded);
  EXPECT_EQ(std::get<2>(before[4]), Verdict::Kind::leased);
  EXPECT_EQ(std::get<2>(before[7]), Verdict::Kind::fits);
  for (auto& record : snapshot_.gpus) {
    record.cause = "not among the named GPUs";
    record.next_step = "fits";
  }
  EXPECT_EQ(decisions(), before);
}

TEST_F(Select, OverRandomFleetsNothingForbiddenIsEverChosen) {
  std::mt19937 random(7);  // NOLINT(bugprone-random-generator-seed): the same fleets every time
  for (int round = 0; round < 500; ++round) {
    snapshot_ = fleet(static_cast<std::uint32_t>(1 + random() % 8));
    leases_.clear();
    spoken_for_.clear();
    std::vector<bool> fine;
    for (auto& record : snapshot_.gpus) {
      const auto fate = random() % 6;
      if (fate == 1) record.state = GpuState::lost;
      if (fate == 2) leases_.push_back({record.gpu.uuid, false, {}});
      if (fate == 3) record.processes = {process("bob")};
      if (fate == 4) spoken_for_.push_back(record.gpu.uuid);
      fine.push_back(fate == 0 || fate == 5);
    }
    const auto wanted = static_cast<std::uint32_t>(1 + random() % 4);
    const auto decision = choose(count(wanted));
    ASSERT_THAT(decision, IsOk());
    const auto available = static_cast<std::size_t>(std::ranges::count(fine, true));
    EXPECT_EQ(decision->satisfied, available >= wanted);
    EXPECT_EQ(decision->selected.size(), decision->satisfied ? wanted : 0U);
    for (const auto& device : decision->selected) EXPECT_TRUE(fine[device.index.value]);
  }
}

class Visible : public Select {
 protected:
  void set(const char* devices, const char* order = nullptr) {
    visibility_.cuda_visible_devices = devices;
    if (order != nullptr) visibility_.cuda_device_order = order;
  }
};

TEST_F(Visible, RestrictsTheChoice) {
  set("2,3");
  EXPECT_THAT(chosen({}), ElementsAre(2));
  EXPECT_THAT(choose(named({"0"})),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("hidden by CUDA_VISIBLE_DEVICES")));
  set("GPU-1,GPU-3000-test");
  EXPECT_THAT(chosen(count(2)), ElementsAre(1, 3));
}

TEST_F(Visible, EmptyMeansCpu) {
  for (const char* value : {"", "-1", " "}) {
    set(value);
    EXPECT_THAT(missing({}), HasSubstr("restricted to the CPU"));
  }
}

TEST_F(Visible, AnInvalidEntryHidesItselfAndAllAfterIt) {
  set("1,9,2");
  const auto decision = choose(count(1));
  ASSERT_THAT(decision, IsOk());
  EXPECT_EQ(decision->selected[0].index.value, 1U);
  EXPECT_THAT(decision->warnings, ElementsAre(HasSubstr("'9' is not valid")));
  EXPECT_FALSE(choose(count(2))->satisfied);
  set("nonsense,1");
  EXPECT_THAT(choose({}), FailsWith(ErrorCode::invalid_argument, HasSubstr("names no GPU")));
  set("1,1");
  EXPECT_THAT(choose({}), FailsWith(ErrorCode::invalid_argument, HasSubstr("twice")));
}

TEST_F(Visible, NumbersOnAMixedMachineAreOnlyTakenWhenCertain) {
  snapshot_ = mixed_fleet();
  set("0");
  EXPECT_THAT(choose({}), FailsWith(ErrorCode::invalid_argument, HasSubstr("fastest first")));
  set("0", "PCI_BUS_ID");
  EXPECT_THAT(chosen({}), ElementsAre(0));
  set("2,0,1");
  visibility_.cuda_device_order.reset();
  EXPECT_THAT(chosen({}), ElementsAre(2)) << "all are named: their order does not matter";
  set("0");
  snapshot_.cuda_order = {snapshot_.gpus[2].gpu.uuid, snapshot_.gpus[1].gpu.uuid, snapshot_.gpus[0].gpu.uuid};
  EXPECT_THAT(chosen({}), ElementsAre(2)) << "the CUDA driver told its order";
}

TEST_F(Visible, AMigUuidSelectsTheInstance) {
  snapshot_ = mig_fleet();
  set("MIG-2aaa");
  EXPECT_EQ(cuda_visible_devices(*choose({})), "MIG-2aaa");
}

}  // namespace
}  // namespace gpuwarden::placement
