// SPDX-License-Identifier: Apache-2.0
// Machines made of files, where NVML's library does not work.
#include "gpuwarden/probe/machine_reader.hpp"

#include <chrono>

#include "probe/other_gpus.hpp"
#include "support/stand_in.hpp"

namespace gpuwarden::probe {
namespace {

using namespace gpuwarden::testing;
using facts::GpuState;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class MachineReaderTest : public ::testing::Test {
 protected:
  ReaderOptions options() const {
    ReaderOptions options;
    options.nvml_library = machine_.dir() / "no/libnvidia-ml.so.1";
    options.nvidia_smi = machine_.dir() / "no/nvidia-smi";
    options.sys_root = machine_.sys();
    options.driver_proc_root = machine_.proc();
    options.proc_roots = {machine_.proc()};
    options.pci_ids = {machine_.dir() / "pci.ids"};
    return options;
  }
  facts::Snapshot read(const ReadRequest& request = {}) const { return MachineReader(options()).read(request); }
  ReaderOptions with_smi(std::string_view output, int code = 0, int seconds = 0) const {
    auto smi = options();
    smi.nvidia_smi = machine_.program(output, code, seconds);
    return smi;
  }

  StandIn machine_;
};

TEST_F(MachineReaderTest, NvidiaSmiStepsInWhereTheLibraryIsMissing) {
  machine_.h100();
  machine_.process(4194001, "python train.py", {"/dev/nvidia0"},
                   "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n");
  const auto snapshot = MachineReader(with_smi(kSmiLog)).read();
  EXPECT_EQ(snapshot.source, "nvidia-smi");
  EXPECT_FALSE(snapshot.problem);
  EXPECT_FALSE(snapshot.host.empty());
  EXPECT_EQ(snapshot.driver_version, "550.54.15");
  ASSERT_EQ(snapshot.gpus.size(), 1U);
  const auto& record = snapshot.gpus[0];
  EXPECT_EQ(record.gpu.uuid, Uuid("GPU-17"));
  EXPECT_EQ(record.gpu.numa_node, 0);
  EXPECT_EQ(record.gpu.cpu_affinity, "0-7");
  EXPECT_EQ(record.state, GpuState::busy);
  ASSERT_TRUE(record.processes);
  ASSERT_EQ(record.processes->size(), 1U);
  EXPECT_EQ(record.processes->at(0).command, "python train.py");
  EXPECT_EQ(record.processes->at(0).user, "root");
  EXPECT_EQ(record.processes->at(0).slurm_job, "4711");
}

TEST_F(MachineReaderTest, ATroubledGpuMakesTheExitCodeAFailureButNotTheLog) {
  EXPECT_EQ(MachineReader(with_smi(kSmiLog, 15)).read().gpus.size(), 1U);
}

TEST_F(MachineReaderTest, WhereBothFailTheFirstFailureIsTold) {
  machine_.h100("");
  const auto snapshot = MachineReader(with_smi("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA "
                                               "driver. Make sure that the latest NVIDIA driver is installed and "
                                               "running.\n",
                                               9))
                            .read();
  EXPECT_EQ(snapshot.source, "sysfs");
  ASSERT_TRUE(snapshot.problem);
  EXPECT_THAT(snapshot.problem->message, HasSubstr("management library cannot be opened"));
  ASSERT_EQ(snapshot.gpus.size(), 1U);
  EXPECT_EQ(snapshot.gpus[0].gpu.name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(snapshot.gpus[0].state, GpuState::disabled);
  EXPECT_EQ(snapshot.gpus[0].cause, "no driver loaded");
}

TEST_F(MachineReaderTest, NvidiaSmiAloneSaysWhyItFails) {
  machine_.h100();
  auto smi = with_smi("No devices were found\n", 6);
  smi.probe = ProbeChoice::nvidia_smi;
  const auto none = MachineReader(smi).read();
  ASSERT_TRUE(none.problem);
  EXPECT_FALSE(none.problem->hint.empty());
  EXPECT_EQ(none.gpus.size(), 1U) << "the kernel knows of one";
  smi = with_smi("Segmentation fault of a strange kind\n", 139);
  smi.probe = ProbeChoice::nvidia_smi;
  EXPECT_THAT(MachineReader(smi).read().problem->message, HasSubstr("exit code 139: Segmentation fault"));
  smi = options();
  smi.probe = ProbeChoice::nvidia_smi;
  const auto missing = MachineReader(smi).read();
  EXPECT_THAT(missing.problem->message, HasSubstr("no/nvidia-smi: No such file"));
  EXPECT_THAT(missing.problem->hint, HasSubstr("GPUWARDEN_NVIDIA_SMI"));
}

TEST_F(MachineReaderTest, AHangingNvidiaSmiIsGivenUp) {
  machine_.h100();
  auto smi = with_smi(kSmiLog, 0, 60);
  smi.probe = ProbeChoice::nvidia_smi;
  smi.timeout = std::chrono::milliseconds(150);
  const auto snapshot = MachineReader(smi).read();
  ASSERT_TRUE(snapshot.problem);
  EXPECT_EQ(snapshot.problem->code, ErrorCode::timed_out);
  EXPECT_THAT(snapshot.problem->message, HasSubstr("300 ms"));
  EXPECT_EQ(snapshot.gpus.at(0).state, GpuState::not_answering);
}

TEST_F(MachineReaderTest, NvmlAloneMeansNvmlAlone) {
  auto smi = with_smi(kSmiLog);
  smi.probe = ProbeChoice::nvml;
  EXPECT_TRUE(MachineReader(smi).read().problem);
}

TEST_F(MachineReaderTest, NvidiaSmiIsNotAskedWhileAGpuSleeps) {
  put(machine_.h100() / "power/runtime_status", "active\n");
  put(machine_.pci("0000:18:00.0", "10de", "2330", "030200", "nvidia") / "power/runtime_status", "suspended\n");
  EXPECT_EQ(MachineReader(with_smi(kSmiLog)).read().source, "sysfs");
  auto smi = with_smi(kSmiLog);
  smi.probe = ProbeChoice::nvidia_smi;
  const auto refused = MachineReader(smi).read();
  ASSERT_TRUE(refused.problem);
  EXPECT_THAT(refused.problem->hint, HasSubstr("--wake"));
  smi.wake = true;
  EXPECT_EQ(MachineReader(smi).read().source, "nvidia-smi");
}

TEST_F(MachineReaderTest, WhoServesAnUnusedGpuIsItsCause) {
  machine_.h100("vfio-pci");
  machine_.pci("0000:18:00.0", "10de", "2330", "030200", "nouveau");
  machine_.pci("0000:19:00.0", "10de", "2330", "030200", "");
  const auto snapshot = read();
  ASSERT_EQ(snapshot.gpus.size(), 3U);
  EXPECT_THAT(snapshot.gpus[0].cause, HasSubstr("virtual machines (kernel driver vfio-pci)"));
  EXPECT_THAT(snapshot.gpus[1].cause, HasSubstr("nouveau serves it"));
  EXPECT_EQ(snapshot.gpus[2].cause, "no driver loaded");
  for (const auto& record : snapshot.gpus) EXPECT_FALSE(record.next_step.empty());
}

TEST_F(MachineReaderTest, TheKernelModuleTellsModelUuidAndMinorNumber) {
  machine_.h100();
  put(machine_.proc() / "driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  x\n");
  put(machine_.proc() / "driver/nvidia/gpus/0000:17:00.0/information",
      "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 255\nGPU UUID: \t GPU-17\nVideo BIOS: \t ??.??\n"
      "Bus Location: \t 0000:17:00.0\nDevice Minor: \t 3\n");
  const std::string unknown = "GPU-" + std::string(8, '?');
  put(machine_.proc() / "driver/nvidia/gpus/0000:18:00.0/information",
      "Model: \t\t Unknown\nGPU UUID: \t " + unknown + "\nBus Location: \t 0000:18:00.0\n");
  machine_.process(4194002, "python stuck.py", {"/dev/nvidia3"});
  const auto snapshot = read({.holders = true});
  ASSERT_EQ(snapshot.gpus.size(), 2U);
  EXPECT_EQ(snapshot.gpus[0].gpu.uuid, Uuid("GPU-17"));
  EXPECT_EQ(snapshot.gpus[0].gpu.minor_number, Count(3));
  EXPECT_THAT(snapshot.gpus[0].cause, HasSubstr("library cannot be opened")) << "the module is loaded";
  ASSERT_TRUE(snapshot.gpus[0].processes) << "who keeps the module from being unloaded";
  EXPECT_EQ(snapshot.gpus[0].processes->at(0).command, "python stuck.py");
  EXPECT_EQ(snapshot.gpus[1].gpu.pci_bus_id, "00000000:18:00.0");
  EXPECT_EQ(snapshot.gpus[1].gpu.name, "NVIDIA GPU");
  EXPECT_EQ(snapshot.gpus[1].gpu.uuid, Uuid());
}

TEST_F(MachineReaderTest, ACardShowsEvenWhereThePciTreeIsHidden) {
  const auto folder = machine_.sys() / "devices/pci0000:16/0000:17:00.0";
  put(folder / "vendor", "0x10de\n");
  put(folder / "device", "0x2330\n");
  put(folder / "class", "0x030200\n");
  std::filesystem::create_directories(machine_.sys() / "class/drm/card1");
  std::filesystem::create_symlink("../../../devices/pci0000:16/0000:17:00.0",
                                  machine_.sys() / "class/drm/card1/device");
  put(machine_.sys() / "class/drm/card1-DP-1/status", "connected\n");
  const auto snapshot = read();
  ASSERT_EQ(snapshot.gpus.size(), 1U);
  EXPECT_EQ(snapshot.gpus[0].gpu.name, "NVIDIA H100 80GB HBM3");
}

TEST_F(MachineReaderTest, HoldersAreOnlySoughtWhereAskedFor) {
  machine_.h100();
  machine_.process(4194001, "python train.py", {"/dev/nvidia0"});
  machine_.process(4194002, "Xorg :0", {"/dev/nvidiactl", "/dev/nvidia0"});
  MachineReader reader(with_smi(kSmiLog));
  EXPECT_EQ(reader.read().gpus[0].processes->size(), 1U);
  const auto snapshot = reader.read({.holders = true});
  ASSERT_EQ(snapshot.gpus[0].processes->size(), 2U);
  EXPECT_EQ(snapshot.gpus[0].processes->at(1).pid, Pid{4194002});
  EXPECT_FALSE(snapshot.gpus[0].processes->at(1).listed);
}

TEST_F(MachineReaderTest, ASearchForHoldersThatTakesTooLongIsAGapAndNotNobody) {
  machine_.h100();
  auto hasty = options();
  hasty.timeout = std::chrono::milliseconds(0);
  const auto snapshot = MachineReader(hasty).read({.holders = true});
  ASSERT_EQ(snapshot.gaps.size(), 1U);
  EXPECT_EQ(snapshot.gaps[0].part, facts::ReadingGap::Part::holders);
  EXPECT_EQ(snapshot.gaps[0].problem.code, ErrorCode::timed_out);
  EXPECT_THAT(snapshot.gaps[0].problem.message, HasSubstr("could not be found within 0 ms"));
}

TEST_F(MachineReaderTest, AmdIsListedWithWhatItsDriverTells) {
  machine_.amd();
  const auto snapshot = read();
  EXPECT_FALSE(snapshot.problem) << "there is no NVIDIA GPU whose driver could be missing";
  ASSERT_EQ(snapshot.gpus.size(), 1U);
  const auto& record = snapshot.gpus[0];
  EXPECT_EQ(record.gpu.vendor, "AMD");
  EXPECT_EQ(record.gpu.name, "AMD Instinct MI210");
  EXPECT_EQ(record.gpu.uuid, Uuid("1f1a2b3c4d5e6f70"));
  EXPECT_EQ(record.gpu.pci_bus_id, "00000000:83:00.0");
  EXPECT_EQ(record.gpu.pci_device_id, 0x740F1002U);
  EXPECT_EQ(record.state, GpuState::available);
  EXPECT_EQ(record.sample.memory_total, Bytes(68702699520));
  EXPECT_EQ(record.sample.memory_used, Bytes(10960896));
  EXPECT_EQ(record.sample.utilization_gpu, Percent(42));
  EXPECT_EQ(record.sample.temperature, 51_degC);
  EXPECT_EQ(record.sample.power, 41_W);
  EXPECT_EQ(record.sample.power_limit, 300_W);
  EXPECT_EQ(record.sample.clock_graphics, 800_MHz);
  EXPECT_EQ(record.sample.pcie_generation, Count(4));
  EXPECT_EQ(record.sample.pcie_width, Count(16));
}

TEST_F(MachineReaderTest, OthersStandBehindNvidiasAndBoardControllersNowhere) {
  machine_.pci("0000:02:00.0", "1a03", "2000", "030000", "ast");
  machine_.pci("0000:03:00.0", "102b", "0538", "030000", "mgag200");
  machine_.pci("0000:04:00.0", "8086", "1572", "020000", "i40e");
  machine_.pci("0000:05:00.0", "8086", "7d1d", "120000", "intel_vpu");
  machine_.pci("0000:06:00.0", "1002", "74a1", "120000", "amdgpu");
  const auto intel = machine_.pci("0000:00:02.0", "8086", "56c0", "038000", "i915");
  put(intel / "drm/card0/gt_act_freq_mhz", "2050\n");
  put(intel / "hwmon/hwmon2/energy1_input", "5000000\n");
  machine_.h100();
  put(machine_.dir() / "pci.ids",
      "# a list\n1002  Advanced Micro Devices, Inc. [AMD/ATI]\n\t74a1  Aqua Vanjaram [Instinct MI300X]\n"
      "8086  Intel Corporation\n\t56c0  ATS-M [Data Center GPU Flex 170]\n");
  const auto snapshot = MachineReader(with_smi(kSmiLog)).read();
  ASSERT_EQ(snapshot.gpus.size(), 3U);
  EXPECT_EQ(snapshot.gpus[0].gpu.vendor, "NVIDIA");
  EXPECT_EQ(snapshot.gpus[1].gpu.name, "Intel Data Center GPU Flex 170");
  EXPECT_EQ(snapshot.gpus[1].gpu.index, GpuIndex{1});
  EXPECT_EQ(snapshot.gpus[1].sample.clock_graphics, 2050_MHz);
  EXPECT_EQ(snapshot.gpus[1].sample.energy, Millijoules(5000));
  EXPECT_EQ(snapshot.gpus[2].gpu.name, "AMD Instinct MI300X");
  EXPECT_EQ(snapshot.gpus[2].gpu.index, GpuIndex{2});
}

TEST_F(MachineReaderTest, AnAmdGpuWithoutItsDriverOrAsleepIsHonestlyThat) {
  machine_.amd("");
  put(machine_.pci("0000:84:00.0", "1002", "744c", "030000", "amdgpu") / "power/runtime_status", "suspended\n");
  put(machine_.sys() / "bus/pci/devices/0000:84:00.0/gpu_busy_percent", "reading this would wake it\n");
  machine_.pci("0000:85:00.0", "1002", "744c", "030000", "vfio-pci");
  const auto snapshot = read();
  ASSERT_EQ(snapshot.gpus.size(), 3U);
  EXPECT_EQ(snapshot.gpus[0].state, GpuState::disabled);
  EXPECT_EQ(snapshot.gpus[0].cause, "no driver loaded");
  EXPECT_FALSE(snapshot.gpus[0].sample.memory_total);
  EXPECT_EQ(snapshot.gpus[1].gpu.name, "AMD GPU 744c");
  EXPECT_EQ(snapshot.gpus[1].state, GpuState::suspended);
  EXPECT_THAT(snapshot.gpus[2].cause, HasSubstr("vfio-pci"));
}

TEST_F(MachineReaderTest, NonsenseInSysStaysUnknown) {
  const auto folder = machine_.amd();
  put(folder / "mem_info_vram_total", "\n");
  put(folder / "mem_info_vram_used", "-5\n");
  put(folder / "gpu_busy_percent", "99999999999999999999\n");
  put(folder / "hwmon/hwmon4/temp1_input", "hot\n");
  put(folder / "product_name", "\n");
  const auto record = read().gpus.at(0);
  EXPECT_FALSE(record.sample.memory_total || record.sample.memory_used || record.sample.utilization_gpu);
  EXPECT_FALSE(record.sample.temperature || record.sample.memory_free);
  EXPECT_EQ(record.gpu.name, "AMD GPU 740f");
}

TEST_F(MachineReaderTest, AJetsonIsListedByItsBoardsName) {
  const auto tree = machine_.sys() / "firmware/devicetree/base";
  put(tree / "model", std::string("NVIDIA Jetson AGX Orin Developer Kit\0", 37));
  put(tree / "compatible", std::string("nvidia,p3737-0000+p3701-0000\0nvidia,tegra234\0", 45));
  const auto bare = read();
  EXPECT_FALSE(bare.problem);
  ASSERT_EQ(bare.gpus.size(), 1U);
  EXPECT_EQ(bare.gpus[0].gpu.name, "NVIDIA Jetson AGX Orin Developer Kit");
  EXPECT_EQ(bare.gpus[0].state, GpuState::disabled);
  put(machine_.sys() / "devices/platform/17000000.gpu/load", "387\n");
  put(machine_.sys() / "class/thermal/thermal_zone0/type", "cpu-thermal\n");
  put(machine_.sys() / "class/thermal/thermal_zone1/type", "gpu-thermal\n");
  put(machine_.sys() / "class/thermal/thermal_zone1/temp", "48750\n");
  put(machine_.proc() / "meminfo", "MemTotal:       64349168 kB\nMemFree: 1 kB\nMemAvailable:   60000000 kB\n");
  const auto record = read().gpus.at(0);
  EXPECT_EQ(record.state, GpuState::available);
  EXPECT_THAT(record.cause, HasSubstr("shares its memory with the CPU"));
  EXPECT_EQ(record.gpu.vendor, "NVIDIA");
  EXPECT_EQ(record.gpu.architecture, "Ampere");
  EXPECT_EQ(record.sample.utilization_gpu, Percent(39));
  EXPECT_EQ(record.sample.temperature, 48_degC);
  EXPECT_EQ(record.sample.memory_total, Bytes(64349168ULL << 10U));
  EXPECT_FALSE(record.sample.memory_used) << "the machine's use is not the GPU's";
}

TEST_F(MachineReaderTest, AJetsonIsAlsoKnownFromProc) {
  put(machine_.proc() / "device-tree/model", std::string("NVIDIA Jetson Nano\0", 19));
  EXPECT_EQ(read().gpus.at(0).gpu.name, "NVIDIA Jetson Nano");
  machine_.h100();
  EXPECT_EQ(read().gpus.size(), 1U) << "beside a GPU on the bus it is not the one that computes";
}

TEST_F(MachineReaderTest, AMachineWithNothingSaysWhatIsMissing) {
  const auto snapshot = read();
  EXPECT_THAT(snapshot.gpus, IsEmpty());
  ASSERT_TRUE(snapshot.problem);
  EXPECT_THAT(snapshot.problem->message, HasSubstr("no NVIDIA GPU was found here"));
}

TEST(PciIds, AreSearchedWithinTheVendorOnly) {
  constexpr std::string_view kList =
      "1001  Other\n\t744c  Wrong\n1002  AMD\n# comment\n\t73bf  Navi 21 [Radeon RX 6800/6800 XT / 6900 XT]\n"
      "\t\t1002 0001  A subsystem\n\t15e7  Barcelo\n1003  Next\n\t7550  Wrong too\n";
  EXPECT_EQ(name_in_pci_ids(kList, 0x1002, 0x73BF), "Radeon RX 6800/6800 XT / 6900 XT");
  EXPECT_EQ(name_in_pci_ids(kList, 0x1002, 0x15E7), "Barcelo");
  EXPECT_EQ(name_in_pci_ids(kList, 0x1002, 0x744C), std::nullopt);
  EXPECT_EQ(name_in_pci_ids(kList, 0x1002, 0x7550), std::nullopt);
  EXPECT_EQ(name_in_pci_ids("", 0x1002, 0x7550), std::nullopt);
}

}  // namespace
}  // namespace gpuwarden::probe
