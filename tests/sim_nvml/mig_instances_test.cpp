// SPDX-License-Identifier: Apache-2.0
// MIG mode is switched, GPU and compute instances are made and ended; what is made is a MIG device. Figures: NVIDIA's
// MIG user guide, A100-SXM4-40GB.
#include "sim_nvml/child.hpp"
#include "sim_nvml/proof.hpp"

namespace gpuwarden::nvml {
namespace {

using F = Functions;

constexpr const char* kFleetForInstances = R"(
privileged: true
clock: {frozen: true}
gpus:
  - {model: NVIDIA A100-SXM4-40GB}
  - {model: Tesla T4}
)";
constexpr unsigned kOneSlice = 19;
constexpr unsigned kThreeSlices = 9;
constexpr unsigned kFourSlices = 5;
constexpr unsigned kSevenSlices = 0;

class MigInstances : public Simulated {
 protected:
  static Device gpu_in_mig_mode(const Nvml& nvml) {
    const Device gpu = nvml.gpu(0);
    Return activation = kUnknown;
    EXPECT_EQ(nvml.nvmlDeviceSetMigMode(gpu, 1, &activation), kSuccess);
    EXPECT_EQ(activation, kSuccess);
    return gpu;
  }
  static GpuInstance create(const Nvml& nvml, unsigned profile) {
    GpuInstance made = nullptr;
    EXPECT_EQ(nvml.nvmlDeviceCreateGpuInstance(nvml.gpu(0), profile, &made), kSuccess) << "profile " << profile;
    return made;
  }
  static ComputeInstance create(const Nvml& nvml, GpuInstance parent, unsigned profile) {
    ComputeInstance made = nullptr;
    EXPECT_EQ(nvml.nvmlGpuInstanceCreateComputeInstance(parent, profile, &made), kSuccess);
    return made;
  }
  static unsigned remaining(const Nvml& nvml, unsigned profile) {
    unsigned count = 99;
    EXPECT_EQ(nvml.nvmlDeviceGetGpuInstanceRemainingCapacity(nvml.gpu(0), profile, &count), kSuccess);
    return count;
  }
  static unsigned devices(const Nvml& nvml) {
    unsigned count = 0;
    for (Device mig = nullptr; nvml.nvmlDeviceGetMigDeviceHandleByIndex(nvml.gpu(0), count, &mig) == kSuccess;) ++count;
    return count;
  }
};

TEST_F(MigInstances, NeedMigMode) {
  const Nvml& nvml = start(kFleetForInstances);
  GpuInstance made = nullptr;
  Return activation = kUnknown;
  EXPECT_EQ(nvml.nvmlDeviceCreateGpuInstance(nvml.gpu(0), kOneSlice, &made), kNotSupported);
  EXPECT_EQ(nvml.nvmlDeviceSetMigMode(nvml.gpu(1), 1, &activation), kNotSupported) << "a T4 has no MIG";
  EXPECT_EQ(two_numbers<&F::nvmlDeviceGetMigMode>(nvml, gpu_in_mig_mode(nvml)), "1 1");
  EXPECT_EQ(devices(nvml), 0U) << "not cut up yet";
}

TEST_F(MigInstances, ProfilesAreTheProducts) {
  const Nvml& nvml = start(kFleetForInstances);
  const Device gpu = gpu_in_mig_mode(nvml);
  GpuInstanceProfileInfo info{};
  ASSERT_EQ(nvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 0x2, &info), kSuccess);
  EXPECT_EQ(info.id, kThreeSlices);
  EXPECT_EQ(info.slices, 3U);
  EXPECT_EQ(info.instances, 2U);
  EXPECT_EQ(info.multiprocessors, 42U);
  EXPECT_EQ(info.memory_mib, 19968U);
  EXPECT_EQ(info.decoders, 2U);
  GpuInstanceProfileInfoV2 named{.version = version_word<GpuInstanceProfileInfoV2>(2)};
  ASSERT_EQ(nvml.nvmlDeviceGetGpuInstanceProfileInfoV(gpu, 0x7, &named), kSuccess);
  EXPECT_STREQ(named.name, "MIG 1g.5gb+me");
  EXPECT_EQ(named.id, 20U);
  EXPECT_EQ(named.ofa_engines, 1U);
  EXPECT_EQ(nvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 0x5, &info), kNotSupported) << "eight slices";
  EXPECT_EQ(nvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 0x11, &info), kInvalidArgument);
}

