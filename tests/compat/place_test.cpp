// SPDX-License-Identifier: Apache-2.0
// What a machine's facts say to questions about it.
#include "gpuwarden/compat/place.hpp"

#include "compat/tables.hpp"
#include "gpuwarden/compat/answer.hpp"
#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::compat {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

facts::Snapshot report_of_torch(std::string gpu, std::string version, std::string cuda) {
  facts::Snapshot report = testing::fleet(1);
  report.gpus[0].gpu.name = std::move(gpu);
  report.gpus[0].gpu.compute_capability.reset();
  report.gpus[0].gpu.pci_device_id.reset();
  report.driver_version = "470.82.01";
  facts::PythonEnvironment python;
  python.torch_cuda = std::move(cuda);
  python.packages.push_back({.name = "torch", .version = std::move(version)});
  report.environment.emplace().pythons.push_back(std::move(python));
  return report;
}

TEST(CompatPlace, AnInstalledTorchWithoutKernelsIsToldBeforeItsDriver) {
  const Place place = place_of(report_of_torch("NVIDIA GeForce RTX 5090", "2.5.1+cu121", "12.1"), tables());
  ASSERT_THAT(place.torches, SizeIs(1));
  EXPECT_EQ(place.torches[0].cuda, "12.1");
  const MachineAnswer answer = answer_machine({tables(), place, kToday});
  ASSERT_THAT(answer.obstacles, SizeIs(2));
  EXPECT_EQ(answer.obstacles[0].why,
            "the PyTorch that is installed (2.5.1+cu121, CUDA 12.1) has no code for it (sm_120)");
  EXPECT_THAT(answer.obstacles[1].why, HasSubstr("570.86.16 or newer"));
  const Place fine = place_of(report_of_torch("NVIDIA A100-SXM4-80GB", "2.5.1+cu121", "12.1"), tables());
  EXPECT_THAT(answer_machine({tables(), fine, kToday}).obstacles, IsEmpty());
  const Place unknown = place_of(report_of_torch("NVIDIA GeForce RTX 5090", "2.5.0a0+nv24", ""), tables());
  EXPECT_THAT(answer_machine({tables(), unknown, kToday}).obstacles, SizeIs(1)) << "what it was built for is not known";
}

TEST(CompatPlace, CudaIsWhatTheMachineSays) {
  facts::Snapshot machine = testing::fleet(1);
  machine.cuda_driver_version = "12.9";
  EXPECT_EQ(place_of(machine, tables()).cuda, "12.9");
}

TEST(CompatPlace, IsReadFromAMachinesFacts) {
  facts::Snapshot machine = testing::fleet(8);
  machine.driver_version = "550.54.15";
  machine.simulated = true;
  machine.fleet = "h100x8";
  const Place place = place_of(machine, tables());
  ASSERT_THAT(place.gpus, SizeIs(1));
  EXPECT_EQ(place.gpus[0].count, 8);
  EXPECT_EQ(place.driver, (Version{550, 54, 15}));
  EXPECT_THAT(place.architectures(), ElementsAre(90));
  EXPECT_EQ(place.origin, "h100x8");
  EXPECT_TRUE(place.simulated);
}

}  // namespace
}  // namespace gpuwarden::compat
