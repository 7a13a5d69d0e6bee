// SPDX-License-Identifier: Apache-2.0
// Each format, in texts of our own that have its shape, with the traps seen in real files.
#include <algorithm>

#include "capture/reading.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/capture/capture.hpp"
#include "gpuwarden/facts/failed_readings.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::capture {
namespace {

using namespace gpuwarden::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Kind> kinds_of(const Capture& capture) {
  std::vector<Kind> kinds;
  for (const Part& part : capture.parts) kinds.push_back(part.kind);
  return kinds;
}

constexpr std::string_view kOldTable =
    "Mon Mar  4 10:20:30 2019\n"
    "+-----------------------------------------------------------------------------+\n"
    "| NVIDIA-SMI 410.48                 Driver Version: 410.48                    |\n"
    "|-------------------------------+----------------------+----------------------+\n"
    "| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |\n"
    "| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |\n"
    "|===============================+======================+======================|\n"
    "|   3  Tesla V100-SXM2...  On   | 00000000:8A:00.0 Off |                    2 |\n"
    "| N/A   61C    P0   231W / 300W |  15079MiB / 16130MiB |     98%   E. Process |\n"
    "+-------------------------------+----------------------+----------------------+\n"
    "|   4  Tesla V100-SXM2...  On   | 00000000:8B:00.0 Off |                  N/A |\n"
    "|ERR!  ERR! ERR!    ERR! / ERR! |  15079MiB / 16130MiB |    ERR!      Default |\n"
    "+-------------------------------+----------------------+----------------------+\n"
    "\n"
    "+-----------------------------------------------------------------------------+\n"
    "| Processes:                                                       GPU Memory |\n"
    "|  GPU       PID   Type   Process name                             Usage      |\n"
    "|=============================================================================|\n"
    "|    3      4242      C   python train.py --big                      15069MiB |\n"
    "+-----------------------------------------------------------------------------+\n";

TEST(SmiTable, ReadsTheOldLayoutWhoseRowNumberIsTheIndexAndWhoseErrorsAreGaps) {
  const auto snapshot = snapshot_of(kOldTable);
  EXPECT_EQ(snapshot.driver_version, "410.48");
  EXPECT_EQ(snapshot.cuda_driver_version, std::nullopt);
  EXPECT_EQ(format_utc(snapshot.taken_at), "2019-03-04T10:20:30Z");
  ASSERT_EQ(snapshot.gpus.size(), 2U);
  const auto& gpu = snapshot.gpus[0];
  EXPECT_EQ(gpu.gpu.index, GpuIndex{3});
  EXPECT_EQ(gpu.gpu.name, "Tesla V100-SXM2...");
  EXPECT_EQ(gpu.gpu.pci_bus_id, "00000000:8A:00.0");
  EXPECT_EQ(gpu.gpu.compute_mode, facts::ComputeMode::exclusive_process);
  EXPECT_EQ(gpu.sample.memory_used, 15079_MiB);
  EXPECT_EQ(gpu.sample.power, 231_W);
  EXPECT_EQ(gpu.sample.ecc_uncorrected_volatile, Count(2));
  EXPECT_EQ(gpu.sample.fan_speed, std::nullopt);
  ASSERT_TRUE(gpu.processes);
  EXPECT_EQ(gpu.processes->at(0).command, "python train.py --big");
  EXPECT_EQ(gpu.state, facts::GpuState::busy);
  EXPECT_EQ(snapshot.gpus[1].state, facts::GpuState::not_answering);
  EXPECT_EQ(snapshot.gpus[1].sample.temperature, std::nullopt);
  EXPECT_EQ(snapshot.gpus[1].sample.memory_used, 15079_MiB) << "one cell's error is not another's";
}

constexpr std::string_view kNewTable =
    "    +-----------------------------------------------------------------------------------------+\n"
    "    | NVIDIA-SMI 610.10.01              KMD Version: 611.02     CUDA UMD Version: 13.3        |\n"
    "    +-----------------------------------------+------------------------+----------------------+\n"
    "    | GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
    "    | Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"
    "    |                                         |                        |               MIG M. |\n"
    "    |=========================================+========================+======================|\n"
    "    |   0  NVIDIA A100-SXM4-40GB          On  |   00000000:07:00.0 Off |                   On |\n"
    "    | N/A   30C    P0             45W /  400W |      25MiB /  40960MiB |     N/A      Default |\n"
    "    |                                         |                        |              Enabled |\n"
    "    +-----------------------------------------+------------------------+----------------------+\n"
    "\n"
    "    +-----------------------------------------------------------------------------------------+\n"
    "    | MIG devices:                                                                            |\n"
    "    +------------------+----------------------------------+-----------+-----------------------+\n"
    "    | GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |\n"
    "    |      ID  ID  Dev |                Shared BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |\n"
    "    |==================+==================================+===========+=======================|\n"
    "    |  0    2   0   0  |              13MiB / 19968MiB    | 42      0 |  3   0    2    0    0 |\n"
    "    |                  |               0MiB / 32767MiB    |           |                       |\n"
    "    +------------------+----------------------------------+-----------+-----------------------+\n"
    "    | Processes:                                                                              |\n"
    "    |=========================================================================================|\n"
    "    |    0    2    0            21180    M+C   /usr/bin/serve                             11MiB |\n"
    "    +-----------------------------------------------------------------------------------------+\n";

TEST(SmiTable, ReadsTheNewLayoutIndentedWithMigAndDriver610sHeader) {
  const auto snapshot = snapshot_of(kNewTable);
  EXPECT_EQ(snapshot.driver_version, "611.02");
  EXPECT_EQ(snapshot.cuda_driver_version, "13.3");
  ASSERT_EQ(snapshot.gpus.size(), 1U);
  const auto& gpu = snapshot.gpus[0];
  EXPECT_EQ(gpu.gpu.mig_enabled, true);
  EXPECT_EQ(gpu.sample.utilization_gpu, std::nullopt);
  ASSERT_EQ(gpu.mig_devices.size(), 1U);
  EXPECT_EQ(gpu.mig_devices[0].profile, "3g.20gb");
  EXPECT_EQ(gpu.mig_devices[0].memory_used, 13_MiB);
  ASSERT_EQ(gpu.processes->size(), 1U);
  EXPECT_TRUE(gpu.processes->at(0).mps);
  EXPECT_EQ(gpu.processes->at(0).gpu_instance, 2U);
}

TEST(SmiTable, PrefixesOfLogsAndQuotationsAreNoMatter) {
  for (const std::string_view prefix : {"> ", "2026-11-20T10:00:00.123Z ", "worker-3: ", "[1,0]<stdout>:"}) {
    std::string table;
    for (const auto line : split(kOldTable, '\n')) table.append(prefix).append(line).append("\n");
    const auto snapshot = snapshot_of(table);
    ASSERT_EQ(snapshot.gpus.size(), 2U) << prefix;
    EXPECT_EQ(snapshot.driver_version, "410.48") << prefix;
    EXPECT_EQ(snapshot.gpus[0].sample.memory_used, 15079_MiB) << prefix;
    EXPECT_EQ(snapshot.gpus[0].processes->size(), 1U) << prefix;
  }
}

TEST(SmiTable, WindowsHasADriverModelAndNoProcessMemory) {
  std::string table(kNewTable);
  table.replace(table.find("On  |   00000000"), 2, "WDDM");
  table.replace(table.find("M+C   /usr/bin/serve                             11MiB"), 54,
                "C+G   Insufficient Permissions                   N/A  ");
  const auto snapshot = snapshot_of(table);
  ASSERT_EQ(snapshot.gpus.size(), 1U);
  EXPECT_EQ(snapshot.gpus[0].gpu.persistence, std::nullopt);
  ASSERT_EQ(snapshot.gpus[0].processes->size(), 1U);
  EXPECT_EQ(snapshot.gpus[0].processes->at(0).memory, std::nullopt);
  EXPECT_TRUE(snapshot.gpus[0].processes->at(0).graphics);
  ASSERT_TRUE(snapshot.environment);
  EXPECT_EQ(snapshot.environment->host.distribution, "windows");
}

TEST(SmiTable, TheHeaderAloneTellsWindows) {
  for (const char* column : {"TCC/WDDM    ", "Driver-Model"}) {
    std::string table(kNewTable);
    EXPECT_FALSE(snapshot_of(table).environment);
    const std::size_t at = table.find("Persistence-M");
    ASSERT_NE(at, std::string::npos);
    table.replace(at, 12, column);
    ASSERT_TRUE(snapshot_of(table).environment) << column;
    EXPECT_EQ(snapshot_of(table).environment->host.distribution, "windows");
  }
}

TEST(SmiTable, APowerDrawAboveEveryCapIsNoReading) {
  std::string table(kOldTable);
  table.replace(table.find("231W"), 4, "9999W ");
  EXPECT_EQ(snapshot_of(table).gpus[0].sample.power, std::nullopt);
}

constexpr std::string_view kQuery =
    "==============NVSMI LOG==============\n\n"
    "Timestamp                                 : Wed Sep 25 10:40:24 2024\n"
    "Driver Version                            : 610.57.04 [Deprecated; will go in CUDA 14.0. Use KMD Version]\n"
    "CUDA Version                              : 13.3\n\n"
    "Attached GPUs                             : 1\n"
    "GPU 00000000:07:00.0\n"
    "    Product Name                          : NVIDIA A10\n"
    "    Persistence Mode                      : Enabled\n"
    "    MIG Mode\n"
    "        Current                           : N/A\n"
    "    GPU UUID                              : GPU-11111111-2222-3333-4444-555555555555\n"
    "    PCI\n"
    "        Bus Id                            : 00000000:07:00.0\n"
    "        GPU Link Info\n"
    "            Link Width\n"
    "                Max                       : 16x\n"
    "                Current                   : 8x\n"
    "        Tx Throughput                     : 300 KB/s\n"
    "    Fan Speed                             : [N/A]\n"
    "    Performance State                     : P8\n"
    "    Clocks Event Reasons\n"
    "        Idle                              : Not Active\n"
    "        HW Slowdown                       : Active\n"
    "            HW Thermal Slowdown           : Active\n"
    "    FB Memory Usage\n"
    "        Total                             : 23028 MiB\n"
    "        Used                              : 4 MiB\n"
    "    Utilization\n"
    "        Gpu                               : 7 %\n"
    "    Remapped Rows\n"
    "        Uncorrectable Error               : 4\n"
    "        Pending                           : Yes\n"
    "    Temperature\n"
    "        GPU Current Temp                  : 33 C\n"
    "    GPU Power Readings\n"
    "        Power Draw                        : Unknown Error\n"
    "        Average Power Draw                : 43.89 W\n"
    "    Processes\n"
    "        GPU instance ID                   : N/A\n"
    "        Process ID                        : 21180\n"
    "            Type                          : C\n"
    "            Name                          : /root/tool : with colon\n"
    "            Used GPU Memory               : 2296 MiB\n";

TEST(SmiQuery, ReadsTheTextLikeTheXml) {
  const auto snapshot = snapshot_of(kQuery);
  EXPECT_EQ(snapshot.driver_version, "610.57.04") << "the note about deprecation is none of it";
  ASSERT_EQ(snapshot.gpus.size(), 1U);
  const auto& [gpu, sample, processes, unreadable, mig, mig_listed, state, cause, next] = snapshot.gpus[0];
  EXPECT_FALSE(unreadable);
  EXPECT_EQ(gpu.uuid.value, "GPU-11111111-2222-3333-4444-555555555555");
  EXPECT_EQ(gpu.pcie_width_max, Count(16));
  EXPECT_EQ(sample.pcie_width, Count(8));
  EXPECT_EQ(sample.pcie_sent, BytesPerSecond(300'000));
  EXPECT_EQ(sample.fan_speed, std::nullopt);
  EXPECT_EQ(sample.performance_state, Count(8));
  EXPECT_EQ(sample.throttle_reasons,
            (std::vector{facts::ThrottleReason::hw_slowdown, facts::ThrottleReason::hw_thermal_slowdown}));
  EXPECT_EQ(sample.utilization_gpu, 7_pct);
  EXPECT_EQ(sample.remapped_rows_uncorrected, Count(4));
  EXPECT_EQ(sample.remapped_rows_pending, Count(1));
  EXPECT_EQ(sample.power, Milliwatts(43'890)) << "where the draw is unknown the average stands for it";
  ASSERT_TRUE(processes);
  EXPECT_EQ(processes->at(0).memory, 2296_MiB);
  EXPECT_EQ(processes->at(0).command, "/root/tool : with colon");
}

TEST(SmiList, NamesGpusAndMigDevicesAndAnsiIsNoMatter) {
  const auto snapshot = snapshot_of(
      "\x1b[1mGPU 0: NVIDIA A30 (UUID: GPU-aa)\x1b[0m\r\n"
      "  MIG 2g.12gb     Device  0: (UUID: MIG-bb)\r\n"
      "GPU 1: NVIDIA A30 (UUID: GPU-...)\r\n");
  ASSERT_EQ(snapshot.gpus.size(), 2U);
  EXPECT_EQ(snapshot.gpus[0].mig_devices.at(0).profile, "2g.12gb");
  EXPECT_EQ(snapshot.gpus[0].gpu.compute_capability, (facts::ComputeCapability{8, 0}));
  EXPECT_EQ(snapshot.gpus[1].gpu.uuid.value, "") << "masked";
}

TEST(Nvlink, KnowsSpeedsAndInactiveLinks) {
  const auto snapshot =
      snapshot_of("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aa)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n");
  const auto& links = snapshot.gpus.at(0).sample.nvlinks;
  ASSERT_EQ(links.size(), 2U);
  EXPECT_EQ(links[0].speed, BytesPerSecond(26'562'000'000));
  EXPECT_EQ(links[1].active, false);
}

TEST(SmiCsv, ReadsAnyFieldsWithUnitsAndWithout) {
  const auto snapshot = snapshot_of(
      "index, name, pci.bus_id, memory.total [MiB], memory.used [MiB], utilization.gpu [%], power.draw [W], pstate, "
      "mig.mode.current, compute_cap\n"
      "0, NVIDIA L4, 00000000:00:03.0, 23034 MiB, 1 MiB, 3 %, 12.50 W, P8, [N/A], 8.9\n"
      "1, NVIDIA L4, 00000000:00:04.0, 23034, 2, 4, [Unknown Error], P0, [N/A], 8.9\n");
  ASSERT_EQ(snapshot.gpus.size(), 2U);
  EXPECT_EQ(snapshot.gpus[0].sample.power, Milliwatts(12'500));
  EXPECT_EQ(snapshot.gpus[1].sample.memory_used, 2_MiB);
  EXPECT_EQ(snapshot.gpus[1].sample.power, std::nullopt);
  EXPECT_EQ(snapshot.gpus[1].gpu.compute_capability, (facts::ComputeCapability{8, 9}));
}

TEST(SmiCsv, AHeaderOfCommonNamesIsOneWhereNothingElseStandsInIt) {
  EXPECT_EQ(snapshot_of("index, name\n1, NVIDIA L4\n").gpus.at(0).gpu.index, GpuIndex{1});
  EXPECT_EQ(snapshot_of("0, Tesla T4\n").gpus.at(0).gpu.name, "Tesla T4") << "and none at all";
  EXPECT_THAT(read_capture("name, age, uuid\nAda, 36, 1\n", "people.csv"), FailsWith(ErrorCode::corrupt, ::testing::_));
}

TEST(SmiCsv, AFileWrittenInALoopGivesItsLastRow) {
  const auto capture = read_capture(
      "timestamp, temperature.gpu, memory.used [MiB]\n"
      "2024/01/16 14:44:16.977, 25, 21 MiB\n"
      "2024/01/16 14:44:17.981, 26, 7 MiB\n",
      "loop.csv");
  ASSERT_THAT(capture, IsOk());
  EXPECT_EQ(capture->snapshot.gpus.at(0).sample.temperature, 26_degC);
  EXPECT_EQ(format_utc(capture->snapshot.taken_at), "2024-01-16T14:44:17Z");
  EXPECT_EQ(capture->snapshot.origin, "loop.csv: nvidia-smi --query-gpu");
}

TEST(SmiCsv, ProcessesFindTheirGpuByBusId) {
  const auto snapshot = snapshot_of(
      "pid, gpu_bus_id, gpu_name, process_name, used_gpu_memory [MiB]\n"
      "77, 00000000:83:00.0, NVIDIA H200, python, 2566 MiB\n"
      "78, 00000000:83:00.0, NVIDIA H200, python, [N/A]\n");
  ASSERT_EQ(snapshot.gpus.size(), 1U);
  ASSERT_EQ(snapshot.gpus[0].processes->size(), 2U);
  EXPECT_EQ(snapshot.gpus[0].processes->at(0).memory, 2566_MiB);
}

constexpr std::string_view kTopology =
    "\tGPU0\tGPU1\tGPU2\tNIC0NIC1CPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    "GPU0\t X \tNV12\tNV12\tPIX\tNODE\t0-23\t0\t\tN/A\n"
    "GPU1\tNV12\t X \tNV12\tSYSSYS\t24-47\t1\t\tN/A\n"
    "GPU2\tSYS\tSYS\t X \tSYS\tPXB\n"
    "NIC0\tPIX\tSYS\tSYS\t X \tNODE\n"
    "NIC1\tNODE\tSYS\tPXB\tNODE\t X \n\n"
    "Legend:\n\n  X    = Self\n\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_bond_0\n";

TEST(Topology, ColumnsThatRanTogetherAndAsymmetricRowsAreRead) {
  const auto snapshot = snapshot_of(kTopology);
  ASSERT_EQ(snapshot.gpus.size(), 3U);
  ASSERT_TRUE(snapshot.links);
  ASSERT_EQ(snapshot.links->size(), 3U);
  for (const auto& link : *snapshot.links) EXPECT_EQ(link.nvlinks, 12) << "GPU2's own row hides its links";
  EXPECT_EQ(snapshot.gpus[1].gpu.cpu_affinity, "24-47");
  EXPECT_EQ(snapshot.gpus[1].gpu.numa_node, 1);
  ASSERT_EQ(snapshot.nics.size(), 2U);
  EXPECT_EQ(snapshot.nics[1].name, "mlx5_bond_0");
  EXPECT_THAT(snapshot.nics[1].distances,
              ElementsAre(facts::Nic::Distance{GpuIndex{0}, facts::LinkLevel::node},
                          facts::Nic::Distance{GpuIndex{1}, facts::LinkLevel::system},
                          facts::Nic::Distance{GpuIndex{2}, facts::LinkLevel::multiple_switches}));
}

TEST(Topology, PeerAccessHasAMatrixOfItsOwn) {
  const auto capture = read_capture("        GPU0    GPU1\n GPU0   X       CNS\n GPU1   CNS     X\n", "p2p");
  ASSERT_THAT(capture, IsOk());
  EXPECT_THAT(kinds_of(*capture), ElementsAre(Kind::p2p));
  EXPECT_EQ(capture->snapshot.links->at(0).p2p_read, "CNS");
}

TEST(Monitors, TheLastSampleOfEachGpuCounts) {
  const auto snapshot = snapshot_of(
      "# gpu    pwr  gtemp  mtemp     sm    mem   mclk   pclk\n"
      "# Idx      W      C      C      %      %    MHz    MHz\n"
      "    0     60     40      -      0      0   2619    345\n"
      "    1     61     41     44      5      1   2619    345\n"
      "    0    631     63     57    100     10   2619   1980\n");
  ASSERT_EQ(snapshot.gpus.size(), 2U);
  EXPECT_EQ(snapshot.gpus[0].sample.power, 631_W);
  EXPECT_EQ(snapshot.gpus[0].sample.utilization_gpu, 100_pct);
  EXPECT_EQ(snapshot.gpus[1].sample.temperature_memory, 44_degC);
}

TEST(Monitors, ProcessesHaveTheirSharesAndNamesWithBlanks) {
  const auto snapshot = snapshot_of(
      "# gpu         pid   type     sm    mem    enc    dec    command\n"
      "# Idx           #    C/G      %      %      %      %    name\n"
      "    0       10309     C     99      7      -      -    gpu burn\n"
      "    1           -     -      -      -      -      -    -\n");
  const auto& process = snapshot.gpus.at(0).processes->at(0);
  EXPECT_EQ(process.sm, 99_pct);
  EXPECT_EQ(process.encoder, std::nullopt);
  EXPECT_EQ(process.command, "gpu burn");
  EXPECT_TRUE(snapshot.gpus.at(1).processes->empty());
}

TEST(Versions, DeprecatedLinesGiveWayToTheirHeirs) {
  const auto snapshot = snapshot_of(
      "NVIDIA-SMI version  : 610.57.04\nNVML version        : 610.57\n"
      "DRIVER version      : Deprecated, see \"KMD version\" instead\nKMD version         : 610.57.04\n"
      "CUDA UMD version    : 13.3\n");
  EXPECT_EQ(snapshot.driver_version, "610.57.04");
  EXPECT_EQ(snapshot.nvml_version, "610.57");
  EXPECT_EQ(snapshot.cuda_driver_version, "13.3");
}

TEST(OwnJson, OfAVersionWithoutKindsGetsThemFromItsWords) {
  const auto snapshot = snapshot_of(
      R"J({"schema": 1, "gpus": [], "problem": {"code": "unavailable", "message": "the NVIDIA driver did not answer within 5000 ms"},
           "environment": {"device_nodes": [
             {"path": "/dev/nvidia0", "exists": true, "openable": false, "problem": "Permission denied"},
             {"path": "/dev/nvidia1", "exists": true, "openable": false, "problem": "Operation not permitted"},
             {"path": "/dev/nvidia2", "exists": true, "openable": true}]}})J");
  ASSERT_TRUE(snapshot.problem);
  EXPECT_EQ(snapshot.problem->kind, facts::DriverProblem::Kind::timed_out);
  const auto& nodes = snapshot.environment->device_nodes;
  ASSERT_EQ(nodes.size(), 3U);
  EXPECT_EQ(nodes[0].refusal, facts::DeviceNode::Refusal::file_mode);
  EXPECT_EQ(nodes[1].refusal, facts::DeviceNode::Refusal::cgroup);
  EXPECT_FALSE(nodes[2].refusal);
}

TEST(OtherVendors, AreListedWithWhatTheirToolsTell) {
  const auto amd = snapshot_of(
      R"J({"card1": {"Card Series": "Radeon X", "Temperature (Sensor edge) (C)": "41.0", "Unique ID": "0xab",
          "VRAM Total Memory (B)": "1000", "VRAM Total Used Memory (B)": "400", "GPU use (%)": "N/A"},
          "system": {"Driver version": "6.3.6"}})J");
  ASSERT_EQ(amd.gpus.size(), 1U);
  EXPECT_EQ(amd.gpus[0].gpu.vendor, "AMD");
  EXPECT_EQ(amd.gpus[0].gpu.index, GpuIndex{1});
  EXPECT_EQ(amd.gpus[0].sample.memory_free, Bytes(600));
  EXPECT_EQ(amd.gpus[0].sample.utilization_gpu, std::nullopt);
  EXPECT_EQ(amd.driver_version, "6.3.6");
  const auto smi =
      snapshot_of("$ amd-smi metric -p --json\n[{\"gpu\": 0, \"power\": {\"socket_power\": {\"value\": 10}}}]\n");
  EXPECT_EQ(smi.gpus.at(0).sample.power, 10_W);
  const auto intel =
      snapshot_of(R"J({"device_list": [{"device_id": 0, "device_name": "Arc", "pci_bdf_address": "0000:4d:00.0"}]})J");
  EXPECT_EQ(intel.gpus.at(0).gpu.pci_bus_id, "00000000:4D:00.0");
}

TEST(Mixed, OneFileWithSeveralOutputsIsOneMachine) {
  const std::string text = "What my node says:\n$ nvidia-smi\n" + std::string(kNewTable) +
                           "\nGPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aa)\n  MIG 3g.20gb Device  0: (UUID: MIG-bb)\n" +
                           "\nand dmesg:\n[ 12.0] NVRM: Xid (PCI:0000:07:00): 31, pid=1, MMU Fault\n";
  const auto capture = read_capture(text, "report.md");
  ASSERT_THAT(capture, IsOk());
  EXPECT_THAT(kinds_of(*capture), ElementsAre(Kind::smi_table, Kind::smi_list, Kind::kernel_log));
  ASSERT_EQ(capture->snapshot.gpus.size(), 1U);
  EXPECT_EQ(capture->snapshot.gpus[0].gpu.uuid.value, "GPU-aa");
  EXPECT_EQ(capture->snapshot.gpus[0].sample.temperature, 30_degC) << "the list tells no temperature and takes none";
  EXPECT_EQ(capture->snapshot.kernel_faults->at(0).code, 31U);
}

TEST(Trouble, ALostGpuIsNotFreeInAnyFormat) {
  std::string query(kQuery);
  query.replace(query.find("33 C"), 4, "GPU is lost");
  EXPECT_EQ(snapshot_of(query).gpus.at(0).state, facts::GpuState::lost);
  const auto csv = snapshot_of("index, name, temperature.gpu\n0, NVIDIA L4, [GPU is lost]\n1, NVIDIA L4, 40\n");
  EXPECT_EQ(csv.gpus.at(0).state, facts::GpuState::lost);
  EXPECT_EQ(csv.gpus.at(1).state, facts::GpuState::available);
  const auto table =
      snapshot_of(std::string(kOldTable) +
                  "Unable to determine the device handle for GPU0000:8B:00.0: GPU is lost.  Reboot the system\n");
  ASSERT_EQ(table.gpus.size(), 2U);
  EXPECT_EQ(table.gpus[1].state, facts::GpuState::not_answering);
  EXPECT_EQ(table.gpus[1].gpu.index, GpuIndex{4});
  const auto other = snapshot_of("Unable to determine the device handle for GPU 0000:8B:00.0: Unknown Error\n");
  EXPECT_EQ(other.gpus.at(0).state, facts::GpuState::not_answering);
}

TEST(Mixed, WhatFollowsAQueryIsReadToo) {
  const auto capture = read_capture(std::string(kQuery) + std::string(kTopology) +
                                        "[ 12.0] NVRM: Xid (PCI:0000:07:00): 79, GPU has fallen off the bus.\n",
                                    "all.txt");
  ASSERT_THAT(capture, IsOk());
  EXPECT_THAT(kinds_of(*capture), ElementsAre(Kind::smi_query, Kind::topology, Kind::kernel_log));
}

TEST(Mixed, ALaterListOfProcessesReplacesAnEarlierOne) {
  std::string later(kOldTable);
  const std::size_t row = later.find("|    3      4242");
  later.replace(row, later.find('\n', row) - row,
                "|  No running processes found                                                 |");
  const auto snapshot = snapshot_of(std::string(kOldTable) + later);
  EXPECT_TRUE(snapshot.gpus.at(0).processes->empty());
  EXPECT_EQ(snapshot.gpus.at(0).state, facts::GpuState::available);
}

TEST(SmiTable, NamesTheReadingsThatFailedOfAGpuThatElseAnswers) {
  std::string text(kOldTable);
  text.replace(text.find("| N/A   61C    P0   231W / 300W"), 31, "|ERR!   61C    P0   ERR! / 300W");
  const auto snapshot = snapshot_of(text);
  ASSERT_EQ(snapshot.gpus.size(), 2U);
  EXPECT_TRUE(facts::is_usable(snapshot.gpus[0]));
  EXPECT_THAT(snapshot.gpus[0].cause, ::testing::HasSubstr("ERR! for its fan and power"));
  EXPECT_TRUE(facts::has_failed_reading(snapshot.gpus[0]));
  EXPECT_FALSE(facts::has_failed_reading(snapshot_of(kOldTable).gpus[0]));
}

}  // namespace
}  // namespace gpuwarden::capture
