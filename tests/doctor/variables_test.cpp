// SPDX-License-Identifier: Apache-2.0
// Each check of environment variables: what makes it speak alone, and what only nearly does.
#include <gtest/gtest.h>

#include <array>

#include "doctor/machines.hpp"

namespace gpuwarden::testing {
namespace {

using facts::Snapshot;

void mix_gpus(Snapshot& machine) {
  machine.gpus[3].gpu.name = "NVIDIA H100 PCIe";
  machine.gpus[3].gpu.pci_device_id.reset();
}

constexpr auto kVariableCases = std::to_array<Case>({
    {"visible-devices-empty", [](Snapshot& m) { set_variable(m, "CUDA_VISIBLE_DEVICES", "-1"); },
     [](Snapshot& m) { set_variable(m, "CUDA_VISIBLE_DEVICES", "0"); }, "'-1'"},
    {"visible-devices-absent", [](Snapshot& m) { set_variable(m, "CUDA_VISIBLE_DEVICES", "0,4"); },
     [](Snapshot& m) { set_variable(m, "CUDA_VISIBLE_DEVICES", "0,3"); }, "names 4"},
    {"visible-devices-twice", [](Snapshot& m) { set_variable(m, "CUDA_VISIBLE_DEVICES", "1,2,1"); },
     [](Snapshot& m) { set_variable(m, "CUDA_VISIBLE_DEVICES", "1,2"); }, "names 1 twice"},
    {"device-order-ambiguous",
     [](Snapshot& m) {
       mix_gpus(m);
       set_variable(m, "CUDA_VISIBLE_DEVICES", "0");
     },
     [](Snapshot& m) {
       mix_gpus(m);
       set_variable(m, "CUDA_VISIBLE_DEVICES", "0");
       set_variable(m, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
     },
     "CUDA_VISIBLE_DEVICES=0"},
    {"launch-blocking", [](Snapshot& m) { set_variable(m, "CUDA_LAUNCH_BLOCKING", "1"); },
     [](Snapshot& m) { set_variable(m, "CUDA_LAUNCH_BLOCKING", "0"); }, "CUDA_LAUNCH_BLOCKING"},
    {"cuda-debugging-variables", [](Snapshot& m) { set_variable(m, "CUDA_INJECTION64_PATH", "/opt/tool.so"); },
     [](Snapshot& m) { set_variable(m, "CUDA_CACHE_PATH", "/tmp/cache"); }, "CUDA_INJECTION64_PATH"},
    {"nccl-fast-paths-off", [](Snapshot& m) { set_variable(m, "NCCL_P2P_DISABLE", "1"); },
     [](Snapshot& m) { set_variable(m, "NCCL_P2P_DISABLE", "0"); }, "NCCL_P2P_DISABLE=1"},
    {"nccl-on-loopback", [](Snapshot& m) { set_variable(m, "NCCL_SOCKET_IFNAME", "lo"); },
     [](Snapshot& m) { set_variable(m, "NCCL_SOCKET_IFNAME", "eth0"); }, "lo"},
    {"container-given-no-gpu",
     [](Snapshot& m) {
       move_into_container(m, "docker");
       set_variable(m, "NVIDIA_VISIBLE_DEVICES", "void");
     },
     [](Snapshot& m) {
       move_into_container(m, "docker");
       set_variable(m, "NVIDIA_VISIBLE_DEVICES", "all");
     },
     "void"},
    {"container-without-compute",
     [](Snapshot& m) {
       move_into_container(m, "docker");
       set_variable(m, "NVIDIA_DRIVER_CAPABILITIES", "utility");
     },
     [](Snapshot& m) { set_variable(m, "NVIDIA_DRIVER_CAPABILITIES", "utility"); }, "utility"},
    {"rocm-masks-renumber",
     [](Snapshot& m) {
       add_amd_gpu(m, "gfx942");
       set_variable(m, "ROCR_VISIBLE_DEVICES", "1");
     },
     [](Snapshot& m) {
       add_amd_gpu(m, "gfx942");
       set_variable(m, "ROCR_VISIBLE_DEVICES", "0");
     },
     "ROCR_VISIBLE_DEVICES=1"},
    {"allocator-key-unknown", [](Snapshot& m) { set_variable(m, "PYTORCH_CUDA_ALLOC_CONF", "max_split_size:128"); },
     [](Snapshot& m) {
       set_variable(m, "PYTORCH_CUDA_ALLOC_CONF",
                    "max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2,>:4],expandable_segments:True");
     },
     "'max_split_size'"},
    {"one-openmp-thread", [](Snapshot& m) { set_variable(m, "OMP_NUM_THREADS", "1"); },
     [](Snapshot& m) { set_variable(m, "OMP_NUM_THREADS", "8"); }, "128 CPUs"},
});

}  // namespace

std::span<const Case> variable_cases() { return kVariableCases; }

namespace {

TEST(VariableChecks, EachSpeaksAloneAndNotInItsNearMiss) { expect_cases(variable_cases()); }

TEST(VariableChecks, VisibleDevicesMayBeUuids) {
  Snapshot machine = healthy_machine();
  set_variable(machine, "CUDA_VISIBLE_DEVICES", machine.gpus[1].gpu.uuid.value);
  EXPECT_EQ(found_in(machine), "");
  set_variable(machine, "CUDA_VISIBLE_DEVICES", "GPU-ffffffff-0000-0000-0000-000000000000");
  EXPECT_EQ(found_in(machine), "visible-devices-absent");
}

TEST(VariableChecks, AnEmptyMaskHidesAsMuchAsMinusOne) {
  Snapshot machine = healthy_machine();
  set_variable(machine, "CUDA_VISIBLE_DEVICES", "");
  EXPECT_EQ(found_in(machine), "visible-devices-empty");
}

TEST(VariableChecks, AMaskIsReadAsCudaReadsIt) {
  const auto judged = [](std::string_view mask) {
    Snapshot machine = healthy_machine();
    set_variable(machine, "CUDA_VISIBLE_DEVICES", mask);
    return found_in(machine);
  };
  for (const char* mask : {" ", "-1,0", " -1 ", "NoDevFiles", ",0"})
    EXPECT_EQ(judged(mask), "visible-devices-empty") << mask;
  for (const char* mask : {"0, 0", " 1,0,1"}) EXPECT_EQ(judged(mask), "visible-devices-twice") << mask;
  for (const char* mask : {"0,-1,1", "0, 4", "1,,2"}) EXPECT_EQ(judged(mask), "visible-devices-absent") << mask;
  for (const char* mask : {"0,-1", "0, 1", "3,2,1,0", "1,"}) EXPECT_EQ(judged(mask), "") << mask;
}

TEST(VariableChecks, ValuesAreMadePrintable) {
  Snapshot machine = healthy_machine();
  move_into_container(machine, "docker");
  set_variable(machine, "NVIDIA_DRIVER_CAPABILITIES", "uti\033[31mlity");
  const auto found = examined(machine);
  ASSERT_EQ(found.findings.size(), 1U);
  EXPECT_FALSE(found.findings[0].title.contains('\033')) << "an escape reached a title";
}

}  // namespace
}  // namespace gpuwarden::testing
