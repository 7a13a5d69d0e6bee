// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/platform_steps.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "gpuwarden/knowledge/diagnosis.hpp"

namespace gpuwarden::knowledge {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(PlatformSteps, AreAsTheyStandOnLinux) {
  EXPECT_THAT(steps_on(Platform::linux_own, {"sudo modprobe nvidia", "x"}), ElementsAre("sudo modprobe nvidia", "x"));
}

TEST(PlatformSteps, InWslLinuxsOwnCommandsStayAndItsDriversGo) {
  EXPECT_THAT(steps_on(Platform::wsl, {"sudo apt install g++-12", "sudo systemctl restart docker", "pip install vllm"}),
              ElementsAre("sudo apt install g++-12", "sudo systemctl restart docker", "pip install vllm"));
  EXPECT_THAT(steps_on(Platform::wsl, {"sudo apt install nvidia-driver-580-open", "sudo reboot"}),
              ElementsAre(HasSubstr("on Windows"), HasSubstr("wsl --shutdown")));
  EXPECT_THAT(steps_on(Platform::wsl, {"sudo modprobe nvidia", "sudo dkms autoinstall"}),
              ElementsAre(HasSubstr("wsl --shutdown")))
      << "each is said once";
  EXPECT_THAT(steps_on(Platform::wsl, {"sudo dmesg -T | grep -i oom-kill", "dmesg -T | grep -i xid"}),
              ElementsAre(HasSubstr("oom-kill"), HasSubstr("nvlddmkm")));
  EXPECT_THAT(steps_on(Platform::wsl, {"sudo nvidia-smi -c 0"}),
              ElementsAre("nvidia-smi -c 0   # on Windows, as its administrator"));
}

TEST(PlatformSteps, NothingIsSaidWhereNothingFits) {
  EXPECT_THAT(steps_on(Platform::wsl, {"sudo systemctl enable --now nvidia-persistenced"}), IsEmpty());
  EXPECT_THAT(steps_on(Platform::windows, {"sudo apt install python3-venv"}), IsEmpty());
  EXPECT_THAT(steps_on(Platform::wsl, {"lsmod | grep nvidia; cat /proc/driver/nvidia/version", "dkms status"}),
              IsEmpty())
      << "looking is no reason to restart";
  EXPECT_THAT(steps_on(Platform::wsl, {"lsof -i :29500"}), ElementsAre("lsof -i :29500"));
  for (const Platform platform : {Platform::wsl, Platform::windows})
    EXPECT_THAT(steps_on(platform, {"collect nvidia-bug-report.sh and have the GPU replaced"}),
                ElementsAre("collect nvidia-smi -q and have the GPU replaced"));
  EXPECT_THAT(steps_on(Platform::windows, {"ulimit -n", "cat /sys/fs/cgroup/memory.max"}), IsEmpty());
}

TEST(PlatformSteps, EventsAreReadForTheDriversLogOnly) {
  for (const Platform platform : {Platform::wsl, Platform::windows}) {
    EXPECT_THAT(steps_on(platform, {"dmesg -T | grep -i xid"}), ElementsAre(HasSubstr("nvlddmkm")));
    EXPECT_THAT(steps_on(platform, {"sudo dmesg -T | tail -50"}), ElementsAre(HasSubstr("nvlddmkm")));
  }
  const std::vector<std::string> others = {"sudo dmesg -T | grep -iE 'out of memory|oom-kill'",
                                           "journalctl -b | grep -i 'systemd.*Reloading'"};
  EXPECT_THAT(steps_on(Platform::windows, others), IsEmpty());
  EXPECT_EQ(steps_on(Platform::wsl, others), others);
}

TEST(PlatformSteps, InWslToolkitsKeepTheirRepositoryAndLinuxsDriverIsTakenAway) {
  const std::vector<std::string> stay = {"install cuda-keyring_1.1-1_all.deb", "apt-cache policy cuda-toolkit-12-8",
                                         "sudo apt-mark hold cuda-toolkit-12-8",
                                         "sudo apt remove --purge '^nvidia-driver.*' '^libnvidia-.*'"};
  EXPECT_EQ(steps_on(Platform::wsl, stay), stay);
  for (const char* step : {"apt-cache policy 'nvidia-driver-*'", "sudo apt-mark hold nvidia-driver-580",
                           "sudo dnf module reset nvidia-driver", "sudo apt-get purge 'nvidia-*', then install one",
                           "purge nvidia-driver-580 and reinstall it"})
    EXPECT_THAT(steps_on(Platform::wsl, {step}), ElementsAre(HasSubstr("driver on Windows"))) << step;
}

TEST(PlatformSteps, EachOfTheDriversFilesIsLinuxs) {
  for (const char* step : {"ls -l /dev/nvidia0", "ls -l /dev/nvidiactl", "ls /dev/nvidia*", "ls /dev/nvidia-uvm"}) {
    EXPECT_THAT(steps_on(Platform::wsl, {step}), ElementsAre(HasSubstr("/dev/dxg"))) << step;
    EXPECT_THAT(steps_on(Platform::windows, {step}), IsEmpty()) << step;
  }
}

TEST(PlatformSteps, WordsOfSentencesAreNoCommands) {
  const std::vector<std::string> stay = {"mount the driver into the container",
                                         "export the model",
                                         "In Kubernetes: mount an emptyDir for the cache",
                                         "export it anew, and cat the parts together",
                                         "Or name it: export ARCH_LIST, or -DARCHITECTURES",
                                         "See that Docker can mount and export what it needs; unset the variable"};
  EXPECT_EQ(steps_on(Platform::windows, stay), stay);
  for (const char* step :
       {"mount -o remount,ro x", "pip list | grep -i nvidia", "cd x && ls", "python a.py; export A=$B",
        "Name it: export CC=gcc-12", "Make room (ls -la cache)", "cat log.txt", "a; unset NAME", "apt install x"})
    EXPECT_THAT(steps_on(Platform::windows, {step}), IsEmpty()) << step;
}

TEST(PlatformSteps, WindowsSetsVariablesInItsOwnShell) {
  EXPECT_THAT(steps_on(Platform::windows, {"export CUDA_LAUNCH_BLOCKING=1   # says more", "export A=$B/c", "sudo ls",
                                           "export NCCL_DEBUG=INFO"}),
              ElementsAre("$env:CUDA_LAUNCH_BLOCKING='1'   # says more"));
  EXPECT_THAT(
      steps_on(Platform::windows,
               {"export A=\"-DX=ON\"", "export A='-D X' B=2   # why", "export A='x", "unset CUDA_VISIBLE_DEVICES"}),
      ElementsAre("$env:A='-DX=ON'", "$env:A='-D X'; $env:B='2'   # why", "Remove-Item Env:CUDA_VISIBLE_DEVICES"));
}

TEST(PlatformSteps, WhatAClusterGrantsIsNotAskedOfADesktop) {
  const std::vector<std::string> steps{
      "Check that the machine was given a GPU at all (Slurm: --gres=gpu:1; Kubernetes: a limit of nvidia.com/gpu).",
      "nvidia-smi -L"};
  EXPECT_EQ(steps_on(Platform::windows, steps)[0], "nvidia-smi   # does it show the GPU?");
  EXPECT_EQ(steps_on(Platform::linux_own, steps), steps);
}

TEST(PlatformSteps, AMacHasNoCudaAndIsToldWhatItHas) {
  const auto steps = steps_on(Platform::macos, {"pip install torch --index-url https://download.pytorch.org/whl/cu126",
                                                "On a Mac there is no CUDA: use device 'mps' or 'cpu'.",
                                                "If it is meant to run on the CPU, do not move anything to 'cuda'."});
  ASSERT_EQ(steps.size(), 4U);
  EXPECT_THAT(steps[0], HasSubstr("use the device 'mps'"));
  EXPECT_THAT(steps[2], HasSubstr("needs a Linux machine with an NVIDIA GPU"));
  EXPECT_THAT(steps[3], HasSubstr("meant to run on the CPU"));
  EXPECT_THAT(steps_on(Platform::macos, {"sudo modprobe nvidia", "nvidia-smi -L"}),
              ElementsAreArray(steps_without_cuda()));
  EXPECT_THAT(tests_on(Platform::macos, {"sudo modprobe nvidia", "nvidia-smi -L"}), IsEmpty());
}

TEST(PlatformSteps, WhatAMacCanDoItIsTold) {
  const std::vector<std::string> stay = {"export PYTORCH_ENABLE_MPS_FALLBACK=1", "halve the batch size",
                                         "pip install 'numpy<2'", "map the checkpoint to the CPU (map_location='cpu')"};
  EXPECT_EQ(steps_on(Platform::macos, stay), stay);
  EXPECT_THAT(steps_on(Platform::macos, {"halve the batch size", "Spread the model over more GPUs (FSDP)."}),
              ElementsAre("halve the batch size"));
  EXPECT_THAT(steps_on(Platform::windows, {"On a Mac there is no CUDA: use device 'mps' or 'cpu'."}), IsEmpty());
}

TEST(PlatformSteps, WhatIsSaidOfLinuxIsForLinuxAlone) {
  const std::vector<std::string> steps{"On Linux, set Option \"Interactive\" \"0\" in xorg.conf."};
  EXPECT_EQ(steps_on(Platform::wsl, steps), steps);
  EXPECT_THAT(steps_on(Platform::windows, steps), IsEmpty());
  EXPECT_THAT(steps_on(Platform::macos, steps), IsEmpty());
}

TEST(PlatformSteps, OnWindowsTheDriverIsLookedForInItsDeviceManager) {
  EXPECT_THAT(steps_on(Platform::windows, {"sudo modprobe nvidia"}), ElementsAre(HasSubstr("Device Manager")));
  EXPECT_THAT(steps_on(Platform::windows, {"sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm"}),
              ElementsAre("restart Windows"));
  EXPECT_THAT(steps_on(Platform::windows, {"run dcgmi diag -r 3", "Try NCCL_P2P_DISABLE=1"}), IsEmpty());
}

TEST(PlatformSteps, ALinuxKernelIsNoMatterOnWindows) {
  EXPECT_THAT(steps_on(Platform::windows,
                       {"Restart the machine: after a driver update the old kernel module stays loaded until then.",
                        "Install the driver again if the kernel was updated and no module was built for it."}),
              ElementsAre(HasSubstr("update NVIDIA's driver: https")));
}

TEST(PlatformSteps, NoStepOfACauseOrRuleAsksForLinuxsDriverElsewhere) {
  const auto expect = [](std::string_view id, std::span<const std::string_view> texts) {
    const std::vector<std::string> steps(texts.begin(), texts.end());
    for (const std::string& step : steps_on(Platform::wsl, steps))
      EXPECT_THAT(step, Not(ContainsRegex("modprobe|rmmod|dkms|mokutil|initramfs|nvidia-driver|nvidia-persistenced|"
                                          "lspci|/dev/nvidia|sudo reboot|sudo nvidia-smi|[Nn][Vv][Rr][Mm]")))
          << id;
    for (const std::string& step : steps_on(Platform::windows, steps))
      EXPECT_THAT(step, Not(ContainsRegex("modprobe|rmmod|dkms|mokutil|initramfs|sudo |systemctl|journalctl|dmesg|"
                                          "(^| )apt |lspci|ldconfig|/etc/|/dev/")))
          << id;
    for (const std::string& step : steps_on(Platform::macos, steps)) {
      const auto instead = steps_without_cuda();
      if (std::ranges::find(instead, step) != instead.end()) continue;
      EXPECT_THAT(step, Not(ContainsRegex("nvidia|NVIDIA|CUDA_|whl/cu|nvcc|modprobe|sudo |systemctl|dmesg|(^| )apt |"
                                          "lspci|/etc/|/dev/")))
          << id;
    }
  };
  for (const DiagnosisCause& cause : diagnosis_causes()) {
    expect(cause.id, cause.fix);
    expect(cause.id, cause.confirm);
  }
  for (const DiagnosisRule& rule : diagnosis_rules()) expect(rule.id, rule.fix);
}

}  // namespace
}  // namespace gpuwarden::knowledge
