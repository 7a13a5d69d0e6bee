// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/gpu_models.hpp"

#include <set>

namespace gpuwarden::knowledge {
namespace {

TEST(GpuModels, EveryRowIsInRange) {
  ASSERT_GT(gpu_models().size(), 100U);
  std::set<std::string_view> names;
  for (const GpuModel& model : gpu_models()) {
    EXPECT_TRUE(names.insert(model.name).second) << model.name;
    EXPECT_GE(model.capability_major, 3) << model.name;
    EXPECT_LE(model.capability_major, 12) << model.name;
    EXPECT_TRUE(model.memory_gb >= 2 && model.memory_gb <= 300) << model.name;
    EXPECT_TRUE(model.memory_bandwidth_gb_s > 50 && model.memory_bandwidth_gb_s < 10000) << model.name;
    EXPECT_TRUE(model.multiprocessors > 0 && model.multiprocessors < 256) << model.name;
    EXPECT_TRUE(model.tdp_watts >= 0 && model.tdp_watts < 2000) << model.name;
    EXPECT_TRUE(model.mig_max_instances >= 0 && model.mig_max_instances <= 7) << model.name;
    EXPECT_FALSE(model.source.empty()) << model.name;
    EXPECT_TRUE(cuda_cores_per_multiprocessor(model.capability_major, model.capability_minor)) << model.name;
  }
}

TEST(GpuModels, AreFoundWithAndWithoutTheMaker) {
  ASSERT_NE(find_gpu_model("NVIDIA H100 80GB HBM3"), nullptr);
  EXPECT_EQ(find_gpu_model("H100 80GB HBM3"), find_gpu_model("NVIDIA H100 80GB HBM3"));
  EXPECT_EQ(find_gpu_model("NVIDIA H100 80GB HBM3")->multiprocessors, 132);
  EXPECT_EQ(find_gpu_model("NVIDIA Tesla T4"), find_gpu_model("Tesla T4"));
  EXPECT_EQ(find_gpu_model("Voodoo 2"), nullptr);
}

TEST(PciNames, KnowDevicesSubsystemsAndUnknowns) {
  EXPECT_EQ(pci_device_name(0x2330), "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(pci_device_name(0x2330, 0x1234, 0x5678), "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(pci_device_name(0x1EB8), "Tesla T4");
  EXPECT_EQ(pci_device_name(0xFFFF), std::nullopt);
}

}  // namespace
}  // namespace gpuwarden::knowledge
