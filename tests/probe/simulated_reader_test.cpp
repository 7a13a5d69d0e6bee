// SPDX-License-Identifier: Apache-2.0
// The reader against the simulator's library: the code that runs here is the code that runs on a real driver.
#include <cstdlib>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/probe/nvml_reader.hpp"
#include "support/patience.hpp"
#include "support/sim_control.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::probe {
namespace {

using namespace gpuwarden::testing;
using facts::GpuState;
using ::testing::HasSubstr;

/// Reads a fleet through the library of a driver profile; the fleet lives for the reading only.
class Simulated : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("GPUWARDEN_SIM_DIR", (dir_ / "sim").c_str(), 1); }

  ReaderOptions options(const std::string& fleet, int profile = 550) const {
    ::setenv("GPUWARDEN_SIM_FLEET", fleet.c_str(), 1);
    ReaderOptions options;
    options.nvml_library = std::filesystem::path(GPUWARDEN_SIM_LIB_DIR) / std::to_string(profile) / "libnvidia-ml.so.1";
    options.sys_root = dir_ / "sys";
    options.driver_proc_root = dir_ / "proc";
    options.simulated = true;
    options.timeout = std::chrono::seconds(20);
    return options;
  }
  std::string fleet(std::string_view yaml) const {
    put(dir_ / "fleet.yaml", yaml);
    return (dir_ / "fleet.yaml").string();
  }
  void add_pci(const std::string& bus_id, const std::string& device, const std::string& status) const {
    const auto folder = dir_ / ("sys/bus/pci/devices/" + bus_id);
    put(folder / "vendor", "0x10de\n");
    put(folder / "device", device + "\n");
    put(folder / "class", "0x030200\n");
    put(folder / "power/runtime_status", status + "\n");
    put(folder / "numa_node", "1\n");
    put(folder / "local_cpulist", "8-15\n");
  }

  TempDir dir_;
};

TEST_F(Simulated, AHealthyNodeIsReadWhole) {
  const auto snapshot = read_snapshot(options("h100x8"), {.links = true});
  ASSERT_FALSE(snapshot.problem) << snapshot.problem->message;
  EXPECT_EQ(snapshot.driver_version, "550.54.15");
  EXPECT_EQ(snapshot.cuda_driver_version, "12.4");
  ASSERT_EQ(snapshot.gpus.size(), 8U);
  for (std::uint32_t i = 0; i < 8; ++i) {
    const auto& record = snapshot.gpus[i];
    EXPECT_EQ(record.gpu.index, GpuIndex{i});
    EXPECT_EQ(record.gpu.name, "NVIDIA H100 80GB HBM3");
    EXPECT_TRUE(record.gpu.uuid.value.starts_with("GPU-"));
    EXPECT_EQ(record.gpu.architecture, "Hopper");
    EXPECT_EQ(record.gpu.multiprocessors, Count(132));
    EXPECT_EQ(record.gpu.numa_node, i < 4 ? 0 : 1);
    EXPECT_EQ(record.gpu.cpu_affinity, i < 4 ? "0-31" : "32-63");
    EXPECT_EQ(record.gpu.power_limit_max, 700_W);
    EXPECT_EQ(record.sample.memory_total, Bytes(81559ULL << 20U));
    EXPECT_EQ(record.sample.memory_used, Bytes(0));
    EXPECT_FALSE(record.sample.fan_speed) << "an H100 has no fan";
    EXPECT_EQ(record.sample.ecc_corrected_volatile, Count(0));
    EXPECT_EQ(record.state, GpuState::available);
    ASSERT_TRUE(record.processes);
    EXPECT_TRUE(record.processes->empty());
  }
  ASSERT_TRUE(snapshot.links);
  EXPECT_EQ(snapshot.links->size(), 28U);
  EXPECT_EQ(snapshot.links->front().nvlinks, 18);
}

