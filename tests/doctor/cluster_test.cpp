// SPDX-License-Identifier: Apache-2.0
// Each check of Slurm: what makes it speak alone, and what only nearly does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "doctor/machines.hpp"

namespace gpuwarden::testing {
namespace {

using facts::Snapshot;

facts::SlurmFacts& enter_job(Snapshot& machine, std::vector<std::string> granted) {
  software(machine).slurm.emplace();
  software(machine).slurm->job_id = "4242";
  software(machine).slurm->granted_gpus = std::move(granted);
  return *software(machine).slurm;
}

void configure_gres(Snapshot& machine, std::string_view gres) {
  software(machine).slurm.emplace();
  software(machine).slurm->gres = {std::string(gres)};
}

void add_node(Snapshot& machine, std::string_view name, std::string_view state, std::string_view reason = "",
              int count = 1) {
  auto& slurm = software(machine).slurm;
  if (!slurm) slurm.emplace();
  facts::SlurmNode node;
  node.name = name;
  node.state = state;
  node.reason = reason;
  node.count = count;
  slurm->nodes.push_back(node);
}

constexpr auto kClusterCases = std::to_array<Case>({
    {"slurm-gpus-not-constrained", [](Snapshot& m) { enter_job(m, {"0", "1"}).constrain_devices = false; },
     [](Snapshot& m) { enter_job(m, {"0", "1"}).constrain_devices = true; }, "ConstrainDevices"},
    {"slurm-job-without-gpus", [](Snapshot& m) { enter_job(m, {}); }, [](Snapshot& m) { enter_job(m, {"0"}); },
     "job 4242"},
    {"slurm-mask-wider-than-grant",
     [](Snapshot& m) {
       enter_job(m, {"0"});
       set_variable(m, "CUDA_VISIBLE_DEVICES", "0,1");
     },
     [](Snapshot& m) {
       enter_job(m, {"0", "1"});
       set_variable(m, "CUDA_VISIBLE_DEVICES", "0,1");
     },
     "names 2 GPUs, Slurm granted 1"},
    {"slurm-fewer-gpus-than-asked", [](Snapshot& m) { enter_job(m, {"0", "1", "2", "3"}).gpus_requested = 8; },
     [](Snapshot& m) { enter_job(m, {"0", "1", "2", "3"}).gpus_requested = 4; }, "asked for 8 GPUs"},
    {"slurm-gres-differs", [](Snapshot& m) { configure_gres(m, "gpu:h100:8(S:0-1)"); },
     [](Snapshot& m) { configure_gres(m, "gpu:h100:4(S:0-1)"); }, "gives this node 8 GPUs, it has 4"},
    {"slurm-nodes-out", [](Snapshot& m) { add_node(m, "gpu07", "MIXED+DRAIN", "Kill task failed"); },
     [](Snapshot& m) { add_node(m, "gpu07", "MAINTENANCE+DRAIN", "firmware"); },
     "a node drained (gpu07): Kill task failed"},
});

}  // namespace

std::span<const Case> cluster_cases() { return kClusterCases; }

namespace {

using ::testing::HasSubstr;

TEST(ClusterChecks, EachSpeaksAloneAndNotInItsNearMiss) { expect_cases(cluster_cases()); }

TEST(ClusterChecks, InstancesOfDividedGpusCountAsGpus) {
  Snapshot machine = healthy_machine();
  for (auto& record : machine.gpus) {
    record.gpu.mig_enabled = record.gpu.mig_pending = true;
    record.mig_devices.resize(7);
  }
  configure_gres(machine, "gpu:1g.10gb:28");
  EXPECT_EQ(found_in(machine), "");
}

TEST(ClusterChecks, StatesOfSinfoAndScontrolAreBothRead) {
  const auto judged = [](std::string_view state) {
    Snapshot machine = healthy_machine();
    add_node(machine, "gpu07", state);
    const auto found = examined(machine);
    return found.findings.empty() ? "" : found.findings[0].title;
  };
  for (const char* state : {"down", "down*", "DOWN*+CLOUD+DRAIN", "inval"})
    EXPECT_THAT(judged(state), HasSubstr("a node down")) << state;
  for (const char* state : {"drain", "drng", "drained*", "IDLE+DRAIN"})
    EXPECT_THAT(judged(state), HasSubstr("a node drained")) << state;
  EXPECT_THAT(judged("fail"), HasSubstr("failing"));
  EXPECT_THAT(judged("idle*"), HasSubstr("not responding"));
  for (const char* state : {"idle", "mixed-", "alloc", "idle~", "POWERED_DOWN", "IDLE+POWERED_DOWN", "pow_dn", "drain$",
                            "maint", "resv", "planned", ""})
    EXPECT_EQ(judged(state), "") << state;
}

TEST(ClusterChecks, NodesOutForOneReasonAreToldTogether) {
  Snapshot machine = healthy_machine();
  add_node(machine, "gpu01", "drain", "bad GPU");
  add_node(machine, "gpu[03-05]", "drain", "bad GPU", 3);
  add_node(machine, "gpu09", "down*", "Not responding");
  const auto found = examined(machine);
  ASSERT_EQ(found.findings.size(), 2U);
  const std::string titles = found.findings[0].title + "\n" + found.findings[1].title;
  EXPECT_THAT(titles, HasSubstr("4 nodes drained (gpu01, gpu[03-05]): bad GPU"));
  EXPECT_THAT(titles, HasSubstr("a node down (gpu09): Not responding"));
  EXPECT_THAT(fixes_of(machine), HasSubstr("nodename='gpu01,gpu[03-05]' state=resume"));
  EXPECT_EQ(found.worst, doctor::Severity::warning);
}

TEST(ClusterChecks, ThisNodeBeingOutIsAnError) {
  Snapshot machine = healthy_machine();
  machine.host = "gpu01.example.org";
  add_node(machine, "gpu01", "drain", "bad GPU");
  EXPECT_EQ(examined(machine).worst, doctor::Severity::error);
}

TEST(ClusterChecks, ANodesNameIsOneWordOfACommand) {
  Snapshot machine = healthy_machine();
  add_node(machine, "gpu01'; reboot; '", "down");
  EXPECT_THAT(fixes_of(machine), HasSubstr(R"(scontrol show node 'gpu01'\''; reboot; '\''' )"));
}

}  // namespace
}  // namespace gpuwarden::testing
