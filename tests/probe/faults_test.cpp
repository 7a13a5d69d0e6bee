// SPDX-License-Identifier: Apache-2.0
// Every fault of a driver in every world: healthy GPUs are shown and usable, faulty ones are shown as that, where they
// are or nowhere, and never handed out.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/placement/select.hpp"
#include "gpuwarden/probe/machine_reader.hpp"
#include "probe/faulty_machine.hpp"

namespace gpuwarden::probe {
namespace {

using namespace gpuwarden::testing;
using facts::GpuState;
using facts::ReadingGap;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ProblemKind = facts::DriverProblem::Kind;

/// JSON knows milliseconds.
void expect_round_trip(facts::Snapshot snapshot) {
  snapshot.taken_at = std::chrono::floor<std::chrono::milliseconds>(snapshot.taken_at);
  const auto back = facts::snapshot_from_json(facts::to_json(snapshot));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_TRUE(*back == snapshot);
}

/// What is left of the GPUs' place when they fall silent.
enum class Place { known, inferred };

struct GpuFault {
  const char* name;
  const char* faults;
  std::vector<std::uint32_t> faulty;
  GpuState state = GpuState::not_answering;
  Place place = Place::known;
};

const std::vector<GpuFault>& gpu_faults() {
  static const std::vector<GpuFault> all = {
      {"handle_hangs", "nvmlDeviceGetHandleByIndex_v2:1=hang", {1}, GpuState::not_answering, Place::inferred},
      {"first_hangs", "nvmlDeviceGetHandleByIndex_v2:0=hang", {0}, GpuState::not_answering, Place::inferred},
      {"last_hangs", "nvmlDeviceGetHandleByIndex_v2:3=hang", {3}, GpuState::not_answering, Place::inferred},
      {"two_hang",
       "nvmlDeviceGetHandleByIndex_v2:1=hang;nvmlDeviceGetHandleByIndex_v2:2=hang",
       {1, 2},
       GpuState::not_answering,
       Place::inferred},
      {"inventory_hangs", "nvmlDeviceGetSerial:1=hang", {1}},
      {"memory_spins", "nvmlDeviceGetMemoryInfo:1=spin", {1}},
      {"processes_hang", "nvmlDeviceGetComputeRunningProcesses_v3:2=hang", {2}},
      {"handle_crashes", "nvmlDeviceGetHandleByIndex_v2:1=crash", {1}, GpuState::not_answering, Place::inferred},
      {"memory_crashes", "nvmlDeviceGetMemoryInfo:1=crash", {1}},
      {"memory_exits", "nvmlDeviceGetMemoryInfo:1=exit", {1}},
      {"all_crash",
       "nvmlDeviceGetMemoryInfo:0=crash;nvmlDeviceGetMemoryInfo:1=crash;nvmlDeviceGetMemoryInfo:2=crash;"
       "nvmlDeviceGetMemoryInfo:3=crash",
       {0, 1, 2, 3}},
      {"lost", "nvmlDeviceGetHandleByIndex_v2:1=15", {1}, GpuState::lost, Place::inferred},
      {"needs_reset", "nvmlDeviceGetHandleByIndex_v2:1=16", {1}, GpuState::needs_reset, Place::inferred},
      {"unknown_error", "nvmlDeviceGetHandleByIndex_v2:1=999", {1}, GpuState::not_answering, Place::inferred},
      {"no_permission", "nvmlDeviceGetHandleByIndex_v2:1=4", {1}, GpuState::no_permission, Place::inferred},
      {"impossible_memory", "nvmlDeviceGetMemoryInfo:1=nonsense", {1}, GpuState::faulty},
      {"duplicate_uuid", "nvmlDeviceGetUUID:1=nonsense", {1}, GpuState::faulty},
      {"processes_fail", "nvmlDeviceGetComputeRunningProcesses_v3:1=999", {1}, GpuState::available},
      {"processes_forbidden", "nvmlDeviceGetComputeRunningProcesses_v3:1=4", {1}, GpuState::available},
      {"processes_rave", "nvmlDeviceGetComputeRunningProcesses_v3:1=nonsense", {1}, GpuState::available},
  };
  return all;
}

class GpuFaults : public ::testing::TestWithParam<std::tuple<std::size_t, World>> {
 protected:
  const GpuFault& fault() const { return gpu_faults()[std::get<0>(GetParam())]; }
  bool is_faulty(std::uint32_t index) const { return std::ranges::find(fault().faulty, index) != fault().faulty.end(); }
  World world() const { return std::get<1>(GetParam()); }
};

TEST_P(GpuFaults, HideNobodyAndAreNeverHandedOut) {
  const FaultyMachine machine(world(), fault().faults);
  MachineReader reader(machine.options());
  for (int round = 0; round < 2; ++round) {
    const auto snapshot = reader.read({.links = true});
    EXPECT_FALSE(snapshot.problem);
    ASSERT_EQ(snapshot.gpus.size(), FaultyMachine::kGpus) << "round " << round;
    std::vector<Uuid> healthy;
    for (std::uint32_t i = 0; i < FaultyMachine::kGpus; ++i) {
      const auto& record = snapshot.gpus[i];
      EXPECT_EQ(record.gpu.index.value, i);
      if (!is_faulty(i)) {
        EXPECT_EQ(record.state, GpuState::available) << i << ": " << record.cause;
        EXPECT_EQ(record.gpu.pci_bus_id, machine.bus_id(i));
        EXPECT_FALSE(record.processes_unreadable);
        healthy.push_back(record.gpu.uuid);
        continue;
      }
      EXPECT_EQ(record.state, fault().state) << record.cause;
      EXPECT_EQ(record.processes_unreadable, record.state == GpuState::available);
      EXPECT_EQ(record.cause.empty(), record.state == GpuState::available);
      const bool certain = fault().place == Place::known || world() == World::all;
      EXPECT_EQ(record.gpu.pci_bus_id, certain ? machine.bus_id(i) : "") << i;
    }
    EXPECT_EQ(snapshot.links.has_value(), true);
    EXPECT_THAT(snapshot.gaps, IsEmpty());
    placement::Request everything;
    everything.all = true;
    const auto decision = placement::select(everything, {snapshot, {}, {}, {}});
    if (healthy.empty()) {
      EXPECT_TRUE(!decision || !decision->satisfied);
      continue;
    }
    ASSERT_TRUE(decision) << decision.error().message;
    std::vector<Uuid> selected;
    for (const auto& device : decision->selected) selected.push_back(device.uuid);
    EXPECT_EQ(selected, healthy);
    expect_round_trip(snapshot);
  }
}

std::string name_of_gpu_fault(const ::testing::TestParamInfo<std::tuple<std::size_t, World>>& info) {
  return std::string(gpu_faults()[std::get<0>(info.param)].name) + "_" + name_of(std::get<1>(info.param));
}
INSTANTIATE_TEST_SUITE_P(InEachWorld, GpuFaults,
                         ::testing::Combine(::testing::Range<std::size_t>(0, gpu_faults().size()),
                                            ::testing::Values(World::all, World::none, World::more)),
                         name_of_gpu_fault);

struct DriverFault {
  const char* name;
  const char* faults;
  ProblemKind kind;
  ErrorCode code = ErrorCode::unavailable;
};

constexpr DriverFault kDriverFaults[] = {
    {"init_hangs", "nvmlInit_v2=hang", ProblemKind::timed_out, ErrorCode::timed_out},
    {"init_crashes", "nvmlInit_v2=crash", ProblemKind::crashed},
    {"init_exits", "nvmlInit_v2=exit", ProblemKind::crashed},
    {"init_fails", "nvmlInit_v2=17", ProblemKind::other},
    {"init_unknown", "nvmlInit_v2=999", ProblemKind::unknown_error},
    {"not_loaded", "nvmlInit_v2=9", ProblemKind::not_loaded},
    {"mismatch", "nvmlInit_v2=18", ProblemKind::mismatch},
    {"forbidden", "nvmlInit_v2=4", ProblemKind::no_permission, ErrorCode::permission_denied},
    {"count_hangs", "nvmlDeviceGetCount_v2=hang", ProblemKind::timed_out, ErrorCode::timed_out},
    {"count_crashes", "nvmlDeviceGetCount_v2=crash", ProblemKind::crashed},
    {"count_fails", "nvmlDeviceGetCount_v2=17", ProblemKind::other},
    {"count_unknown", "nvmlDeviceGetCount_v2=999", ProblemKind::unknown_error},
    {"count_raves", "nvmlDeviceGetCount_v2=nonsense", ProblemKind::impossible},
};

class DriverFaults : public ::testing::TestWithParam<std::tuple<DriverFault, World>> {};

TEST_P(DriverFaults, AreToldAndReadAsNoMachineWithoutGpus) {
  const auto& [fault, world] = GetParam();
  const FaultyMachine machine(world, fault.faults);
  const auto snapshot = MachineReader(machine.options()).read();
  ASSERT_TRUE(snapshot.problem);
  EXPECT_EQ(snapshot.problem->kind, fault.kind) << snapshot.problem->message;
  EXPECT_EQ(snapshot.problem->code, fault.code);
  EXPECT_THAT(snapshot.problem->message, Not(HasSubstr("\x1b")));
  EXPECT_EQ(snapshot.gpus.size(), world == World::all ? 4U : world == World::none ? 0U : 8U);
  for (const auto& record : snapshot.gpus) EXPECT_FALSE(facts::is_usable(record));
  placement::Request everything;
  everything.all = true;
  EXPECT_FALSE(placement::select(everything, {snapshot, {}, {}, {}}));
  expect_round_trip(snapshot);
}

std::string name_of_driver_fault(const ::testing::TestParamInfo<std::tuple<DriverFault, World>>& info) {
  return std::string(std::get<0>(info.param).name) + "_" + name_of(std::get<1>(info.param));
}
INSTANTIATE_TEST_SUITE_P(InEachWorld, DriverFaults,
                         ::testing::Combine(::testing::ValuesIn(kDriverFaults),
                                            ::testing::Values(World::all, World::none, World::more)),
                         name_of_driver_fault);

TEST(Faults, ACrashIsNotCalledASilence) {
  const FaultyMachine machine(World::none, "nvmlDeviceGetMemoryInfo:1=exit;nvmlDeviceGetMemoryInfo:2=crash");
  const auto snapshot = read_snapshot(machine.options());
  ASSERT_EQ(snapshot.gpus.size(), 4U);
  EXPECT_THAT(snapshot.gpus[1].cause, HasSubstr("ended the process that used it (exit code 3)"));
  EXPECT_THAT(snapshot.gpus[2].cause, HasSubstr("crashed (signal 11)"));
}

TEST(Faults, AHungTopologyBlamesNoGpu) {
  const FaultyMachine machine(World::all, "nvmlDeviceGetTopologyCommonAncestor:0=hang");
  const auto snapshot = read_snapshot(machine.options(), {.links = true});
  for (const auto& record : snapshot.gpus) EXPECT_EQ(record.state, GpuState::available) << record.cause;
  EXPECT_EQ(snapshot.gpus.size(), 4U);
  EXPECT_FALSE(snapshot.links);
  ASSERT_EQ(snapshot.gaps.size(), 1U);
  EXPECT_EQ(snapshot.gaps[0].part, ReadingGap::Part::links);
  EXPECT_EQ(snapshot.gaps[0].problem.kind, ProblemKind::timed_out);
  expect_round_trip(snapshot);
}

TEST(Faults, ACrashInTheSlowPartLeavesTheRest) {
  const FaultyMachine machine(World::none, "nvmlDeviceGetPcieThroughput:2=crash");
  const auto snapshot = read_snapshot(machine.options(), {.detail = Detail::slow, .links = true});
  EXPECT_EQ(snapshot.gpus.size(), 4U);
  ASSERT_EQ(snapshot.gaps.size(), 2U) << "the links were to be read after it";
  EXPECT_EQ(snapshot.gaps[0].part, ReadingGap::Part::slow_metrics);
  EXPECT_EQ(snapshot.gaps[0].problem.kind, ProblemKind::crashed);
}

TEST(Faults, WhoHungIsNotAskedAgainByAnyReaderOfTheProgram) {
  const std::string call = "nvmlDeviceGetHandleByIndex_v2:1";
  const FaultyMachine machine(World::none, call + "=hang");
  const ReaderOptions options = machine.options();
  NvmlReader reader(options);
  EXPECT_EQ(reader.read().gpus.size(), 4U);
  EXPECT_EQ(reader.read().gpus.size(), 4U);
  NvmlReader another(options);
  const auto snapshot = another.read();
  ASSERT_EQ(snapshot.gpus.size(), 4U);
  EXPECT_EQ(snapshot.gpus[1].state, GpuState::not_answering);
  EXPECT_EQ(machine.calls(call), 1);
}

/// Time of day and deadlines go on; a test moves them ahead.
class LateClock : public Clock {
 public:
  SteadyTime now() const override { return system_clock().now() + ahead_; }
  WallTime wall_now() const override { return system_clock().wall_now() + ahead_; }
  bool sleep_for(std::chrono::nanoseconds duration, const std::stop_token& stop) override {
    return system_clock().sleep_for(duration, stop);
  }
  void advance(std::chrono::seconds time) { ahead_ += time; }