TEST_F(Simulated, EveryDriverProfileGivesTheSameInventory) {
  const std::string file =
      fleet("clock: {frozen: true}\ngpus: [{model: Tesla T4, workload: {kind: training, memory: 4GiB}}]\n");
  for (const int profile : {418, 450, 470, 535, 550, 580}) {
    const auto snapshot = read_snapshot(options(file, profile));
    ASSERT_EQ(snapshot.gpus.size(), 1U) << profile;
    EXPECT_EQ(snapshot.gpus[0].gpu.name, "Tesla T4") << profile;
    EXPECT_EQ(snapshot.gpus[0].gpu.architecture, "Turing") << profile;
    EXPECT_EQ(snapshot.gpus[0].sample.memory_total, Bytes(15360ULL << 20U)) << profile;
    // Before MemoryInfo_v2 the reserved part counts as used.
    EXPECT_EQ(snapshot.gpus[0].sample.memory_used, Bytes((profile < 535 ? 4096ULL + 272 : 4096ULL) << 20U)) << profile;
    EXPECT_EQ(snapshot.gpus[0].sample.memory_reserved.has_value(), profile >= 535) << profile;
  }
}

TEST_F(Simulated, ProcessesKeepTheirMemoryEvenWhenItIsUnknown) {
  const std::string file = fleet(
      "gpus: [{model: Tesla T4, processes: [{pid: 4194001, memory: 2GiB}, {pid: 4194002, type: C+G}, {pid: 4194003, "
      "type: G, "
      "memory: 10MiB}]}]\n");
  const auto snapshot = read_snapshot(options(file));
  ASSERT_EQ(snapshot.gpus.size(), 1U);
  const auto& processes = *snapshot.gpus[0].processes;
  ASSERT_EQ(processes.size(), 3U);
  EXPECT_EQ(processes[0].memory, 2_GiB);
  EXPECT_EQ(processes[1].memory, std::nullopt);
  EXPECT_EQ(facts::type_of(processes[1]), "C+G");
  EXPECT_EQ(facts::type_of(processes[2]), "G");
  EXPECT_FALSE(processes[0].user) << "there is no such process";
  EXPECT_EQ(snapshot.gpus[0].state, GpuState::busy);
}

TEST_F(Simulated, OneGpusTroubleNeverHidesTheOthers) {
  const std::string file = fleet(
      "gpus:\n- {model: Tesla T4}\n- {model: Tesla T4, faults: [lost]}\n- {model: Tesla T4, faults: [reset_required]}\n"
      "- {model: Tesla T4, faults: [no_permission]}\n- {model: Tesla T4, faults: [unknown_error]}\n- {model: Tesla "
      "T4}\n");
  const auto snapshot = read_snapshot(options(file));
  EXPECT_FALSE(snapshot.problem);
  ASSERT_EQ(snapshot.gpus.size(), 6U);
  std::vector<GpuState> states;
  for (const auto& record : snapshot.gpus) {
    states.push_back(record.state);
    EXPECT_EQ(record.cause.empty(), facts::is_usable(record));
    EXPECT_EQ(record.next_step.empty(), facts::is_usable(record));
  }
  EXPECT_THAT(states, ::testing::ElementsAre(GpuState::available, GpuState::lost, GpuState::needs_reset,
                                             GpuState::no_permission, GpuState::not_answering, GpuState::available));
}

TEST_F(Simulated, MemoryAloneIsReadAndNothingElse) {
  const std::string file = fleet("gpus:\n- {model: Tesla T4}\n- {model: Tesla T4, faults: [lost]}\n");
  NvmlReader reader(options(file));
  for (int i = 0; i < 2; ++i) {
    const auto snapshot = reader.read({.every = std::chrono::seconds(20), .memory_alone = true});
    ASSERT_EQ(snapshot.gpus.size(), 2U);
    const auto& record = snapshot.gpus[0];
    EXPECT_TRUE(record.gpu.uuid.value.starts_with("GPU-"));
    EXPECT_TRUE(record.sample.memory_total && record.sample.memory_used && record.sample.memory_free);
    EXPECT_FALSE(record.sample.temperature || record.sample.power || record.processes);
    EXPECT_EQ(snapshot.gpus[1].state, GpuState::lost);
  }
  const auto whole = reader.read({.every = std::chrono::seconds(20)});
  EXPECT_TRUE(whole.gpus.at(0).sample.temperature) << "the next reading may be a whole one";
}

