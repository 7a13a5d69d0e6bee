// SPDX-License-Identifier: Apache-2.0
// MIG: instances are devices of their own, with memory and processes of their own.
#include "sim_nvml/proof.hpp"

namespace gpuwarden::nvml {
namespace {

using F = Functions;
using ::testing::StartsWith;

constexpr const char* kFleet = R"(
clock: {frozen: true}
gpus:
  - model: NVIDIA A100-SXM4-40GB
    mig: {enabled: true, instances: [3g.20gb, {profile: 1g.5gb, gpu_instance: 11}]}
    processes:
      - {pid: 4194001, memory: 3000MiB, gpu_instance: 7}
      - {pid: 4194002, memory: 500MiB, gpu_instance: 11}
  - {model: NVIDIA A100-SXM4-40GB}
)";

class Mig : public Simulated {
 protected:
  static Device instance(const Nvml& nvml, unsigned index) {
    Device found = nullptr;
    EXPECT_EQ(nvml.nvmlDeviceGetMigDeviceHandleByIndex(nvml.gpu(0), index, &found), kSuccess);
    return found;
  }
  static std::vector<unsigned> pids(const Nvml& nvml, Device device) {
    std::array<ProcessInfoV2, 8> entries{};
    unsigned count = entries.size();
    EXPECT_EQ(nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &count, entries.data()), kSuccess);
    std::vector<unsigned> result;
    for (unsigned i = 0; i < count; ++i) result.push_back(entries[i].pid);
    return result;
  }
};

TEST_F(Mig, InstancesAreFoundByIndexAndByUuid) {
  const Nvml& nvml = start(kFleet);
  for (unsigned i = 0; i < 2; ++i) {
    Device mig = instance(nvml, i);
    EXPECT_EQ(number<&F::nvmlDeviceIsMigDeviceHandle>(nvml, mig), "1");
    const std::string uuid = text<&F::nvmlDeviceGetUUID>(nvml, mig);
    EXPECT_THAT(uuid, StartsWith("MIG-"));
    Device found = nullptr;
    EXPECT_EQ(nvml.nvmlDeviceGetHandleByUUID(uuid.c_str(), &found), kSuccess);
    EXPECT_EQ(found, mig);
    Device parent = nullptr;
    EXPECT_EQ(nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig, &parent), kSuccess);
    EXPECT_EQ(parent, nvml.gpu(0));
  }
  EXPECT_NE(instance(nvml, 0), instance(nvml, 1));
}

TEST_F(Mig, BeyondTheLastInstanceNothingIsFound) {
  const Nvml& nvml = start(kFleet);
  Device found = nullptr;
  EXPECT_EQ(nvml.nvmlDeviceGetMigDeviceHandleByIndex(nvml.gpu(0), 2, &found), kNotFound);
  EXPECT_EQ(nvml.nvmlDeviceGetMigDeviceHandleByIndex(nvml.gpu(1), 0, &found), kNotSupported) << "MIG is off";
  EXPECT_EQ(nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvml.gpu(0), &found), kInvalidArgument);
}

TEST_F(Mig, MemoryBelongsToTheInstance) {
  const Nvml& nvml = start(kFleet);
  const auto memory = [&](Device device) {
    MemoryV2 value{.version = kMemoryV2};
    EXPECT_EQ(nvml.nvmlDeviceGetMemoryInfo_v2(device, &value), kSuccess);
    return std::pair{value.total >> 20U, value.used >> 20U};
  };
  EXPECT_EQ(memory(instance(nvml, 0)), std::pair(19968ULL, 3000ULL));
  EXPECT_EQ(memory(instance(nvml, 1)), std::pair(4864ULL, 500ULL));
  EXPECT_EQ(memory(nvml.gpu(0)), std::pair(40960ULL, 3500ULL)) << "the whole GPU";
}

TEST_F(Mig, HasAShareOfTheBar1Window) {
  const Nvml& nvml = start(kFleet);
  Bar1Memory whole{};
  Bar1Memory part{};
  ASSERT_EQ(nvml.nvmlDeviceGetBAR1MemoryInfo(nvml.gpu(0), &whole), kSuccess);
  ASSERT_EQ(nvml.nvmlDeviceGetBAR1MemoryInfo(instance(nvml, 0), &part), kSuccess);
  EXPECT_LT(part.total, whole.total);
  EXPECT_EQ(part.free, part.total);
}

TEST_F(Mig, ProcessesBelongToTheInstance) {
  const Nvml& nvml = start(kFleet);
  EXPECT_THAT(pids(nvml, instance(nvml, 0)), ::testing::ElementsAre(4194001));
  EXPECT_THAT(pids(nvml, instance(nvml, 1)), ::testing::ElementsAre(4194002));
  EXPECT_THAT(pids(nvml, nvml.gpu(0)), ::testing::ElementsAre(4194001, 4194002));
  std::array<ProcessInfoV2, 2> entries{};
  unsigned count = entries.size();
  ASSERT_EQ(nvml.nvmlDeviceGetComputeRunningProcesses_v3(nvml.gpu(0), &count, entries.data()), kSuccess);
  EXPECT_EQ(entries[0].gpu_instance, 7U);
  EXPECT_EQ(entries[0].compute_instance, 0U);
  EXPECT_EQ(entries[1].gpu_instance, 11U);
}

TEST_F(Mig, AttributesDescribeTheInstance) {
  const Nvml& nvml = start(kFleet);
  DeviceAttributes attributes{};
  ASSERT_EQ(nvml.nvmlDeviceGetAttributes_v2(instance(nvml, 0), &attributes), kSuccess);
  EXPECT_EQ(attributes.multiprocessors, 42U);
  EXPECT_EQ(attributes.gpu_instance_slices, 3U);
  EXPECT_EQ(attributes.memory_mib, 19968U);
  EXPECT_EQ(number<&F::nvmlDeviceGetGpuInstanceId>(nvml, instance(nvml, 1)), "11");
  EXPECT_EQ(text<&F::nvmlDeviceGetName>(nvml, instance(nvml, 1)), "NVIDIA A100-SXM4-40GB MIG 1g.5gb");
}

TEST_F(Mig, WhatOnlyTheWholeGpuHasIsNotSupportedOnAnInstance) {
  const Nvml& nvml = start(kFleet);
  Device mig = instance(nvml, 0);
  Device gpu = nvml.gpu(0);
  Utilization load{};
  EXPECT_EQ(nvml.nvmlDeviceGetUtilizationRates(mig, &load), kNotSupported);
  EXPECT_EQ(nvml.nvmlDeviceGetUtilizationRates(gpu, &load), kNotSupported) << "not for a GPU with MIG either";
  EXPECT_EQ((number<&F::nvmlDeviceGetTemperature, kTemperatureGpu>(nvml, mig)), "error 3");
  EXPECT_EQ(number<&F::nvmlDeviceGetPowerUsage>(nvml, mig), "error 3");
  EXPECT_EQ(two_numbers<&F::nvmlDeviceGetMigMode>(nvml, gpu), "1 1");
  unsigned count = 0;
  EXPECT_EQ(nvml.nvmlDeviceGetProcessUtilization(gpu, nullptr, &count, 0), kNotSupported);
}

TEST_F(Mig, AnInstanceSharesItsGpusTrouble) {
  const Nvml& nvml = start(kFleet);
  Device mig = instance(nvml, 0);
  nvml.call(fault("lost"));
  EXPECT_EQ(text<&F::nvmlDeviceGetUUID>(nvml, mig), "error 15");
}

}  // namespace
}  // namespace gpuwarden::nvml