TEST_F(MigInstances, LieInTheSlicesThatArePossible) {
  const Nvml& nvml = start(kFleetForInstances);
  const Device gpu = gpu_in_mig_mode(nvml);
  std::array<Placement, 8> places{};
  unsigned count = 0;
  ASSERT_EQ(nvml.nvmlDeviceGetGpuInstancePossiblePlacements_v2(gpu, kThreeSlices, places.data(), &count), kSuccess);
  ASSERT_EQ(count, 2U);
  EXPECT_EQ(places[1].start, 4U);
  EXPECT_EQ(places[1].size, 4U);
  EXPECT_EQ(remaining(nvml, kOneSlice), 7U);
  const GpuInstance three = create(nvml, kThreeSlices);
  EXPECT_EQ(remaining(nvml, kThreeSlices), 1U);
  EXPECT_EQ(remaining(nvml, kOneSlice), 4U);
  EXPECT_EQ(remaining(nvml, kSevenSlices), 0U);
  create(nvml, kFourSlices);
  GpuInstance more = nullptr;
  EXPECT_EQ(nvml.nvmlDeviceCreateGpuInstance(gpu, kOneSlice, &more), kInsufficientResources);
  GpuInstanceInfo info{};
  ASSERT_EQ(nvml.nvmlGpuInstanceGetInfo(three, &info), kSuccess);
  EXPECT_EQ(info.placement.start, 4U);
  EXPECT_EQ(info.profile, kThreeSlices);
  EXPECT_EQ(info.device, gpu);
  GpuInstance same = nullptr;
  ASSERT_EQ(nvml.nvmlDeviceGetGpuInstanceById(gpu, info.id, &same), kSuccess);
  EXPECT_EQ(same, three);
}

TEST_F(MigInstances, AreMadeWhereTheCallerWants) {
  const Nvml& nvml = start(kFleetForInstances);
  const Device gpu = gpu_in_mig_mode(nvml);
  const Placement fifth{5, 1};
  const Placement nowhere{7, 1};
  GpuInstance made = nullptr;
  GpuInstanceInfo info{};
  ASSERT_EQ(nvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, kOneSlice, &fifth, &made), kSuccess);
  ASSERT_EQ(nvml.nvmlGpuInstanceGetInfo(made, &info), kSuccess);
  EXPECT_EQ(info.placement.start, 5U);
  EXPECT_EQ(nvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, kOneSlice, &fifth, &made), kInsufficientResources);
  EXPECT_EQ(nvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, kOneSlice, &nowhere, &made), kInsufficientResources);
}

TEST_F(MigInstances, BecomeDevicesThroughTheirComputeInstances) {
  const Nvml& nvml = start(kFleetForInstances);
  gpu_in_mig_mode(nvml);
  const GpuInstance three = create(nvml, kThreeSlices);
  EXPECT_EQ(devices(nvml), 0U) << "nothing computes there yet";
  const ComputeInstance one = create(nvml, three, 0);
  unsigned room = 0;
  ASSERT_EQ(nvml.nvmlGpuInstanceGetComputeInstanceRemainingCapacity(three, 0, &room), kSuccess);
  EXPECT_EQ(room, 2U);
  create(nvml, three, 1);
  ComputeInstance more = nullptr;
  EXPECT_EQ(nvml.nvmlGpuInstanceCreateComputeInstance(three, 0, &more), kInsufficientResources);
  ASSERT_EQ(devices(nvml), 2U);
  Device first = nullptr;
  Device second = nullptr;
  ASSERT_EQ(nvml.nvmlDeviceGetMigDeviceHandleByIndex(nvml.gpu(0), 0, &first), kSuccess);
  ASSERT_EQ(nvml.nvmlDeviceGetMigDeviceHandleByIndex(nvml.gpu(0), 1, &second), kSuccess);
  EXPECT_EQ(text<&F::nvmlDeviceGetName>(nvml, first), "NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb");
  EXPECT_EQ(text<&F::nvmlDeviceGetName>(nvml, second), "NVIDIA A100-SXM4-40GB MIG 2c.3g.20gb");
  const std::string uuid = text<&F::nvmlDeviceGetUUID>(nvml, first);
  EXPECT_THAT(uuid, ::testing::StartsWith("MIG-"));
  EXPECT_NE(uuid, text<&F::nvmlDeviceGetUUID>(nvml, second));
  Device found = nullptr;
  EXPECT_EQ(nvml.nvmlDeviceGetHandleByUUID(uuid.c_str(), &found), kSuccess);
  EXPECT_EQ(found, first);
  DeviceAttributes attributes{};
  ASSERT_EQ(nvml.nvmlDeviceGetAttributes_v2(second, &attributes), kSuccess);
  EXPECT_EQ(attributes.multiprocessors, 28U);
  EXPECT_EQ(attributes.gpu_instance_slices, 3U);
  EXPECT_EQ(attributes.compute_instance_slices, 2U);
  EXPECT_EQ(attributes.memory_mib, 19968U);
  ComputeInstanceInfo info{};
  ASSERT_EQ(nvml.nvmlComputeInstanceGetInfo_v2(one, &info), kSuccess);
  EXPECT_EQ(info.gpu_instance, three);
  ASSERT_EQ(nvml.nvmlComputeInstanceDestroy(one), kSuccess);
  EXPECT_EQ(devices(nvml), 1U);
  EXPECT_EQ(text<&F::nvmlDeviceGetName>(nvml, second), "NVIDIA A100-SXM4-40GB MIG 2c.3g.20gb") << "its handle lives on";
  EXPECT_EQ(text<&F::nvmlDeviceGetUUID>(nvml, first), "error 2");
}

