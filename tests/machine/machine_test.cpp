// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/machine.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "gpuwarden/facts/json.hpp"
#include "machine/simulated.hpp"
#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::machine {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::Machines;

constexpr const char* kOldDriver = "name: old\ndriver: 470.57.02\ngpus: [{model: Tesla T4}, {model: Tesla T4}]\n";

TEST_F(Machines, ASimulatedFleetIsReadThroughItsOwnDriversLibrary) {
  const auto machine = Machine::open(Simulated{file("old.yaml", kOldDriver)}, options());
  ASSERT_THAT(machine, IsOk());
  EXPECT_TRUE(machine->simulated());
  EXPECT_FALSE(machine->captured());
  const facts::Snapshot snapshot = machine->read();
  EXPECT_FALSE(snapshot.problem) << snapshot.problem->message;
  EXPECT_EQ(snapshot.driver_version, "470.57.02");
  EXPECT_TRUE(snapshot.simulated);
  EXPECT_EQ(snapshot.fleet, "old");
  EXPECT_EQ(snapshot.gpus.size(), 2U);
}

TEST_F(Machines, OpeningAFleetLeavesTheEnvironmentOfTheProgramAlone) {
  ::unsetenv("GPUWARDEN_SIM_FLEET");
  const auto machine = Machine::open(Simulated{file("old.yaml", kOldDriver)}, options());
  ASSERT_THAT(machine, IsOk());
  EXPECT_EQ(machine->read().gpus.size(), 2U);
  EXPECT_EQ(std::getenv("GPUWARDEN_SIM_FLEET"), nullptr);
}

TEST_F(Machines, AFleetEndsWithItsMachineAndAnotherCanBeOpened) {
  std::string folder;
  {
    const auto machine = Machine::open(Simulated{"t4x1"}, options());
    ASSERT_THAT(machine, IsOk());
    folder = machine->fleet_folder();
    EXPECT_TRUE(std::filesystem::exists(folder));
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
  const auto machine = Machine::open(Simulated{"h100x8"}, options());
  ASSERT_THAT(machine, IsOk());
  EXPECT_EQ(machine->read().gpus.size(), 8U);
}

TEST_F(Machines, OneFleetAtATimeIsOpenInAProcess) {
  const auto first = Machine::open(Simulated{"t4x1"}, options());
  ASSERT_THAT(first, IsOk());
  EXPECT_THAT(Machine::open(Simulated{"h100x8"}, options()),
              FailsWith(ErrorCode::unavailable, HasSubstr("is open in this process already")));
  EXPECT_EQ(first->read().gpus.size(), 1U) << "the first is left alone";
}

TEST_F(Machines, AnUnknownFleetIsAWrongArgument) {
  EXPECT_THAT(Machine::open(Simulated{"h100x9000"}, options()),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("h100x9000")));
}

TEST_F(Machines, AMissingSimulatorIsUnavailableAndSaysWhereItWasLookedFor) {
  Options elsewhere = options();
  elsewhere.simulator.libraries = dir_ / "nothing";
  const auto machine = Machine::open(Simulated{"h100x8"}, elsewhere);
  EXPECT_THAT(machine, FailsWith(ErrorCode::unavailable, HasSubstr((dir_ / "nothing").string())));
  EXPECT_THAT(machine.error().hint, HasSubstr("GPUWARDEN_SIM_LIB_DIR"));
}

TEST_F(Machines, ALibraryThatIsNoSimulatorIsRefused) {
  Options other = options();
  Dl_info c_library{};
  ASSERT_NE(::dladdr(reinterpret_cast<void*>(&::getpid), &c_library), 0);
  std::filesystem::create_directories(dir_ / "libs/550");
  std::filesystem::create_symlink(std::filesystem::canonical(c_library.dli_fname), dir_ / "libs/550/libnvidia-ml.so.1");
  other.simulator.libraries = dir_ / "libs";
  EXPECT_THAT(Machine::open(Simulated{"h100x8"}, other),
              FailsWith(ErrorCode::unavailable, HasSubstr("is not a gpuwarden simulator")));
}

