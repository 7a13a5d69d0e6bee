// SPDX-License-Identifier: Apache-2.0
// A report's commands go together: what follows from another finding is not advised beside it.
#include <gmock/gmock.h>

#include "doctor/machines.hpp"
#include "gpuwarden/capture/capture.hpp"

namespace gpuwarden::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// A text that somebody sent, judged: "ID: TITLE", then its steps, a line each.
std::string told(std::string_view text, std::string_view purpose = "") {
  const auto capture = capture::read_capture(text, "paste.txt");
  EXPECT_TRUE(capture.has_value()) << text;
  std::string all;
  if (!capture) return all;
  for (const auto& finding : examined(capture->snapshot, purpose).findings) {
    all += finding.id + ": " + finding.title + "\n";
    for (const auto& step : finding.fix) all += "  " + step + "\n";
  }
  return all;
}

constexpr std::string_view kOldSoftware =
    "PyTorch version: 2.4.0+cu121\nIs debug build: False\nCUDA used to build PyTorch: 12.1\n"
    "OS: Ubuntu 22.04.4 LTS (x86_64)\nPython version: 3.12.3 (64-bit runtime)\nIs CUDA available: True\n"
    "CUDA runtime version: 11.5.119\nGPU models and configuration: GPU 0: NVIDIA GeForce RTX 5080\n"
    "Nvidia driver version: 570.86.10\ncuDNN version: Could not collect\nVersions of relevant libraries:\n"
    "[pip3] numpy==1.26.4\n[pip3] torch==2.4.0\n[pip3] torchvision==0.20.0\n[pip3] triton==3.0.0\n";

TEST(OnePlan, OneReportHasOnePyTorchOneToolkitAndNoDriverThatWorksIsRefused) {
  const std::string all = told(kOldSoftware);
  EXPECT_THAT(all, AllOf(HasSubstr("torch-too-old-for-gpu"), HasSubstr("toolkit-too-old-for-gpu"),
                         HasSubstr("/whl/cu129"), HasSubstr("cuda-toolkit-12-9")));
  EXPECT_THAT(all, AllOf(Not(HasSubstr("torch==2.4.0 --index")), Not(HasSubstr("cuda-toolkit-12-1 ")),
                         Not(HasSubstr("is fine")), Not(HasSubstr("driver-too-old-for-gpu")),
                         Not(HasSubstr("nvidia-smi shows"))));
}

TEST(OnePlan, AToolkitForAnOldGpuIsThatOfThePyTorchThatWillBeThere) {
  const std::string all = told(
      "PyTorch version: 2.14.0+cu130\nIs debug build: False\nCUDA used to build PyTorch: 13.0\n"
      "OS: Ubuntu 22.04.4 LTS (x86_64)\nPython version: 3.12.3 (64-bit runtime)\nIs CUDA available: True\n"
      "CUDA runtime version: 13.0.88\nGPU models and configuration: GPU 0: NVIDIA GeForce GTX 1080\n"
      "Nvidia driver version: 580.65.06\nVersions of relevant libraries:\n[pip3] torch==2.14.0\n");
  EXPECT_THAT(all, AllOf(HasSubstr("/whl/cu126"), HasSubstr("cuda-toolkit-12-6")));
}

TEST(OnePlan, WithoutCodeForTheGpuNoDriverHelps) {
  const std::string v100 =
      "GPU 0: Tesla V100-SXM2-16GB (UUID: GPU-1)\nNVRM version: NVIDIA UNIX x86_64 Kernel Module  "
      "450.80.02  Wed Sep 23 01:13:39 UTC 2020\n";
  const std::string all = told(v100, "torch==2.9.1+cu130");
  EXPECT_THAT(all, AllOf(HasSubstr("purpose-has-no-code-for-gpu"), Not(HasSubstr("purpose-needs-newer-driver"))));
  EXPECT_THAT(told(v100, "torch==2.9.1+cu126"), HasSubstr("purpose-needs-newer-driver")) << "that one has code for it";
}

TEST(OnePlan, ADriverBranchAtItsEndIsToldThoughNoNewerOneServesTheGpu) {
  const std::string all = told(
      "GPU 0: Tesla K80 (UUID: GPU-1)\nNVRM version: NVIDIA UNIX x86_64 Kernel Module  470.82.01  Wed Oct 27 21:21:55 "
      "UTC 2021\n");
  EXPECT_THAT(all, AllOf(HasSubstr("driver-end-of-life: driver branch 470 gets no more fixes"),
                         HasSubstr("no newer one serves GPU 0 (Tesla K80)"), HasSubstr("plan for a newer GPU")));
}

TEST(OnePlan, WhatATextDoesNotTellIsNotJudgedAndAskedFor) {
  const auto capture =
      capture::read_capture("GPU 0: NVIDIA A100-PCIE-40GB (UUID: GPU-1)\ntorch==2.9.1+cu130\n", "paste.txt");
  ASSERT_TRUE(capture);
  const auto found = examined(capture->snapshot);
  EXPECT_EQ(found.areas.at(doctor::Area::driver), doctor::Status::not_judged);
  EXPECT_EQ(found.areas.at(doctor::Area::device), doctor::Status::not_judged);
  ASSERT_EQ(found.findings.size(), 1U);
  EXPECT_THAT(found.findings[0].title, HasSubstr("needs driver 580"));
  EXPECT_THAT(found.findings[0].fix.at(0), HasSubstr("send also: nvidia-smi"));
}

TEST(OnePlan, AWheelForAnUnknownDriverSaysWhichItNeeds) {
  const std::string all = told("GPU 0: NVIDIA GeForce RTX 5090 (UUID: GPU-1)\ntorch==2.4.0+cu121\n");
  EXPECT_THAT(all, HasSubstr("/whl/cu130   # needs driver 580"));
}

