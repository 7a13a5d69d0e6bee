// SPDX-License-Identifier: Apache-2.0
// Each check of toolkits: what makes it speak alone, and what only nearly does.
#include <gtest/gtest.h>

#include <array>

#include "doctor/machines.hpp"

namespace gpuwarden::testing {
namespace {

using facts::Snapshot;

void use_toolkit(Snapshot& machine, std::string_view version) {
  software(machine).pythons.clear();
  software(machine).toolkits.front().version = version;
}

void use_b200(Snapshot& machine, std::string_view toolkit) {
  use_gpus(machine, "NVIDIA B200", {10, 0});
  use_driver(machine, "570.86.15");
  use_toolkit(machine, toolkit);
}

void add_older_toolkit(Snapshot& machine, std::string_view home) {
  software(machine).pythons.clear();
  facts::Toolkit toolkit = software(machine).toolkits.front();
  toolkit.version = "12.8.93";
  toolkit.path = "/usr/local/cuda-12.8";
  toolkit.active = false;
  software(machine).toolkits.push_back(toolkit);
  set_variable(machine, "CUDA_HOME", home);
}

constexpr auto kToolkitCases = std::to_array<Case>({
    {"toolkit-newer-than-driver",
     [](Snapshot& m) {
       use_driver(m, "550.54.15");
       use_toolkit(m, "13.0.88");
     },
     [](Snapshot& m) {
       use_driver(m, "550.54.15");
       use_toolkit(m, "12.4.131");
     },
     "need driver 580"},
    {"toolkit-by-minor-version", [](Snapshot& m) { use_toolkit(m, "13.2.51"); },
     [](Snapshot& m) { use_toolkit(m, "13.0.48"); }, "CUDA 13.2 runs on driver 580.105.08"},
    {"toolkit-and-driver-cuda-differ", [](Snapshot& m) { use_toolkit(m, "12.8.93"); },
     [](Snapshot& m) { m.cuda_driver_version = "13.1"; }, "your toolkit is 12.8 and that is fine"},
    {"toolkit-too-old-for-gpu", [](Snapshot& m) { use_b200(m, "12.6.85"); },
     [](Snapshot& m) { use_b200(m, "12.8.93"); }, "CUDA 12.8 is the first that can"},
    {"toolkit-dropped-gpu",
     [](Snapshot& m) {
       use_gpus(m, "Tesla V100-SXM2-32GB", {7, 0});
       use_module(m, facts::ModuleFlavour::proprietary);
       use_toolkit(m, "13.0.88");
     },
     [](Snapshot& m) {
       use_gpus(m, "Tesla T4", {7, 5});
       use_toolkit(m, "13.0.88");
     },
     "CUDA 12.9 is the last that does"},
    {"host-compiler-too-new", [](Snapshot& m) { software(m).compilers[0].version = "16.1.0"; },
     [](Snapshot& m) { software(m).compilers[0].version = "15.2.0"; }, "takes gcc up to 15; the gcc here is 16.1.0"},
    {"glibc-too-new-for-toolkit", [](Snapshot& m) { host(m).libc = "2.42"; },
     [](Snapshot& m) { host(m).libc = "2.41"; }, "glibc 2.42"},
    {"cuda-home-differs-from-nvcc", [](Snapshot& m) { add_older_toolkit(m, "/usr/local/cuda-12.8"); },
     [](Snapshot& m) { add_older_toolkit(m, "/usr/local/cuda-13.0"); }, "CUDA_HOME is /usr/local/cuda-12.8"},
    {"cuda-home-without-toolkit", [](Snapshot& m) { set_variable(m, "CUDA_HOME", "/opt/cuda-11"); },
     [](Snapshot& m) { set_variable(m, "CUDA_HOME", "/usr/local/cuda"); }, "/opt/cuda-11"},
    {"cuda-path-differs-from-cuda-home",
     [](Snapshot& m) {
       set_variable(m, "CUDA_HOME", "/usr/local/cuda-13.0");
       set_variable(m, "CUDA_PATH", "/usr/local/cuda-12.8");
     },
     [](Snapshot& m) {
       set_variable(m, "CUDA_HOME", "/usr/local/cuda-13.0");
       set_variable(m, "CUDA_PATH", "/usr/local/cuda");
       software(m).toolkits[0].named_by = {"CUDA_HOME", "CUDA_PATH"};
     },
     "CUDA_PATH is /usr/local/cuda-12.8"},
    {"loaded-module-differs",
     [](Snapshot& m) { set_variable(m, "LOADEDMODULES", "gcc/12.2.0:cuda/12.4.1:openmpi/5.0"); },
     [](Snapshot& m) {
       set_variable(m, "LOADEDMODULES",
                    "gcc/12.2.0:cuda/13.0.1:cudnn/9.1:cuda-dcgm/3.3.5:cudaq/0.9.1:cuda-python/12.4.0");
     },
     "the module cuda/12.4.1 is loaded, but the nvcc on PATH is CUDA 13.0's"},
    {"library-path-of-other-toolkit",
     [](Snapshot& m) {
       add_older_toolkit(m, "/usr/local/cuda-13.0");
       software(m).toolkits[1].named_by = {"LD_LIBRARY_PATH"};
     },
     [](Snapshot& m) {
       add_older_toolkit(m, "/usr/local/cuda-13.0");
       software(m).toolkits[0].named_by = {"LD_LIBRARY_PATH"};
     },
     "LD_LIBRARY_PATH leads to CUDA 12.8.93"},
    {"toolkit-differs-from-torch", [](Snapshot& m) { use_torch(m, "2.9.1+cu128", "12.8", "0.24.1"); },
     [](Snapshot& m) {
       use_torch(m, "2.9.1+cu128", "12.8", "0.24.1");
       software(m).pythons[0].active = false;
     },
     "the toolkit is CUDA 13.0, PyTorch in /srv/venv was built with 12.8"},
    {"toolkit-newer-than-known",
     [](Snapshot& m) {
       forget_driver(m);
       use_toolkit(m, "13.9.1");
     },
     [](Snapshot& m) {
       forget_driver(m);
       use_toolkit(m, "13.4.1");
     },
     "CUDA 13.9"},
});

}  // namespace

std::span<const Case> toolkit_cases() { return kToolkitCases; }

namespace {

TEST(ToolkitChecks, EachSpeaksAloneAndNotInItsNearMiss) { expect_cases(toolkit_cases()); }

TEST(ToolkitChecks, OfSeveralToolkitsWithoutAnActiveOneNoneIsJudged) {
  Snapshot machine = healthy_machine();
  add_older_toolkit(machine, "/usr/local/cuda-13.0");
  for (auto& toolkit : software(machine).toolkits) toolkit.active = false;
  use_gpus(machine, "Tesla V100-SXM2-32GB", {7, 0});
  use_module(machine, facts::ModuleFlavour::proprietary);
  EXPECT_EQ(found_in(machine), "");
}

TEST(ToolkitChecks, OfTwoToolkitsTheOneThatTheRestGoesWithIsToBeUsed) {
  Snapshot machine = healthy_machine();
  add_older_toolkit(machine, "/usr/local/cuda-12.8");
  const auto step = [&] { return examined(machine).findings.at(0).fix.at(0); };
  EXPECT_EQ(step(), "eval \"$(gpuwarden env use 12.8)\"") << "the named one where nothing speaks for the other";
  software(machine).toolkits.front().named_by.emplace_back("/usr/local/cuda");
  EXPECT_EQ(step(), "eval \"$(gpuwarden env use 13.0)\"");
}

TEST(ToolkitChecks, CudaCompatLetsANewerToolkitRun) {
  Snapshot machine = healthy_machine();
  use_driver(machine, "550.54.15");
  use_toolkit(machine, "13.0.88");
  library(machine, "libcuda.so.1").origin = "compat";
  library(machine, "libcuda.so.1").version = "580.65.06";
  EXPECT_EQ(found_in(machine), "driver-end-of-life");
}

TEST(ToolkitChecks, WhatRunsByCompatibilityIsNotSaidToNeedAnotherDriver) {
  Snapshot machine = healthy_machine();
  use_driver(machine, "550.54.15");
  EXPECT_FALSE(found_in(machine).contains("toolkit-newer-than-driver")) << "PyTorch of that CUDA has used the GPU";
  software(machine).pythons.front().cuda_available = false;
  EXPECT_TRUE(found_in(machine).contains("toolkit-newer-than-driver")) << found_in(machine);
}

TEST(ToolkitChecks, AWorkingPyTorchOfAnOlderCudaProvesNothingOfANewerToolkit) {
  Snapshot machine = healthy_machine();
  use_driver(machine, "550.54.15");
  use_torch(machine, "2.6.0+cu124", "12.4", "0.21.0+cu124");
  EXPECT_TRUE(found_in(machine).contains("toolkit-newer-than-driver")) << found_in(machine);
}

}  // namespace
}  // namespace gpuwarden::testing
