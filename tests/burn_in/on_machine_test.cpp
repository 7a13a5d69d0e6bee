// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/burn_in/on_machine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "burn_in/stand_in.hpp"
#include "lease/inherited.hpp"
#include "support/matchers.hpp"
#include "support/temp_dir.hpp"

namespace gpuwarden::burn_in {
namespace {

using namespace gpuwarden::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class BurnInOnMachine : public ::testing::Test {
 protected:
  BurnInOnMachine() { ::setenv("GPUWARDEN_SIM_DIR", (dir_ / "sim").c_str(), 1); }

  machine::Options options() const {
    machine::Options options;
    options.timeout = std::chrono::seconds(60);
    options.simulator = {GPUWARDEN_SIM_LIB_DIR, dir_ / "sim"};
    options.lease_directory = dir_ / "leases";
    return options;
  }
  /// A fleet whose GPU is the one that the stand-in for CUDA shows.
  machine::Machine fleet(const machine::Options& options) const {
    const auto uuid = machine_with_gpus().gpus.at(0).gpu.uuid.value;
    put(dir_ / "fleet.yaml", "gpus: [{model: NVIDIA H100 80GB HBM3, uuid: " + uuid + "}]\n");
    auto machine = machine::Machine::open(machine::Simulated{(dir_ / "fleet.yaml").string()}, options);
    EXPECT_THAT(machine, IsOk());
    return std::move(*machine);
  }
  static Result<facts::BurnInRun> test(const machine::Machine& machine, const MachineRequest& request) {
    return run_on(machine, machine.read(), knowledge::Knowledge::built_in(), request, stand_in_options());
  }

  TempDir dir_;
};

TEST_F(BurnInOnMachine, TheGpusAreReservedWhileTheyAreTested) {
  const StandInSettings settings("memory=8");
  const auto machine = fleet(options());
  std::vector<std::string> holders;
  const auto run =
      test(machine, {.gpus = {}, .run_id = "run-9", .command = "burn in", .progress = [&](std::string_view) {
                       const auto store = machine.open_leases("", "");
                       for (const auto& lease : store->inspect({}).leases)
                         holders.push_back(lease.holders.at(0).command);
                     }});
  ASSERT_THAT(run, IsOk());
  EXPECT_EQ(run->not_possible, std::nullopt);
  ASSERT_EQ(run->gpus.size(), 1U);
  EXPECT_EQ(run->gpus[0].failed, std::nullopt);
  EXPECT_THAT(holders, ::testing::Not(::testing::IsEmpty()));
  EXPECT_THAT(holders, ::testing::Each("burn in"));
  EXPECT_TRUE(machine.open_leases("", "")->inspect({}).leases.empty()) << "given back at the end";
}

TEST_F(BurnInOnMachine, AGpuThatSomebodyHasReservedIsLeftAlone) {
  const StandInSettings settings("memory=8");
  std::optional<machine::Machine> machine = fleet(options());
  const auto devices = machine->lease_devices(machine->read());
  const auto take = [&](const lease::Situation&) -> Result<lease::Choice> { return lease::Choice{devices}; };
  const auto held = machine->open_leases("run-1", "python train.py")->claim(devices, take);
  ASSERT_TRUE(held && *held);
  const auto run = test(*machine, {});
  machine.reset();
  ASSERT_THAT(run, IsOk());
  ASSERT_EQ(run->gpus.size(), 1U);
  EXPECT_THAT(run->gpus[0].not_possible.value_or(""), HasSubstr("python train.py"));
  // A variable proves nothing.
  machine::Options own = options();
  own.environment = {{"GPUWARDEN_RUN_ID", "run-1"}};
  EXPECT_THAT(test(fleet(own), {})->gpus.at(0).not_possible.value_or(""), HasSubstr("python train.py"));
  // The job that holds it may test its own GPU: here and below the locks are open as in a program that inherited them.
  lease::forget_inherited_locks();
  const auto mine = test(fleet(options()), {});
  lease::forget_inherited_locks();
  ASSERT_THAT(mine, IsOk());
  EXPECT_EQ(mine->gpus.at(0).not_possible, std::nullopt);
}

TEST_F(BurnInOnMachine, WithoutReservationsThereIsNobodyToAsk) {
  const StandInSettings settings("memory=8");
  machine::Options none = options();
  none.lease_directory = "/proc/no-leases";
  const auto run = test(fleet(none), {});
  ASSERT_THAT(run, IsOk());
  EXPECT_EQ(run->gpus.at(0).not_possible, std::nullopt);
}

TEST_F(BurnInOnMachine, AnUnknownGpuIsAWrongArgument) {
  const auto machine = fleet(options());
  EXPECT_THAT(test(machine, {.gpus = {{"7"}}}), FailsWith(ErrorCode::invalid_argument, HasSubstr("7")));
}

TEST_F(BurnInOnMachine, OnlyThisMachinesGpusCanBePutToWork) {
  const facts::Snapshot facts = machine_with_gpus();
  const auto captured = machine::Machine::open(machine::Captured{facts, "node.json"}, options());
  ASSERT_THAT(captured, IsOk());
  const auto run = run_on(*captured, facts, knowledge::Knowledge::built_in(), {}, {});
  ASSERT_THAT(run, IsOk());
  EXPECT_THAT(run->not_possible.value_or(""), HasSubstr("capture"));
  const auto simulated = fleet(options());
  EXPECT_THAT(not_possible(simulated, facts, {}).value_or(""), HasSubstr("simulated"));
  EXPECT_EQ(not_possible(simulated, facts, stand_in_options()), std::nullopt);
  const auto real = machine::Machine::open(machine::Real{}, options());
  facts::Snapshot image;
  image.origin = "/mnt/image";
  EXPECT_THAT(not_possible(*real, image, {}).value_or(""), HasSubstr("/mnt/image is looked at"));
}

TEST(BurnInOptions, NameTheLibrariesOfTheMachineAndOfTheEnvironment) {
  facts::Snapshot snapshot;
  snapshot.environment.emplace();
  snapshot.environment->toolkits.push_back({.path = "/usr/local/cuda-12.4"});
  EXPECT_EQ(options_from({}, snapshot).cublas.back(), "/usr/local/cuda-12.4/lib64/libcublas.so");
  EXPECT_FALSE(options_from({}, snapshot).stand_in);
  const Options stand_in = options_from({{"GPUWARDEN_CUDA_LIBRARY", "/opt/libcuda.so"}}, snapshot);
  EXPECT_EQ(stand_in.library, "/opt/libcuda.so");
  EXPECT_TRUE(stand_in.stand_in);
  EXPECT_TRUE(stand_in.cublas.empty());
  EXPECT_THAT(options_from({{"GPUWARDEN_CUBLAS_LIBRARY", "/opt/blas.so"}}, snapshot).cublas,
              ElementsAre("/opt/blas.so"));
}

}  // namespace
}  // namespace gpuwarden::burn_in
