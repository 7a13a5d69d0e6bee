// SPDX-License-Identifier: Apache-2.0
// Each check of shared libraries: what makes it speak alone, and what only nearly does.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "doctor/machines.hpp"

namespace gpuwarden::testing {
namespace {

using facts::Snapshot;

void use_compat(Snapshot& machine, std::string_view version) {
  auto& cuda = library(machine, "libcuda.so.1");
  cuda.origin = "compat";
  cuda.version = version;
}

void remove_library(Snapshot& machine, std::string_view name) {
  std::erase_if(software(machine).libraries, [&](const facts::Library& one) { return one.name == name; });
}

void add_library(Snapshot& machine, std::string_view name, std::string_view version, std::string_view origin) {
  software(machine).libraries.push_back(
      {std::string(name), std::string(version), "/opt/lib/" + std::string(name) + ".so", std::string(origin)});
}

void shadow_cudnn(Snapshot& machine, std::string_view version) {
  add_library(machine, "libcudnn", version, "LD_LIBRARY_PATH");
  set_variable(machine, "LD_LIBRARY_PATH", "/opt/lib");
}

constexpr auto kLibraryCases = std::to_array<Case>({
    {"libcuda-compat-unfit", [](Snapshot& m) { use_compat(m, "575.57.08"); },
     [](Snapshot& m) { use_compat(m, "590.48.01"); }, "575.57.08"},
    {"libcuda-stub-first", [](Snapshot& m) { library(m, "libcuda.so.1").origin = "stubs"; },
     [](Snapshot& m) { add_library(m, "libcuda.so.1", "", "stubs"); }, "stub"},
    {"wsl-libcuda-shadowed",
     [](Snapshot& m) {
       move_into_wsl(m);
       library(m, "libcuda.so.1").origin = "ldconfig";
     },
     move_into_wsl, "/usr/lib/wsl/lib/libcuda.so.1"},
    {"libcuda-missing", [](Snapshot& m) { remove_library(m, "libcuda.so.1"); },
     [](Snapshot& m) { software(m).libraries.clear(); }, "libcuda.so.1"},
    {"libnvml-missing", [](Snapshot& m) { remove_library(m, "libnvidia-ml.so.1"); },
     [](Snapshot& m) { software(m).libraries.clear(); }, "libnvidia-ml.so.1"},
    {"driver-libraries-of-several-versions",
     [](Snapshot& m) { add_library(m, "libcuda.so.1", "550.54.15", "ldconfig"); },
     [](Snapshot& m) { add_library(m, "libcuda.so.1", "550.54.15", "toolkit"); }, "580.105.08, 550.54.15"},
    {"library-path-of-another-cuda",
     [](Snapshot& m) { set_variable(m, "LD_LIBRARY_PATH", "/opt/lib:/usr/local/cuda-12.4/lib64"); },
     [](Snapshot& m) { set_variable(m, "LD_LIBRARY_PATH", "/opt/lib:/usr/local/cuda-13.0/lib64"); },
     "/usr/local/cuda-12.4/lib64"},
    {"cudnn-shadowed", [](Snapshot& m) { shadow_cudnn(m, "8.9.7"); }, [](Snapshot& m) { shadow_cudnn(m, "9.13.1"); },
     "cuDNN 8.9.7 from LD_LIBRARY_PATH"},
    {"cudnn-of-two-releases",
     [](Snapshot& m) {
       add_library(m, "libcudnn", "9.13.0", "ldconfig");
       add_library(m, "libcudnn", "8.9.7", "ldconfig");
     },
     [](Snapshot& m) {
       add_library(m, "libcudnn", "9.13.0", "ldconfig");
       add_library(m, "libcudnn", "9.1.0", "ldconfig");
     },
     "two major releases"},
    {"nccl-twice", [](Snapshot& m) { add_package(m, "nvidia-nccl-cu12", "2.21.5"); },
     [](Snapshot& m) { add_package(m, "nvidia-nvshmem-cu13", "3.4.5"); }, "nvidia-nccl-cu12 2.21.5"},
    {"gpu-library-preloaded", [](Snapshot& m) { set_variable(m, "LD_PRELOAD", "/opt/lib/libnccl.so.2"); },
     [](Snapshot& m) { set_variable(m, "LD_PRELOAD", "/usr/lib/libjemalloc.so.2"); }, "libnccl.so.2"},
});

}  // namespace

std::span<const Case> library_cases() { return kLibraryCases; }

namespace {

TEST(LibraryChecks, EachSpeaksAloneAndNotInItsNearMiss) { expect_cases(library_cases()); }

TEST(LibraryChecks, CudaCompatNeverHelpsGeForce) {
  Snapshot machine = healthy_machine();
  use_gpus(machine, "NVIDIA GeForce RTX 4090", {8, 9});
  use_compat(machine, "590.48.01");
  const auto found = examined(machine);
  ASSERT_EQ(found.findings.size(), 1U);
  EXPECT_TRUE(found.findings[0].title.contains("error 804")) << found.findings[0].title;
}

}  // namespace
}  // namespace gpuwarden::testing
