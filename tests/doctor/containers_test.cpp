// SPDX-License-Identifier: Apache-2.0
// Each check of containers and WSL: what makes it speak alone, and what only nearly does.
#include <gtest/gtest.h>

#include <array>

#include "doctor/machines.hpp"

namespace gpuwarden::testing {
namespace {

using facts::Snapshot;

void take_device(Snapshot& machine, std::string_view prefix) {
  for (auto& node : software(machine).device_nodes) {
    if (node.path.starts_with(prefix)) node.exists = false;
  }
}

void install_engine(Snapshot& machine, std::string_view engine, std::string_view toolkit) {
  software(machine).containers.engines = {std::string(engine)};
  if (!toolkit.empty()) software(machine).containers.toolkit_version = toolkit;
}

void use_cdi(Snapshot& machine) { software(machine).containers.cdi_specifications = {"/etc/cdi/nvidia.yaml"}; }

void limit_shm(Snapshot& machine, std::uint64_t mebibytes) {
  for (auto& system : host(machine).file_systems) {
    if (system.mount == "/dev/shm") system.total = system.free = Bytes(mebibytes << 20U);
  }
}

constexpr auto kContainerCases = std::to_array<Case>({
    {"container-without-gpu",
     [](Snapshot& m) {
       move_into_container(m, "docker");
       m.gpus.clear();
       m.links.reset();
       take_device(m, "/dev/nvidia");
     },
     [](Snapshot& m) { move_into_container(m, "docker"); }, "this docker container has no NVIDIA device"},
    {"container-without-uvm",
     [](Snapshot& m) {
       move_into_container(m, "podman");
       take_device(m, "/dev/nvidia-uvm");
     },
     [](Snapshot& m) { move_into_container(m, "podman"); }, "/dev/nvidia-uvm"},
    {"container-toolkit-missing", [](Snapshot& m) { install_engine(m, "docker 26.1.0", ""); },
     [](Snapshot& m) {
       install_engine(m, "docker 26.1.0", "1.18.0");
       software(m).containers.runtimes = {"nvidia"};
     },
     "docker 26.1.0 is installed"},
    {"container-runtime-not-configured", [](Snapshot& m) { install_engine(m, "docker 26.1.0", "1.18.0"); },
     [](Snapshot& m) {
       install_engine(m, "docker 26.1.0", "1.18.0");
       use_cdi(m);
     },
     "runtime 'nvidia'"},
    {"cdi-specification-missing", [](Snapshot& m) { install_engine(m, "podman 4.3.1", "1.18.0"); },
     [](Snapshot& m) {
       install_engine(m, "podman 4.3.1", "1.18.0");
       use_cdi(m);
     },
     "Podman"},
    {"container-toolkit-vulnerable",
     [](Snapshot& m) {
       install_engine(m, "podman 4.3.1", "1.17.7");
       use_cdi(m);
     },
     [](Snapshot& m) {
       install_engine(m, "podman 4.3.1", "1.17.8");
       use_cdi(m);
     },
     "1.17.7"},
    {"container-shm-small",
     [](Snapshot& m) {
       move_into_container(m, "docker");
       limit_shm(m, 64);
     },
     [](Snapshot& m) {
       move_into_container(m, "docker");
       limit_shm(m, 2048);
     },
     "64 MiB"},
    {"wsl-1",
     [](Snapshot& m) {
       move_into_wsl(m);
       host(m).wsl = 1;
     },
     move_into_wsl, "WSL 1"},
    {"wsl-with-linux-driver",
     [](Snapshot& m) {
       move_into_wsl(m);
       software(m).driver.package = "nvidia-driver-550 550.120";
     },
     [](Snapshot& m) { software(m).driver.package = "nvidia-driver-580-open 580.105.08"; },
     "nvidia-driver-550 550.120"},
    {"wsl-limits",
     [](Snapshot& m) {
       move_into_wsl(m);
       add_package(m, "sglang", "0.5.5");
     },
     [](Snapshot& m) { add_package(m, "sglang", "0.5.5"); }, "WSL"},
    {"kubernetes-device-plugin-missing", [](Snapshot& m) { software(m).containers.kubernetes_device_plugin = false; },
     [](Snapshot& m) { software(m).containers.kubernetes_device_plugin = true; }, "nvidia.com/gpu"},
});

}  // namespace

std::span<const Case> container_cases() { return kContainerCases; }

namespace {

TEST(ContainerChecks, TheToolkitComesFromNvidiasRepositoryWhichIsAddedFirst) {
  struct Expected {
    std::string_view distribution;
    std::string_view repository;
    std::string_view install;
  };
  constexpr auto kExpected = std::to_array<Expected>({
      {"debian", "/etc/apt/sources.list.d/nvidia-container-toolkit.list", "sudo apt update && sudo apt install"},
      {"fedora", "/etc/yum.repos.d/nvidia-container-toolkit.repo", "sudo dnf install"},
      {"sles", "sudo zypper addrepo", "sudo zypper install"},
      {"arch", "", "sudo pacman -S"},
  });
  for (const Expected& expected : kExpected) {
    Snapshot machine = healthy_machine();
    install_engine(machine, "docker 26.1.0", "");
    host(machine).distribution = expected.distribution;
    const auto found = examined(machine);
    const auto missing = std::ranges::find(found.findings, "container-toolkit-missing", &doctor::Finding::id);
    ASSERT_NE(missing, found.findings.end()) << expected.distribution;
    const std::string steps = ::testing::PrintToString(missing->fix);
    const std::size_t install = steps.find(fmt::format("{} nvidia-container-toolkit", expected.install));
    EXPECT_NE(install, std::string::npos) << steps;
    EXPECT_LT(steps.find(expected.repository), install) << steps;
    EXPECT_TRUE(steps.contains("nvidia-ctk runtime configure --runtime=docker")) << steps;
  }
}

TEST(ContainerChecks, PodmanGetsACdiSpecificationAndNoRuntime) {
  Snapshot machine = healthy_machine();
  install_engine(machine, "podman 4.3.1", "");
  const auto found = examined(machine);
  ASSERT_EQ(found.findings.size(), 1U);
  EXPECT_EQ(found.findings[0].fix.back(), "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml");
}

TEST(ContainerChecks, EachSpeaksAloneAndNotInItsNearMiss) { expect_cases(container_cases()); }

TEST(ContainerChecks, ADeviceThatKubernetesDidNotGiveIsAskedForInThePod) {
  Snapshot machine = healthy_machine();
  kContainerCases[0].sick(machine);
  move_into_container(machine, "kubernetes");
  const auto found = examined(machine);
  ASSERT_EQ(found.findings.size(), 1U);
  EXPECT_TRUE(found.findings[0].fix[0].contains("nvidia.com/gpu: 1")) << found.findings[0].fix[0];
}

TEST(ContainerChecks, AVoidMaskExplainsMissingDevices) {
  Snapshot machine = healthy_machine();
  kContainerCases[0].sick(machine);
  set_variable(machine, "NVIDIA_VISIBLE_DEVICES", "void");
  EXPECT_EQ(found_in(machine), "container-given-no-gpu");
}

TEST(ContainerChecks, EnginesInsideAContainerOrWithoutGpusAreNotJudged) {
  Snapshot machine = healthy_machine();
  install_engine(machine, "docker 26.1.0", "");
  move_into_container(machine, "docker");
  EXPECT_EQ(found_in(machine), "");
  Snapshot without = healthy_machine();
  remove_gpus(without);
  install_engine(without, "docker 26.1.0", "");
  EXPECT_EQ(found_in(without), "no-gpu");
}

}  // namespace
}  // namespace gpuwarden::testing