TEST(OnePlan, WhatIsMadeForOnePyTorchComesWithIt) {
  std::string report(kOldSoftware);
  report +=
      "[pip3] xformers==0.0.27.post2\n[pip3] bitsandbytes==0.43.0\n"
      "[pip3] flash-attn==2.7.4.post1+cu12torch2.4cxx11abiFALSE\n";
  const std::string all = told(report);
  EXPECT_THAT(all, AllOf(HasSubstr("pip install --no-deps xformers==0.0.34 --index-url "
                                   "https://download.pytorch.org/whl/cu129"),
                         HasSubstr("pip install 'bitsandbytes>="), HasSubstr("pip install flash-attn --force")));
  EXPECT_THAT(all, AllOf(Not(HasSubstr("bitsandbytes-without-cuda")), Not(HasSubstr("extension-differs-from-torch"))));
  report.replace(report.find("Python version: 3.12.3"), 22, "Python version: 3.9.21");
  EXPECT_THAT(told(report), AllOf(HasSubstr("torch==2.8 --index-url https://download.pytorch.org/whl/cu128"),
                                  HasSubstr("xformers==0.0.32.post2"), HasSubstr("cuda-toolkit-12-8")))
      << "a PyTorch that this Python has";
}

TEST(OnePlan, AWheelThatTheSystemIsTooOldForSaysSo) {
  std::string report(kOldSoftware);
  report += "Libc version: glibc-2.27\n";
  EXPECT_THAT(told(report), HasSubstr("it needs glibc 2.28, here is 2.27"));
  EXPECT_THAT(told(kOldSoftware), Not(HasSubstr("glibc")));
}

TEST(OnePlan, AVllmBringsThePyTorchThatTheDriverRuns) {
  const std::string all = told(
      "nvidia-smi | NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2 |\nGPU 0: NVIDIA "
      "A100-PCIE-40GB (UUID: GPU-1)\ntorch==2.9.1+cu130\nvllm==0.11.0\n");
  EXPECT_THAT(all, HasSubstr("torch-needs-newer-driver: PyTorch 2.9.1 (CUDA 13.0) needs driver 580 or newer; "
                             "535.183.01 is installed\n  pip install vllm==0.11.0   # brings PyTorch 2.8\n"));
  EXPECT_THAT(all, Not(HasSubstr("pip install torch=="))) << "vLLM would undo it";
}

TEST(OnePlan, WhatPipWouldKeepIsAskedForByItsLabel) {
  constexpr std::string_view kA100 =
      "nvidia-smi | NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4 |\nGPU 0: NVIDIA "
      "A100-PCIE-40GB (UUID: GPU-1)\n";
  const auto of = [&](std::string_view packages) { return told(std::string(kA100).append(packages)); };
  EXPECT_THAT(of("torch==2.6.0+cpu\ntorchvision==0.21.0+cpu\nvllm==0.8.5.post1\n"),
              HasSubstr("  pip install torch==2.6.0+cu124 --index-url https://download.pytorch.org/whl/cu124 "
                        "torchvision==0.21.0+cu124\n  pip install vllm==0.8.5.post1   # brings PyTorch 2.6\n"));
  EXPECT_THAT(of("torch==2.4.0+cpu\nvllm==0.8.5.post1\n"), Not(HasSubstr("pip install torch"))) << "pip replaces it";
  EXPECT_THAT(of("torch==2.5.1+cpu\nvllm==0.6.6.post1\n"),
              HasSubstr("  pip uninstall -y torch   # pip would keep this build of it\n  pip install "
                        "vllm==0.6.6.post1\n"))
      << "which PyTorch that one brings is not known";
  EXPECT_THAT(of("torch==2.14.0+cpu\n"), HasSubstr("pip install torch==2.14.0+cu126 --index-url"));
  const std::string no_gpu =
      told("torch==2.14.0+cu130\nRuntimeError: The NVIDIA driver on your system is too old (found version 12040).\n");
  EXPECT_THAT(no_gpu, HasSubstr("pip install torch==2.14.0+cu126 --index-url"));
}

TEST(OnePlan, AKeplersLastDriverIsNotReplacedByAnOlderOne) {
  const std::string all = told(
      "PyTorch version: 2.0.1+cu117\nCUDA used to build PyTorch: 11.7\nOS: Ubuntu 22.04.4 LTS (x86_64)\nIs CUDA "
      "available: True\nGPU models and configuration: GPU 0: Tesla K80\nNvidia driver version: 470.82.01\n[pip3] "
      "torch==2.0.1\n");
  EXPECT_THAT(all, AllOf(HasSubstr("torch-by-minor-version"), HasSubstr("has all of CUDA 11.7: 470, their last branch"),
                         Not(HasSubstr("nvidia-driver"))));
}

TEST(OnePlan, AVllmOfAnotherMakersPyTorchIsNotReplacedByTheOneForCuda) {
  const std::string all = told("torch==2.9.1+rocm6.4\nvllm==0.11.0\n");
  EXPECT_THAT(all, Not(HasSubstr("pip install vllm")));
}

TEST(OnePlan, BuildsForTheCpuAndForOtherMakersPinNoTriton) {
  for (const std::string_view build : {"2.9.1+cpu", "2.9.1+rocm6.4"}) {
    facts::Snapshot machine = healthy_machine();
    set_package(machine, "torch", build);
    software(machine).pythons.front().torch_cuda.reset();
    set_package(machine, "triton", "3.1.0");
    EXPECT_THAT(found_in(machine), Not(HasSubstr("triton-differs-from-torch"))) << build;
  }
}

}  // namespace
}  // namespace gpuwarden::testing
