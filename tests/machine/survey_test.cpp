// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "machine/simulated.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::machine {
namespace {

using testing::IsOk;
using testing::Machines;

TEST_F(Machines, ASurveyAddsTheSoftwareAroundTheGpus) {
  Options options = without_driver();
  options.environment = {{"CUDA_HOME", "/opt/cuda-12.4"}, {"PATH", "/usr/bin"}};
  const auto machine = Machine::open(Real{}, options);
  ASSERT_THAT(machine, IsOk());
  const facts::Snapshot with = machine->survey({.working_directory = "/"});
  ASSERT_TRUE(with.environment);
  EXPECT_TRUE(with.problem);
  EXPECT_TRUE(std::ranges::any_of(with.environment->variables, [](const auto& variable) {
    return variable.name == "CUDA_HOME" && variable.value == "/opt/cuda-12.4";
  }));
  EXPECT_FALSE(machine->survey({.software = false}).environment);
}

TEST_F(Machines, AnotherSystemsFilesAreJudgedWithoutThisMachinesGpusAndVariables) {
  file("root/etc/os-release", "ID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME=\"Debian 12\"\n");
  Options options = this->options();
  options.environment = {{"CUDA_HOME", "/opt/cuda-12.4"}, {"PATH", "/usr/bin"}};
  const auto machine = Machine::open(Real{}, options);
  ASSERT_THAT(machine, IsOk());
  const facts::Snapshot snapshot = machine->survey({.root = dir_ / "root"});
  EXPECT_EQ(snapshot.origin, std::filesystem::canonical(dir_ / "root").string());
  EXPECT_TRUE(snapshot.gpus.empty());
  EXPECT_FALSE(snapshot.problem) << "the GPUs were not asked for";
  ASSERT_TRUE(snapshot.environment);
  EXPECT_FALSE(std::ranges::any_of(snapshot.environment->variables,
                                   [](const auto& variable) { return variable.name == "CUDA_HOME"; }));
}

TEST_F(Machines, AnotherSystemsFilesTellOfTheGpusOnItsBus) {
  const std::string device = "root/sys/bus/pci/devices/0000:3b:00.0/";
  file(device + "vendor", "0x10de\n");
  file(device + "device", "0x2330\n");
  file(device + "class", "0x030200\n");
  file("root/sys/bus/pci/drivers/nouveau/bind", "");
  std::filesystem::create_symlink("../../../../bus/pci/drivers/nouveau", dir_ / (device + "driver"));
  const auto machine = Machine::open(Real{}, options());
  ASSERT_THAT(machine, IsOk());
  const facts::Snapshot snapshot = machine->survey({.root = dir_ / "root"});
  ASSERT_EQ(snapshot.gpus.size(), 1U);
  EXPECT_EQ(snapshot.gpus[0].gpu.name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(snapshot.gpus[0].state, facts::GpuState::disabled);
  EXPECT_THAT(snapshot.gpus[0].cause, ::testing::HasSubstr("nouveau"));
  ASSERT_TRUE(snapshot.environment);
  EXPECT_THAT(snapshot.environment->driver.loaded_modules, ::testing::ElementsAre("nouveau"));
}

TEST_F(Machines, AGpuThatItsOwnDriverServesElsewhereIsNotInTrouble) {
  const std::string device = "root/sys/bus/pci/devices/0000:3b:00.0/";
  file(device + "vendor", "0x10de\n");
  file(device + "device", "0x2330\n");
  file(device + "class", "0x030200\n");
  file("root/proc/driver/nvidia/version",
       "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release\n");
  const auto machine = Machine::open(Real{}, options());
  ASSERT_THAT(machine, IsOk());
  const facts::Snapshot snapshot = machine->survey({.root = dir_ / "root"});
  ASSERT_EQ(snapshot.gpus.size(), 1U);
  EXPECT_EQ(snapshot.gpus[0].state, facts::GpuState::available);
  EXPECT_EQ(snapshot.kernel_module_version, "580.65.06");
}

TEST_F(Machines, ASimulatedFleetHasNoSoftwareOfItsOwn) {
  const auto machine = Machine::open(Simulated{"t4x1"}, options());
  ASSERT_THAT(machine, IsOk());
  const facts::Snapshot snapshot = machine->survey({});
  EXPECT_EQ(snapshot.gpus.size(), 1U);
  EXPECT_FALSE(snapshot.environment);
  EXPECT_FALSE(snapshot.kernel_faults);
}

TEST_F(Machines, TheSoftwareOfAnotherRootIsMetByThisMachinesVariables) {
  file("root/etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n");
  Options options = without_driver();
  options.environment = {{"CUDA_HOME", "/opt/cuda-12.4"}, {"PATH", "/usr/bin"}};
  const auto machine = Machine::open(Real{}, options);
  ASSERT_THAT(machine, IsOk());
  const auto snapshot = machine->survey_software({.root = dir_ / "root"}, true);
  ASSERT_THAT(snapshot, IsOk());
  EXPECT_FALSE(snapshot->problem) << "another root's GPUs are not asked for";
  ASSERT_TRUE(snapshot->environment);
  EXPECT_EQ(snapshot->environment->host.distribution, "debian");
  EXPECT_TRUE(std::ranges::any_of(snapshot->environment->variables, [](const auto& variable) {
    return variable.name == "CUDA_HOME" && variable.value == "/opt/cuda-12.4";
  }));
  EXPECT_FALSE(machine->survey_software({}, false)->problem);
  EXPECT_TRUE(machine->survey_software({}, true)->problem) << "no driver is there";
}

TEST_F(Machines, ACaptureWithoutSoftwareTellsOfNone) {
  facts::Snapshot given;
  const auto without = Machine::open(Captured{given, "list.txt"}, without_driver());
  ASSERT_THAT(without, IsOk());
  EXPECT_THAT(without->survey_software({}, true),
              testing::FailsWith(ErrorCode::unsatisfied, ::testing::HasSubstr("list.txt says nothing")));
  given.environment.emplace().host.distribution = "ubuntu";
  EXPECT_EQ(*Machine::open(Captured{given, "list.txt"}, without_driver())->survey_software({}, true), given);
}

}  // namespace
}  // namespace gpuwarden::machine
