// SPDX-License-Identifier: Apache-2.0
// Each check of several GPUs together: what makes it speak alone, and what only nearly does.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "doctor/machines.hpp"

namespace gpuwarden::testing {
namespace {

using facts::LinkLevel;
using facts::Snapshot;

void add_adapter(Snapshot& machine, LinkLevel to_first_gpu) {
  facts::Nic nic;
  nic.name = "mlx5_0";
  for (std::uint32_t i = 0; i < 4; ++i)
    nic.distances.push_back({GpuIndex{i}, i == 0 ? to_first_gpu : LinkLevel::single_switch});
  machine.nics.push_back(nic);
}

void use_proprietary_module(Snapshot& machine) {
  auto& driver = software(machine).driver;
  driver.flavour = facts::ModuleFlavour::proprietary;
  std::erase(driver.loaded_modules, "nvidia_peermem");
  add_adapter(machine, LinkLevel::single_switch);
}

void add_node(Snapshot& machine, std::string_view path) {
  software(machine).device_nodes.push_back({std::string(path), true, true, "", "root:root", 0666});
}

constexpr auto kMultiGpuCases = std::to_array<Case>({
    {"fabric-manager-not-running",
     [](Snapshot& m) {
       set_service(m, "nvidia-fabricmanager", "failed");
       m.gpus[2].gpu.fabric->state = "in_progress";
     },
     [](Snapshot& m) { set_service(m, "nvidia-fabricmanager", "stopped"); }, "failed"},
    {"fabric-manager-version-differs", [](Snapshot& m) { software(m).services[1].version = "580.95.05"; },
     [](Snapshot& m) { software(m).services[1].version.reset(); }, "580.95.05 does not go with driver 580.105.08"},
    {"fabric-not-ready", [](Snapshot& m) { m.gpus[2].gpu.fabric->state = "in_progress"; },
     [](Snapshot& m) { m.gpus[2].gpu.fabric.reset(); }, "GPU 2 is in_progress"},
    {"nvlink-down", [](Snapshot& m) { m.gpus[2].sample.nvlinks[5].active = false; },
     [](Snapshot& m) {
       for (auto& link : m.gpus[2].sample.nvlinks) link.active.reset();
     },
     "1 of 18 NVLinks of GPU 2"},
    {"nvlink-fewer-than-peers", [](Snapshot& m) { m.gpus[2].sample.nvlinks.resize(12); },
     [](Snapshot& m) { m.gpus[2].sample.nvlinks.clear(); }, "GPU 2 has 12 NVLinks up, equal GPUs beside have 18"},
    {"nvlink-errors", [](Snapshot& m) { m.gpus[1].sample.nvlinks[0].recovery_errors = Count(1); },
     [](Snapshot& m) { m.gpus[1].sample.nvlinks[0].replay_errors = Count(99); }, "GPU 1"},
    {"peer-access-blocked", [](Snapshot& m) { m.links->front().p2p_read = "CNS"; },
     [](Snapshot& m) { m.links->front().p2p_read = "NS"; }, "chipset"},
    {"vbios-differs", [](Snapshot& m) { m.gpus[3].gpu.vbios_version = "96.00.61.00.01"; },
     [](Snapshot& m) {
       m.gpus[3].gpu.vbios_version = "96.00.61.00.01";
       m.gpus[3].gpu.name = "NVIDIA H100 PCIe";
     },
     "96.00.61.00.01"},
    {"power-limits-differ", [](Snapshot& m) { m.gpus[1].sample.power_limit = Milliwatts(680'000); },
     [](Snapshot& m) { m.gpus[1].sample.power_limit.reset(); }, "GPU 0 may draw 700 W, GPU 1 680 W"},
    {"fewer-gpus-than-devices", [](Snapshot& m) { add_node(m, "/dev/nvidia4"); },
     [](Snapshot& m) { add_node(m, "/dev/nvidia-modeset"); }, "5 GPUs have a device file, 4 are listed"},
    {"acs-redirects-peer-traffic", [](Snapshot& m) { host(m).acs_bridges = {"0000:16:00.0"}; },
     [](Snapshot& m) {
       host(m).acs_bridges = {"0000:16:00.0"};
       host(m).hypervisor = "kvm";
     },
     "0000:16:00.0"},
    {"iommu-translates", [](Snapshot& m) { host(m).iommu = true; },
     [](Snapshot& m) {
       host(m).iommu = true;
       host(m).hypervisor = "kvm";
     },
     "IOMMU"},
    {"peermem-not-loaded", use_proprietary_module,
     [](Snapshot& m) {
       use_proprietary_module(m);
       software(m).driver.flavour = facts::ModuleFlavour::open;
     },
     "nvidia_peermem"},
    {"numa-node-unknown", [](Snapshot& m) { m.gpus[0].gpu.numa_node = -1; },
     [](Snapshot& m) { m.gpus[0].gpu.numa_node.reset(); }, "GPU 0"},
    {"network-far-from-gpu", [](Snapshot& m) { add_adapter(m, LinkLevel::system); },
     [](Snapshot& m) { add_adapter(m, LinkLevel::node); }, "GPU 0"},
});

}  // namespace

std::span<const Case> multi_gpu_cases() { return kMultiGpuCases; }

namespace {

TEST(MultiGpuChecks, EachSpeaksAloneAndNotInItsNearMiss) { expect_cases(multi_gpu_cases()); }

TEST(MultiGpuChecks, AMissingFabricManagerIsInstalledInTheDriversVersion) {
  Snapshot machine = healthy_machine();
  software(machine).services.pop_back();
  for (auto& record : machine.gpus) record.gpu.fabric->state = "not_started";
  const auto found = examined(machine);
  ASSERT_EQ(found.findings.size(), 1U);
  EXPECT_EQ(found.findings[0].id, "fabric-manager-not-running");
  EXPECT_TRUE(found.findings[0].fix[0].contains("'nvidia-fabricmanager=580.105.08-*'")) << found.findings[0].fix[0];
}

TEST(MultiGpuChecks, AnotherFabricManagerIsReplacedByTheDriversVersionOnEveryDistribution) {
  struct Expected {
    std::string_view distribution;
    std::string_view package;  // of the driver
    std::string_view driver;
    std::string_view operand;
  };
  constexpr auto kExpected = std::to_array<Expected>({
      {"ubuntu", "nvidia-driver-580-server-open 580.105.08-0ubuntu0.24.04.1", "580.105.08",
       "'nvidia-fabricmanager-580=580.105.08-*'"},
      {"ubuntu", "nvidia-open 580.105.08-1ubuntu1", "580.105.08", "'nvidia-fabricmanager=580.105.08-*'"},
      {"debian", "cuda-drivers-570 570.133.20-1", "570.133.20", "'nvidia-fabricmanager-570=570.133.20-*'"},
      {"rocky", "nvidia-driver 570.133.20-1.el9", "570.133.20",
       "dnf install --allowerasing nvidia-fabric-manager-570.133.20"},
      {"rhel", "", "580.105.08", "dnf install --allowerasing nvidia-fabricmanager-580.105.08"},
      {"sles", "", "580.105.08", "zypper install --oldpackage nvidia-fabricmanager=580.105.08"},
      {"gentoo", "", "580.105.08", "nvidia-fabricmanager of version 580.105.08 exactly"},
  });
  for (const Expected& expected : kExpected) {
    Snapshot machine = healthy_machine();
    software(machine).host.distribution = expected.distribution;
    software(machine).driver.package = expected.package;
    software(machine).services[1].version = "555.42.06";
    machine.driver_version = expected.driver;
    const auto found = examined(machine);
    const auto differs = std::ranges::find(found.findings, "fabric-manager-version-differs", &doctor::Finding::id);
    ASSERT_NE(differs, found.findings.end()) << expected.distribution;
    EXPECT_TRUE(differs->fix[0].contains(expected.operand)) << differs->fix[0];
    EXPECT_EQ(differs->fix.back(), "sudo systemctl restart nvidia-fabricmanager");
  }
}

TEST(MultiGpuChecks, AStoppedFabricManagerExplainsAFabricThatIsNotReady) {
  Snapshot machine = healthy_machine();
  set_service(machine, "nvidia-fabricmanager", "stopped");
  for (auto& record : machine.gpus) record.gpu.fabric->state = "not_started";
  EXPECT_EQ(found_in(machine), "fabric-manager-not-running");
}

TEST(MultiGpuChecks, AContainerDoesNotRunTheFabricManager) {
  Snapshot machine = healthy_machine();
  set_service(machine, "nvidia-fabricmanager", "stopped");
  machine.gpus[0].gpu.fabric->state = "in_progress";
  move_into_container(machine, "docker");
  EXPECT_EQ(found_in(machine), "fabric-not-ready");
}

TEST(MultiGpuChecks, AllGpusFarFromTheNetworkAreNamed) {
  Snapshot machine = healthy_machine();
  add_adapter(machine, LinkLevel::system);
  for (auto& distance : machine.nics[0].distances) {
    if (distance.gpu.value != 3) distance.level = LinkLevel::system;
  }
  const auto found = examined(machine);
  ASSERT_EQ(found.findings.size(), 1U);
  EXPECT_TRUE(found.findings[0].title.starts_with("GPUs 0-2 reach every network adapter")) << found.findings[0].title;
}

TEST(MultiGpuChecks, OneGpuHasNoPeersToBeSlowWith) {
  Snapshot machine = healthy_machine();
  machine.gpus.resize(1);
  machine.links->clear();
  software(machine).device_nodes.resize(3);
  host(machine).iommu = true;
  host(machine).acs_bridges = {"0000:16:00.0"};
  EXPECT_EQ(found_in(machine), "");
}

}  // namespace
}  // namespace gpuwarden::testing
