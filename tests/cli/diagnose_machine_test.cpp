// SPDX-License-Identifier: Apache-2.0
// The same log on two machines: what the words leave open, the machine's facts decide. Machines are simulated, their
// facts go through `gpuwarden snapshot` and `--from`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/program.hpp"

namespace gpuwarden::testing {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kTimeout =
    "[rank0]:[E1120 14:13:07.204518833 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=42, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600031 "
    "milliseconds before timing out.\n";
constexpr std::string_view kBusy = "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable\n";
constexpr std::string_view kBareOutOfMemory = "RuntimeError: CUDA error: out of memory\n";
constexpr std::string_view kLaunchFailure = "RuntimeError: CUDA error: unspecified launch failure\n";
constexpr std::string_view kUnknown =
    "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env "
    "variable CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero.\n";
constexpr std::string_view kNoGpus = "RuntimeError: No CUDA GPUs are available\n";

constexpr const char* kHealthy = "gpus: [{model: NVIDIA H100 80GB HBM3}]\n";

class DiagnoseMachine : public Program {
 protected:
  /// The first cause of a log on a machine that a fleet describes; `change` may edit its snapshot.
  std::string cause(std::string_view log, const std::string& fleet, void (*change)(Json&) = nullptr) {
    const std::string described = file("fleet.yaml", "name: box\ndriver: 550.54.15\ncuda: \"12.4\"\n" + fleet);
    const auto snapshot = run({"snapshot", "--simulate", described});
    Json facts = Json::parse(snapshot.standard_output, nullptr, false);
    EXPECT_FALSE(facts.is_discarded()) << snapshot.standard_error;
    if (facts.is_discarded()) return "no snapshot";
    if (change != nullptr) change(facts);
    const auto done = run({"diagnose", file("run.log", log), "--from", file("machine.json", facts.dump()), "--json"});
    const Json answer = Json::parse(done.standard_output, nullptr, false);
    EXPECT_FALSE(answer.is_discarded()) << done.standard_error;
    if (answer.is_discarded()) return "no answer";
    EXPECT_EQ(answer["simulated"], true);
    return answer["causes"].empty() ? "none" : answer["causes"][0]["id"].get<std::string>();
  }
};

TEST_F(DiagnoseMachine, ACollectiveThatHangsIsALostGpuOrStaysATimeout) {
  EXPECT_EQ(cause(kTimeout, kHealthy), "nccl_timeout");
  EXPECT_EQ(cause(kTimeout, "gpus: [{model: NVIDIA H100 80GB HBM3, faults: [xid=79]}]\n"), "fell_off_bus");
}

TEST_F(DiagnoseMachine, ACollectiveThatHangsIsASlowGpuWhereOneIsThrottled) {
  const auto heat = [](Json& facts) { facts["gpus"][0]["throttle_reasons"] = Json::array({"hw_thermal_slowdown"}); };
  EXPECT_EQ(cause(kTimeout, kHealthy, heat), "thermal_power");
}

TEST_F(DiagnoseMachine, ABusyDeviceIsInExclusiveModeOrJustBusy) {
  EXPECT_EQ(cause(kBusy, kHealthy), "device_busy");
  EXPECT_EQ(cause(kBusy, "gpus: [{model: NVIDIA H100 80GB HBM3, readings: {compute_mode: 3}}]\n"),
            "exclusive_compute_mode");
}

TEST_F(DiagnoseMachine, MemoryIsTooSmallOrTakenByAnother) {
  EXPECT_EQ(cause(kBareOutOfMemory, kHealthy), "oom_capacity");
  EXPECT_EQ(cause(kBareOutOfMemory,
                  "gpus: [{model: NVIDIA H100 80GB HBM3, processes: [{pid: 4711, user: ada, command: serve, memory: "
                  "70GiB}]}]\n"),
            "oom_other_process");
}

TEST_F(DiagnoseMachine, ALaunchFailureIsTheProgramsOrTheMemorys) {
  EXPECT_EQ(cause(kLaunchFailure, kHealthy), "launch_failure");
  EXPECT_EQ(cause(kLaunchFailure, "gpus: [{model: NVIDIA H100 80GB HBM3, faults: [ecc_uncorrected=3]}]\n"),
            "ecc_error");
}

TEST_F(DiagnoseMachine, AnUnknownErrorIsAFabricThatIsNotReady) {
  EXPECT_EQ(cause(kUnknown, kHealthy), "cuda_unknown_error");
  EXPECT_EQ(cause(kUnknown, "nvlink: nvswitch\ngpus: [{model: NVIDIA H100 80GB HBM3, readings: {fabric_state: 2}}]\n"),
            "fabric_manager_not_running");
}

TEST_F(DiagnoseMachine, NoGpusAreHiddenOnesOrADriverThatIsNotLoaded) {
  const auto hide = [](Json& facts) {
    facts["environment"]["variables"] = Json::array({{{"name", "CUDA_VISIBLE_DEVICES"}, {"value", ""}}});
  };
  EXPECT_EQ(cause(kNoGpus, kHealthy), "no_device_detected");
  EXPECT_EQ(cause(kNoGpus, kHealthy, hide), "visible_devices_empty");
  EXPECT_EQ(cause(kNoGpus, "faults: [driver_not_loaded]\n" + std::string(kHealthy)), "driver_not_loaded");
}

}  // namespace
}  // namespace gpuwarden::testing