TEST_F(Machines, ACaptureBecomesASimulatedFleet) {
  facts::Snapshot snapshot = testing::fleet(3);
  for (auto& record : snapshot.gpus) record.gpu.vendor = "NVIDIA";
  const auto machine = Machine::open(Simulated{file("node.json", facts::to_json(snapshot).dump())}, options());
  ASSERT_THAT(machine, IsOk());
  const facts::Snapshot read = machine->read();
  EXPECT_TRUE(read.simulated);
  ASSERT_EQ(read.gpus.size(), 3U);
  EXPECT_EQ(read.gpus[0].gpu.name, snapshot.gpus[0].gpu.name);
}

TEST_F(Machines, ProgramsFindTheFleetByTheirEnvironment) {
  const auto machine = Machine::open(Simulated{"t4x1"}, options());
  ASSERT_THAT(machine, IsOk());
  const Environment given = machine->simulated_environment({{"LD_LIBRARY_PATH", "/opt/lib"}});
  EXPECT_EQ(given.at("GPUWARDEN_SIMULATE"), machine->fleet_folder());
  EXPECT_TRUE(given.at("LD_LIBRARY_PATH").ends_with(":/opt/lib")) << given.at("LD_LIBRARY_PATH");
  EXPECT_TRUE(given.at("LD_LIBRARY_PATH").starts_with(GPUWARDEN_SIM_LIB_DIR)) << given.at("LD_LIBRARY_PATH");
  EXPECT_FALSE(machine->simulated_environment({{"GPUWARDEN_SIM_LIBRARIES", "off"}}).contains("LD_LIBRARY_PATH"));
}

TEST_F(Machines, AJobsLoadShowsOnTheFleet) {
  const auto machine = Machine::open(Simulated{"t4x1"}, options());
  ASSERT_THAT(machine, IsOk());
  const std::string uuid = machine->read().gpus[0].gpu.uuid.value;
  EXPECT_THAT(machine->simulator()->declare(Pid{::getpid()}, {uuid}, {.memory = 3_GiB, .utilization = 40_pct}), IsOk());
  const facts::GpuRecord record = machine->read().gpus[0];
  ASSERT_TRUE(record.processes);
  ASSERT_EQ(record.processes->size(), 1U);
  EXPECT_EQ(record.processes->front().memory, 3_GiB);
  EXPECT_THAT(machine->simulator()->declare(Pid{::getpid()}, {"GPU-none"}, {}),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("GPU-none")));
}

TEST_F(Machines, ARealMachineIsAskedByItsOwnLibraries) {
  const auto machine = Machine::open(Real{}, without_driver());
  ASSERT_THAT(machine, IsOk());
  EXPECT_FALSE(machine->simulated());
  EXPECT_EQ(machine->simulator(), nullptr);
  EXPECT_TRUE(machine->simulated_environment({{"LD_LIBRARY_PATH", "/opt/lib"}}).empty());
  const facts::Snapshot snapshot = machine->read();
  EXPECT_FALSE(snapshot.simulated);
  EXPECT_TRUE(snapshot.gpus.empty());
  ASSERT_TRUE(snapshot.problem) << "no driver is a problem, not an empty machine";
}

TEST_F(Machines, ACaptureStandsForTheMachine) {
  facts::Snapshot given = testing::fleet(2);
  given.origin = "node7";
  const auto machine = Machine::open(Captured{given, "node7.json"}, without_driver());
  ASSERT_THAT(machine, IsOk());
  EXPECT_FALSE(machine->simulated());
  ASSERT_TRUE(machine->captured());
  EXPECT_EQ(machine->capture_name(), "node7.json");
  EXPECT_EQ(facts::to_json(machine->read()), facts::to_json(given));
  EXPECT_EQ(facts::to_json(machine->survey({.start_pythons = true})), facts::to_json(given)) << "nothing is probed";
}