TEST_F(Simulated, WhatKeepsWorkAwayIsReadWithTheLeastDetail) {
  const std::string file = fleet("gpus:\n- {model: NVIDIA H100 80GB HBM3, faults: [ecc_uncorrected=2]}\n");
  const auto snapshot = read_snapshot(options(file));
  ASSERT_EQ(snapshot.gpus.size(), 1U);
  EXPECT_EQ(snapshot.gpus[0].sample.ecc_uncorrected_volatile, Count(2));
  EXPECT_TRUE(snapshot.gpus[0].sample.remapped_rows_pending);
  EXPECT_TRUE(snapshot.gpus[0].sample.remapped_rows_failed);
}

TEST_F(Simulated, GpusThatHangAreReportedAndTheOthersRead) {
  const std::string file = fleet(
      "gpus:\n- {model: Tesla T4}\n- {model: Tesla T4, faults: [hang]}\n- {model: Tesla T4}\n- {model: Tesla T4, "
      "faults: [hang]}\n");
  // Where the fleet puts its GPUs: a hung one is where its neighbours leave one place.
  for (const char* bus : {"18", "25", "32", "3f"}) add_pci("0000:" + std::string(bus) + ":00.0", "0x1eb8", "active");
  auto slow = options(file);
  slow.timeout = std::chrono::seconds(5);  // the others must answer within it
  const auto start = std::chrono::steady_clock::now();
  const auto snapshot = read_snapshot(slow);
  ASSERT_EQ(snapshot.gpus.size(), 4U);
  EXPECT_EQ(snapshot.gpus[0].state, GpuState::available);
  EXPECT_EQ(snapshot.gpus[1].state, GpuState::not_answering);
  EXPECT_EQ(snapshot.gpus[1].gpu.name, "Tesla T4") << "its name comes from /sys";
  EXPECT_THAT(snapshot.gpus[1].cause, HasSubstr("5000 ms"));
  EXPECT_EQ(snapshot.gpus[2].state, GpuState::available);
  EXPECT_EQ(snapshot.gpus[3].state, GpuState::not_answering);
  EXPECT_LT(std::chrono::steady_clock::now() - start, kSoon);
}

/// A process that has GPU 1's device file open without NVML's knowing of it.
void add_holder(const std::filesystem::path& proc) {
  put(proc / "4194009/status", "Name:\tstuck\nUid:\t0\t0\t0\t0\n");
  put(proc / "4194009/cmdline", "stuck");
  std::filesystem::create_directories(proc / "4194009/fd");
  std::filesystem::create_symlink("/dev/nvidia1", proc / "4194009/fd/3");
}

TEST_F(Simulated, HoldersAreFoundBesideTheGpus) {
  add_holder(dir_ / "proc");
  NvmlReader reader(options("h100x8"));
  EXPECT_TRUE(reader.read().gpus[1].processes->empty()) << "nobody asked";
  for (int round = 0; round < 2; ++round) {
    const auto snapshot = reader.read({.holders = true});
    ASSERT_EQ(snapshot.gpus.size(), 8U);
    ASSERT_EQ(snapshot.gpus[1].processes->size(), 1U);
    EXPECT_EQ(snapshot.gpus[1].processes->at(0).pid, Pid{4194009});
    EXPECT_FALSE(snapshot.gpus[1].processes->at(0).listed);
    EXPECT_TRUE(snapshot.gpus[0].processes->empty());
    EXPECT_TRUE(snapshot.gaps.empty());
  }
}