 private:
  std::chrono::seconds ahead_{0};
};

TEST(Faults, AGpuThatRecoversIsUsedAgainAfterItsRest) {
  const FaultyMachine machine(World::none, "nvmlDeviceGetHandleByIndex_v2:1=hang");
  LateClock clock;
  ReaderOptions options = machine.options();
  options.clock = &clock;
  NvmlReader reader(options);
  EXPECT_EQ(reader.read().gpus.at(1).state, GpuState::not_answering);
  FaultyMachine::set("FAKE_NVML_FAULTS", "");
  EXPECT_EQ(reader.read().gpus.at(1).state, GpuState::not_answering) << "it rests";
  clock.advance(std::chrono::seconds(31));
  EXPECT_EQ(reader.read().gpus.at(1).state, GpuState::available);
  EXPECT_EQ(reader.read().gpus.at(1).state, GpuState::available);
}

TEST(Faults, ADriverThatHungIsAskedAgainAfterItsRest) {
  const FaultyMachine machine(World::none, "nvmlInit_v2=hang");
  LateClock clock;
  ReaderOptions options = machine.options();
  options.clock = &clock;
  NvmlReader reader(options);
  EXPECT_TRUE(reader.read().problem);
  EXPECT_TRUE(reader.read().problem);
  EXPECT_EQ(machine.calls("nvmlInit_v2"), 1);
  FaultyMachine::set("FAKE_NVML_FAULTS", "");
  clock.advance(std::chrono::seconds(31));
  EXPECT_FALSE(reader.read().problem);
}

TEST(Faults, ALibraryWithoutWhatIsNeededIsNoMachineWithoutGpus) {
  const FaultyMachine machine(World::all, "");
  ReaderOptions options = machine.options();
  options.nvml_library = "libm.so.6";
  const auto snapshot = MachineReader(options).read();
  ASSERT_TRUE(snapshot.problem);
  EXPECT_EQ(snapshot.problem->kind, ProblemKind::wrong_library);
  EXPECT_THAT(snapshot.problem->message, HasSubstr("nvmlInit_v2"));
  EXPECT_EQ(snapshot.gpus.size(), 4U);
}

TEST(Faults, AShortDeadlineIsBlamedBeforeTheDriver) {
  const FaultyMachine machine(World::none, "nvmlInit_v2=hang");
  ReaderOptions options = machine.options();
  options.timeout = std::chrono::milliseconds(5);
  const auto snapshot = MachineReader(options).read();
  ASSERT_TRUE(snapshot.problem);
  EXPECT_THAT(snapshot.problem->hint, HasSubstr("--timeout"));
  EXPECT_THAT(snapshot.problem->hint, Not(HasSubstr("reboot")));
}

}  // namespace
}  // namespace gpuwarden::probe