TEST_F(Machines, SimulatedGpusAreReservedBesideTheRealOnes) {
  const auto simulated = Machine::open(Simulated{"t4x1"}, options());
  const auto real = Machine::open(Real{}, without_driver());
  ASSERT_THAT(simulated, IsOk());
  ASSERT_THAT(real, IsOk());
  const auto devices = simulated->lease_devices(simulated->read());
  const auto store = simulated->open_leases("run-1", "train.py");
  ASSERT_THAT(store, IsOk());
  const auto take = [&](const lease::Situation&) -> Result<lease::Choice> { return lease::Choice{devices}; };
  const auto held = store->claim(devices, take);
  ASSERT_TRUE(held && *held);
  const auto seen = simulated->open_leases("", "")->inspect(devices);
  ASSERT_EQ(seen.leases.size(), 1U);
  EXPECT_EQ(seen.leases[0].uuid, devices[0].uuid);
  EXPECT_EQ(seen.leases[0].holders.at(0).command, "train.py");
  EXPECT_EQ(seen.leases[0].holders.at(0).run_id, "run-1");
  EXPECT_THAT(real->open_leases("", "")->inspect({}).leases, ::testing::IsEmpty());
}

TEST_F(Machines, TheKnowledgeIsWhatTheOverlaysMakeOfIt) {
  Options with = options();
  with.overlays = {file("site.yaml", "gpus: [{name: NVIDIA H100 PCIe, memory_gb: 96, source: our label}]\n")};
  const auto knowledge = Machine::open(Captured{}, with)->knowledge();
  ASSERT_THAT(knowledge, IsOk());
  EXPECT_EQ(knowledge->model("NVIDIA H100 PCIe")->memory_gb, 96);
  with.overlays.emplace_back(dir_ / "missing.yaml");
  EXPECT_THAT(Machine::open(Captured{}, with)->knowledge(), FailsWith(ErrorCode::not_found, HasSubstr("missing.yaml")));
}

TEST(MachineOptions, AreReadFromTheEnvironmentThatIsHandedIn) {
  const Options options = options_from({{"GPUWARDEN_NVML_LIBRARY", "/opt/nvml.so"},
                                        {"GPUWARDEN_NVIDIA_SMI", "/opt/smi"},
                                        {"GPUWARDEN_SYS_ROOT", "/opt/sys"},
                                        {"GPUWARDEN_PROC_ROOT", "/opt/proc"},
                                        {"GPUWARDEN_SIM_LIB_DIR", "/opt/sim"},
                                        {"GPUWARDEN_SIM_DIR", "/opt/fleets"},
                                        {"GPUWARDEN_KNOWLEDGE_PATH", "/nowhere"},
                                        {"GPUWARDEN_LEASE_DIR", "/opt/leases"}});
  EXPECT_EQ(options.simulator.libraries, "/opt/sim");
  EXPECT_EQ(options.simulator.folder, "/opt/fleets");
  EXPECT_EQ(options.lease_directory, "/opt/leases");
  EXPECT_TRUE(options.overlays.empty());
  EXPECT_EQ(options.environment.at("GPUWARDEN_SYS_ROOT"), "/opt/sys");
  const auto machine = Machine::open(Real{}, options);
  ASSERT_THAT(machine, IsOk());
  EXPECT_EQ(machine->reader().nvml_library, "/opt/nvml.so");
  EXPECT_EQ(machine->reader().nvidia_smi, "/opt/smi");
  EXPECT_EQ(machine->reader().sys_root, "/opt/sys");
  EXPECT_EQ(machine->reader().driver_proc_root, "/opt/proc");
  EXPECT_THAT(machine->reader().proc_roots, ElementsAre("/opt/proc", "/proc"));
}

TEST(MachineOptions, EmptyVariablesAreAsIfNotSet) {
  const Options options = options_from({{"GPUWARDEN_NVML_LIBRARY", ""}, {"GPUWARDEN_LEASE_DIR", ""}});
  EXPECT_TRUE(options.lease_directory.empty());
  EXPECT_EQ(Machine::open(Real{}, options)->reader().nvml_library, probe::ReaderOptions{}.nvml_library);
}

}  // namespace
}  // namespace gpuwarden::machine