TEST_F(Simulated, HoldersAreFoundThoughAGpuHangs) {
  add_holder(dir_ / "proc");
  auto hasty = options(fleet("gpus: [{model: Tesla T4, faults: [hang]}, {model: Tesla T4}]\n"));
  hasty.timeout = std::chrono::seconds(5);  // the other must answer within it
  const auto snapshot = read_snapshot(hasty, {.holders = true});
  ASSERT_EQ(snapshot.gpus.size(), 2U);
  EXPECT_EQ(snapshot.gpus[0].state, GpuState::not_answering);
  ASSERT_TRUE(snapshot.gpus[1].processes);
  EXPECT_EQ(snapshot.gpus[1].processes->size(), 1U);
  EXPECT_TRUE(snapshot.gaps.empty());
}

TEST_F(Simulated, AHangInInitIsAProblemAndGpusComeFromSys) {
  add_pci("0000:17:00.0", "0x2330", "active");
  auto slow = options(fleet("faults: [hang_init]\ngpus: [{model: Tesla T4}]\n"));
  slow.timeout = std::chrono::milliseconds(300);
  const auto snapshot = read_snapshot(slow);
  ASSERT_TRUE(snapshot.problem);
  EXPECT_THAT(snapshot.problem->message, HasSubstr("did not answer within 300 ms"));
  ASSERT_EQ(snapshot.gpus.size(), 1U);
  EXPECT_EQ(snapshot.gpus[0].gpu.name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(snapshot.gpus[0].state, GpuState::not_answering);
}

TEST_F(Simulated, AMismatchNamesBothVersions) {
  add_pci("0000:17:00.0", "0x2330", "active");
  put(dir_ / "proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.07  Sat Feb 17\n");
  const auto snapshot = read_snapshot(options(fleet("faults: [mismatch]\ngpus: [{model: Tesla T4}]\n")));
  ASSERT_TRUE(snapshot.problem);
  EXPECT_EQ(snapshot.problem->code, ErrorCode::unavailable);
  EXPECT_THAT(snapshot.problem->message, HasSubstr("550.54.15"));
  EXPECT_THAT(snapshot.problem->message, HasSubstr("535.161.07"));
  EXPECT_THAT(snapshot.problem->hint, HasSubstr("reboot"));
  ASSERT_EQ(snapshot.gpus.size(), 1U);
  EXPECT_EQ(snapshot.gpus[0].state, GpuState::disabled);
  EXPECT_EQ(snapshot.gpus[0].gpu.pci_bus_id, "00000000:17:00.0");
}

TEST_F(Simulated, ADriverThatIsNotLoadedAndALibraryThatIsMissingSayWhatToDo) {
  add_pci("0000:17:00.0", "0x2330", "active");
  const auto unloaded = read_snapshot(options(fleet("faults: [driver_not_loaded]\ngpus: [{model: Tesla T4}]\n")));
  ASSERT_TRUE(unloaded.problem);
  EXPECT_THAT(unloaded.problem->message, HasSubstr("not loaded"));
  EXPECT_THAT(unloaded.problem->hint, HasSubstr("modprobe"));
  auto missing = options("h100x8");
  missing.nvml_library = dir_ / "libnvidia-ml.so.1";
  const auto absent = read_snapshot(missing);
  ASSERT_TRUE(absent.problem);
  EXPECT_THAT(absent.problem->hint, HasSubstr("install the NVIDIA driver"));
  ASSERT_EQ(absent.gpus.size(), 1U);
  EXPECT_EQ(absent.gpus[0].gpu.numa_node, 1);
}

TEST_F(Simulated, ASleepingGpuIsNotTouchedUnlessAsked) {
  add_pci("0000:18:00.0", "0x2330", "suspended");
  auto asleep = options("h100x8");
  asleep.nvml_library = dir_ / "opening-this-would-fail.so";
  const auto snapshot = read_snapshot(asleep);
  EXPECT_FALSE(snapshot.problem) << "NVML is not even opened";
  ASSERT_EQ(snapshot.gpus.size(), 1U);
  EXPECT_EQ(snapshot.gpus[0].state, GpuState::suspended);
  EXPECT_THAT(snapshot.gpus[0].next_step, HasSubstr("--wake"));
  asleep = options("h100x8");
  asleep.wake = true;
  EXPECT_EQ(read_snapshot(asleep).gpus.size(), 8U);
}

TEST_F(Simulated, AmongAwakeOnesOnlyTheSleeperIsLeftAlone) {
  const std::string file =
      fleet("gpus: [{model: Tesla T4, bus_id: '0000:17:00.0'}, {model: Tesla T4, bus_id: '0000:18:00.0'}]\n");
  add_pci("0000:17:00.0", "0x1eb8", "active");
  add_pci("0000:18:00.0", "0x1eb8", "suspended");
  const auto snapshot = read_snapshot(options(file));
  ASSERT_EQ(snapshot.gpus.size(), 2U);
  EXPECT_EQ(snapshot.gpus[0].state, GpuState::available);
  EXPECT_EQ(snapshot.gpus[1].state, GpuState::suspended);
  EXPECT_EQ(snapshot.gpus[1].gpu.pci_bus_id, "00000000:18:00.0");
}

TEST_F(Simulated, AReaderReadsAgainAndAgain) {
  NvmlReader reader(options("a100-40x8-mig", 535));
  const auto first = reader.read();
  const auto second = reader.read();
  ASSERT_EQ(second.gpus.size(), 8U);
  EXPECT_EQ(first.gpus[3].gpu, second.gpus[3].gpu);
  EXPECT_EQ(second.gpus[0].gpu.mig_enabled, true);
  ASSERT_EQ(second.gpus[0].mig_devices.size(), 4U);
  EXPECT_EQ(second.gpus[0].mig_devices[0].profile, "3g.20gb");
  EXPECT_TRUE(second.gpus[0].mig_devices[0].uuid.value.starts_with("MIG-"));
  EXPECT_EQ(second.gpus[0].mig_devices[0].memory_total, Bytes(19968ULL << 20U));
  EXPECT_FALSE(second.gpus[0].sample.utilization_gpu) << "not reported while MIG is on";
}

TEST_F(Simulated, WhatAnAdministratorChangesIsSeenByAnOpenReader) {
  const ReaderOptions from = options(fleet("gpus: [{model: NVIDIA L4}]\n"));
  const SimControl control(from.nvml_library, fleet("gpus: [{model: NVIDIA L4}]\n"));
  ::setenv("GPUWARDEN_SIM_FLEET", control.folder().c_str(), 1);
  NvmlReader reader(from);
  const ReadRequest full{.detail = Detail::full};
  const auto before = reader.read(full);
  for (const auto& [field, value] : {std::pair("compute_mode", 3), std::pair("display_active", 1)}) {
    const auto reply = control.call({{"op", "set"}, {"gpu", 0}, {"field", field}, {"value", value}});
    ASSERT_FALSE(reply.contains("error")) << reply.dump();
  }
  control.call({{"op", "clock"}, {"advance_seconds", 5}});
  const auto after = reader.read(full);
  ASSERT_EQ(before.gpus.size(), 1U);
  ASSERT_EQ(after.gpus.size(), 1U);
  EXPECT_EQ(before.gpus[0].gpu.compute_mode, facts::ComputeMode::shared);
  EXPECT_EQ(after.gpus[0].gpu.compute_mode, facts::ComputeMode::exclusive_process);
  EXPECT_EQ(before.gpus[0].gpu.display_active, false);
  EXPECT_EQ(after.gpus[0].gpu.display_active, true);
}

}  // namespace
}  // namespace gpuwarden::probe
