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
using ::testing::StartsWith;

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
                           "[@driver] purge it and reinstall it"})
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
  for (const char* step : {"mount -o remount,ro x", "pip list | grep -i nvidia", "cd x && ls",
                           "python a.py; export A=$B", "[@unix] Name it: export CC=gcc-12",
                           "[@unix] Make room (ls -la cache)", "cat log.txt", "cd a; unset NAME", "apt install x"})
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
      "[@grant] Check that the machine was given a GPU at all (Slurm: --gres=gpu:1; Kubernetes: a limit of "
      "nvidia.com/gpu).",
      "nvidia-smi -L"};
  EXPECT_EQ(steps_on(Platform::windows, steps)[0], "nvidia-smi   # does it show the GPU?");
  EXPECT_THAT(steps_on(Platform::linux_own, steps)[0], StartsWith("Check that the machine")) << "without its mark";
}

TEST(PlatformSteps, AMacHasNoCudaAndIsToldWhatItHas) {
  const auto steps = steps_on(Platform::macos, {"pip install torch --index-url https://download.pytorch.org/whl/cu126",
                                                "[@unsaid] On a Mac there is no CUDA: use device 'mps' or 'cpu'.",
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
  EXPECT_THAT(steps_on(Platform::macos, {"halve the batch size", "[@no_mac] Spread the model over more GPUs (FSDP)."}),
              ElementsAre("halve the batch size"));
  EXPECT_THAT(steps_on(Platform::windows, {"[@unsaid] On a Mac there is no CUDA: use device 'mps' or 'cpu'."}),
              IsEmpty());
}

TEST(PlatformSteps, WhatIsSaidOfLinuxIsForLinuxAlone) {
  const std::vector<std::string> steps{"[@linux] On Linux, set Option \"Interactive\" \"0\" in xorg.conf."};
  EXPECT_THAT(steps_on(Platform::wsl, steps), ElementsAre(StartsWith("On Linux, set")));
  EXPECT_THAT(steps_on(Platform::windows, steps), IsEmpty());
  EXPECT_THAT(steps_on(Platform::macos, steps), IsEmpty());
}

TEST(PlatformSteps, OnWindowsTheDriverIsLookedForInItsDeviceManager) {
  EXPECT_THAT(steps_on(Platform::windows, {"sudo modprobe nvidia"}), ElementsAre(HasSubstr("Device Manager")));
  EXPECT_THAT(steps_on(Platform::windows, {"sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm"}),
              ElementsAre("restart Windows"));
  EXPECT_THAT(steps_on(Platform::windows, {"sudo dcgmi diag -r 3", "[@linux_nvidia] Try NCCL_P2P_DISABLE=1"}),
              IsEmpty());
}

TEST(PlatformSteps, ALinuxKernelIsNoMatterOnWindows) {
  EXPECT_THAT(
      steps_on(Platform::windows,
               {"[@driver] Restart the machine: after a driver update the old kernel module stays loaded until then.",
                "[@driver] Install the driver again if the kernel was updated and no module was built for it."}),
      ElementsAre(HasSubstr("update NVIDIA's driver: https")));
}

/// As a log's diagnosis hands it over: "[@nvidia] [torch] x" without the tags of logs.
std::string without_tags(std::string_view written) {
  const MarkedStep marked = marked_step(written);
  std::string_view text = marked.text;
  while (text.starts_with('[') && text.contains("] ")) text.remove_prefix(text.find("] ") + 2);
  return with_kind(marked.kind, text);
}

/// Calls `use` with each step of the rules and causes.
template <class Use>
void for_each_step(Use use) {
  for (const DiagnosisCause& cause : diagnosis_causes()) {
    for (const auto steps : {cause.fix, cause.confirm})
      for (const std::string_view step : steps) use(without_tags(step));
  }
  for (const DiagnosisRule& rule : diagnosis_rules())
    for (const std::string_view step : rule.fix) use(without_tags(step));
}

TEST(PlatformSteps, AKindIsOneOfTheTable) {
  EXPECT_FALSE(is_step_kind("moduls"));
  for_each_step([](const std::string& step) {
    const std::string_view kind = marked_step(step).kind;
    EXPECT_TRUE(kind.empty() || is_step_kind(kind)) << step;
  });
  EXPECT_EQ(with_kind("driver", "x"), "[@driver] x");
  EXPECT_EQ(with_kind("", "x"), "x");
  EXPECT_EQ(marked_step("[vllm] x").kind, "") << "the tag of a log is no kind";
}

/// What becomes of a sentence: 'kept', 'left out', or what stands in its place.
std::string fate_of(Platform platform, std::string_view kind, const std::string& sentence) {
  const auto there = tests_on(platform, {with_kind(kind, sentence)});
  if (there.empty()) return "left out";
  return there[0] == sentence ? "kept" : there[0];
}

TEST(PlatformSteps, RewordingASentenceDecidesNothing) {
  for_each_step([](const std::string& step) {
    const MarkedStep marked = marked_step(step);
    const std::string text(marked.text);
    const bool begins_small = text[0] >= 'a' && text[0] <= 'z';
    // What begins as a command does is judged by what it names; the kind "admin" alone changes the sentence itself.
    if (begins_small || text[0] == '/' || text.contains("nvidia-bug-report.sh")) return;
    if (is_command(text) || marked.kind == "admin") return;
    for (const Platform platform : {Platform::wsl, Platform::windows, Platform::macos}) {
      const std::string before = fate_of(platform, marked.kind, text);
      const bool told = steps_on(platform, {step}).size() > 1;
      for (const char* words : {"Xyzzy.", "On a Mac there is none; spread it over more GPUs of Slurm.",
                                "The kernel was updated: sudo modprobe nvidia, then look at /dev/nvidia0 and lspci.",
                                "On Linux: NCCL and CUDA, with dmesg | grep xid."}) {
        EXPECT_EQ(fate_of(platform, marked.kind, words), before) << step;
        EXPECT_EQ(steps_on(platform, {with_kind(marked.kind, words)}).size() > 1, told) << step;
      }
    }
  });
}

TEST(PlatformSteps, NoStepOfACauseOrRuleAsksForLinuxsDriverElsewhere) {
  const auto expect = [](std::string_view id, std::span<const std::string_view> texts) {
    std::vector<std::string> steps;
    for (const std::string_view text : texts) steps.push_back(without_tags(text));
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
