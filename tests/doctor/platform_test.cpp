// SPDX-License-Identifier: Apache-2.0
// In WSL and on Windows no check gives a step that cannot be taken there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "doctor/machines.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::testing {
namespace {

using facts::Snapshot;
using ::testing::HasSubstr;
using ::testing::Not;

/// What touches a driver of Linux's own.
constexpr auto kOfLinuxDrivers = std::to_array<std::string_view>(
    {"modprobe", "rmmod", "dkms", "mokutil", "initramfs", "dracut", "mkinitcpio", "nvidia-driver", "ubuntu-drivers",
     "nvidia-open", "driver plan", "persistenced", "fabricmanager", "lspci", "nvrm", "/dev/nvidia", "--gpu-reset",
     "sudo reboot", "sudo nvidia-smi"});
/// What Windows has not at all.
constexpr auto kOfLinux = std::to_array<std::string_view>(
    {"sudo ", "apt ", "dnf ", "systemctl", "journalctl", "dmesg", "ldconfig", "export ", "/etc/"});

/// Of parts that only Linux's driver has, or only containers and users of Linux: nothing can be done for them there.
constexpr auto kOnLinuxOnly =
    std::to_array<std::string_view>({"fabric-manager-not-running", "fabric-manager-version-differs", "fabric-not-ready",
                                     "told-fabric-version", "device-nodes-not-permitted", "container-without-uvm",
                                     "libcuda-compat-unfit", "libcuda-stub-first", "reported-cuda-error"});

constexpr auto kAllCases = std::to_array<std::span<const Case> (*)()>(
    {driver_cases, device_cases, fault_cases, health_cases, toolkit_cases, framework_cases, serving_cases,
     library_cases, variable_cases, container_cases, multi_gpu_cases, system_cases, cluster_cases, reported_cases,
     told_cases, purpose_cases});

void expect_steps(const Case& one, void (*move)(Snapshot&), std::span<const std::string_view> forbidden) {
  Snapshot machine = healthy_machine();
  one.sick(machine);
  if (machine.environment) move(machine);
  const bool is_in_wsl = machine.environment && host(machine).wsl == 2;
  for (const auto& finding : examined(machine, one.purpose).findings) {
    const bool is_only_there = std::ranges::find(kOnLinuxOnly, finding.id) != kOnLinuxOnly.end();
    EXPECT_FALSE(finding.fix.empty() && finding.severity > doctor::Severity::warning && !is_only_there) << finding.id;
    for (const std::string& step : finding.fix) {
      if (is_in_wsl && step.contains("--purge")) continue;  // a Linux driver has to go there
      for (const std::string_view word : forbidden)
        EXPECT_THAT(step, Not(HasSubstr(std::string(word)))) << one.id << " " << finding.id;
    }
  }
}

TEST(Platforms, NoCheckAsksForLinuxsDriverInWsl) {
  for (const auto& cases : kAllCases) {
    for (const Case& one : cases())
      expect_steps(one, [](Snapshot& machine) { host(machine).wsl = 2; }, kOfLinuxDrivers);
  }
}

TEST(Platforms, NoCheckAsksForLinuxsCommandsOnWindows) {
  for (const auto& cases : kAllCases) {
    for (const Case& one : cases()) {
      const auto move = [](Snapshot& machine) {
        host(machine).distribution = "windows";
        host(machine).wsl = 0;
        host(machine).kernel.reset();
      };
      expect_steps(one, move, kOfLinuxDrivers);
      expect_steps(one, move, kOfLinux);
    }
  }
}

/// What a Mac has neither of.
constexpr auto kNotOnAMac =
    std::to_array<std::string_view>({"nvidia-smi", "modprobe", "apt ", "dnf ", "systemctl", "dmesg", "lspci", "whl/cu",
                                     "NVIDIA's driver", "CUDA_HOME", "sudo ", "/proc/", "nvcc", "ldconfig"});

TEST(Platforms, NoCheckAsksForCudaOrLinuxOnAMac) {
  const auto move = [](Snapshot& machine) {
    const auto memory = host(machine).memory_total;
    host(machine) = {.distribution = "macos", .memory_total = memory};
  };
  for (const auto& cases : kAllCases) {
    for (const Case& one : cases()) {
      Snapshot machine = healthy_machine();
      one.sick(machine);
      if (!machine.environment) continue;
      move(machine);
      for (const auto& finding : examined(machine, one.purpose).findings) {
        for (const std::string& step : finding.fix) {
          for (const std::string_view word : kNotOnAMac)
            EXPECT_THAT(step, Not(HasSubstr(std::string(word)))) << one.id << " " << finding.id;
        }
      }
    }
  }
}

TEST(Platforms, WhatWantsCudaOnAMacIsShownWhatThereIsInstead) {
  Snapshot machine = healthy_machine();
  remove_gpus(machine);
  remove_cuda_software(machine);
  host(machine) = {.distribution = "macos"};
  machine.environment->messages.push_back({"no_cuda_build", "Torch not compiled with CUDA enabled", "", 1});
  const auto examination = examined(machine);
  ASSERT_EQ(examination.findings.size(), 1U);
  EXPECT_EQ(examination.findings[0].id, "reported-cpu-build");
  EXPECT_THAT(examination.findings[0].fix, ::testing::Contains(HasSubstr("the device 'mps'")));
  machine.environment->messages.clear();
  EXPECT_EQ(found_in(machine, "vllm"), "purpose-without-gpu");
  EXPECT_THAT(fixes_of(machine, "vllm"), HasSubstr("needs a Linux machine with an NVIDIA GPU"));
  EXPECT_EQ(examined(machine).overall, doctor::Status::not_judged);
}

TEST(Platforms, ALinuxDriverInsideWslIsTakenAway) {
  Snapshot machine = healthy_machine();
  move_into_wsl(machine);
  machine.environment->driver.package = "nvidia-driver 580.65.06";
  EXPECT_THAT(fixes_of(machine), HasSubstr("apt remove --purge '^nvidia-driver"));
}

TEST(Platforms, TheDriverOfWslIsUpdatedOnWindows) {
  Snapshot machine = healthy_machine();
  use_driver(machine, "535.183.01");
  move_into_wsl(machine);
  EXPECT_THAT(fixes_of(machine), HasSubstr("update NVIDIA's driver on Windows to branch 580, and install none inside"));
}

}  // namespace
}  // namespace gpuwarden::testing