TEST_F(MigInstances, EndFromTheInsideOut) {
  const Nvml& nvml = start(kFleetForInstances);
  const Device gpu = gpu_in_mig_mode(nvml);
  const GpuInstance whole = create(nvml, kSevenSlices);
  const ComputeInstance compute = create(nvml, whole, 4);
  Return activation = kUnknown;
  EXPECT_EQ(nvml.nvmlGpuInstanceDestroy(whole), kInUse);
  EXPECT_EQ(nvml.nvmlDeviceSetMigMode(gpu, 0, &activation), kSuccess);
  EXPECT_EQ(activation, kInUse);
  EXPECT_EQ(two_numbers<&F::nvmlDeviceGetMigMode>(nvml, gpu), "1 0") << "pending";
  ASSERT_EQ(nvml.nvmlComputeInstanceDestroy(compute), kSuccess);
  ASSERT_EQ(nvml.nvmlGpuInstanceDestroy(whole), kSuccess);
  EXPECT_EQ(nvml.nvmlGpuInstanceDestroy(whole), kInvalidArgument) << "gone";
  EXPECT_EQ(nvml.nvmlDeviceSetMigMode(gpu, 0, &activation), kSuccess);
  EXPECT_EQ(activation, kSuccess);
  EXPECT_EQ(two_numbers<&F::nvmlDeviceGetMigMode>(nvml, gpu), "0 0");
}

TEST_F(MigInstances, GoWithAReset) {
  const Nvml& nvml = start(kFleetForInstances);
  const Device gpu = gpu_in_mig_mode(nvml);
  create(nvml, create(nvml, kSevenSlices), 4);
  Return activation = kUnknown;
  EXPECT_EQ(nvml.nvmlDeviceSetMigMode(gpu, 0, &activation), kSuccess);
  ASSERT_FALSE(nvml.call({{"op", "reset"}, {"gpu", 0}}).contains("error"));
  EXPECT_EQ(two_numbers<&F::nvmlDeviceGetMigMode>(nvml, gpu), "0 0");
  Utilization load{};
  EXPECT_EQ(nvml.nvmlDeviceGetUtilizationRates(gpu, &load), kSuccess) << "a whole GPU again";
}

TEST_F(MigInstances, AreTheSameInAnotherProcess) {
  const Nvml& nvml = start(kFleetForInstances);
  gpu_in_mig_mode(nvml);
  Child other([&] {
    GpuInstance made = nullptr;
    ComputeInstance compute = nullptr;
    if (nvml.nvmlDeviceCreateGpuInstance(nvml.gpu(0), kOneSlice, &made) != kSuccess) return 1;
    return nvml.nvmlGpuInstanceCreateComputeInstance(made, 0, &compute) == kSuccess ? 0 : 2;
  });
  ASSERT_EQ(other.wait(), 0);
  ASSERT_EQ(devices(nvml), 1U);
  Device mig = nullptr;
  ASSERT_EQ(nvml.nvmlDeviceGetMigDeviceHandleByIndex(nvml.gpu(0), 0, &mig), kSuccess);
  EXPECT_EQ(text<&F::nvmlDeviceGetName>(nvml, mig), "NVIDIA A100-SXM4-40GB MIG 1g.5gb");
  EXPECT_EQ(number<&F::nvmlDeviceGetGpuInstanceId>(nvml, mig), "7");
}

TEST_F(MigInstances, OfTheFleetsFileCanBeEndedToo) {
  const Nvml& nvml = start(R"(
privileged: true
gpus:
  - {model: NVIDIA A100-SXM4-40GB, mig: {enabled: true, instances: [3g.20gb, 1g.5gb]}}
)");
  EXPECT_EQ(remaining(nvml, kThreeSlices), 0U);
  EXPECT_EQ(devices(nvml), 2U);
  GpuInstance instance = nullptr;
  ComputeInstance compute = nullptr;
  ASSERT_EQ(nvml.nvmlDeviceGetGpuInstanceById(nvml.gpu(0), 8, &instance), kSuccess);
  ASSERT_EQ(nvml.nvmlGpuInstanceGetComputeInstanceById(instance, 0, &compute), kSuccess);
  ASSERT_EQ(nvml.nvmlComputeInstanceDestroy(compute), kSuccess);
  ASSERT_EQ(nvml.nvmlGpuInstanceDestroy(instance), kSuccess);
  EXPECT_EQ(devices(nvml), 1U);
  EXPECT_EQ(remaining(nvml, kThreeSlices), 1U);
}

}  // namespace
}  // namespace gpuwarden::nvml
