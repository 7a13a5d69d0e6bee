// SPDX-License-Identifier: Apache-2.0
// Profiling metrics (GPM): two samples, and what lies between them.
#include "sim_nvml/client.hpp"

namespace gpuwarden::nvml {
namespace {

class Profiling : public Simulated {};

constexpr const char* kHopper =
    "driver: 580.65.06\nclock: {frozen: true}\ngpus:\n  - model: NVIDIA H200\n    readings: {sm_active: 50, "
    "dram_active: 20}\n";

TEST_F(Profiling, ASampleIsTheMomentAndAMetricTheMeanOfTwo) {
  const Nvml& nvml = start(kHopper);
  Device device = nvml.gpu(0);
  GpmSupport support{kGpmSupportVersion, 0};
  ASSERT_EQ(nvml.nvmlGpmQueryDeviceSupport(device, &support), kSuccess);
  EXPECT_EQ(support.supported, 1U);
  GpmMetricsGet get{};
  get.version = kGpmMetricsGetVersion;
  ASSERT_EQ(nvml.nvmlGpmSampleAlloc(&get.first), kSuccess);
  ASSERT_EQ(nvml.nvmlGpmSampleAlloc(&get.second), kSuccess);
  ASSERT_EQ(nvml.nvmlGpmSampleGet(device, get.first), kSuccess);
  ASSERT_FALSE(nvml.call({{"op", "set"}, {"gpu", 0}, {"field", "sm_active"}, {"value", 70}}).contains("error"));
  ASSERT_EQ(nvml.nvmlGpmSampleGet(device, get.second), kSuccess);
  get.count = 3;
  get.metrics[0].id = kGpmSmUtil;
  get.metrics[1].id = kGpmDramBandwidthUtil;
  get.metrics[2].id = 97;
  ASSERT_EQ(nvml.nvmlGpmMetricsGet(&get), kSuccess);
  EXPECT_EQ(get.metrics[0].result, kSuccess);
  EXPECT_DOUBLE_EQ(get.metrics[0].value, 60);
  EXPECT_DOUBLE_EQ(get.metrics[1].value, 20);
  EXPECT_EQ(get.metrics[2].result, kNotSupported) << "one unknown metric fails alone";
  get.version = 99;
  EXPECT_EQ(nvml.nvmlGpmMetricsGet(&get), kArgumentVersionMismatch);
  EXPECT_EQ(nvml.nvmlGpmSampleFree(get.first), kSuccess);
  EXPECT_EQ(nvml.nvmlGpmSampleFree(get.second), kSuccess);
}

TEST_F(Profiling, OlderProductsHaveNone) {
  const Nvml& nvml = start("driver: 580.65.06\ngpus: [{model: NVIDIA A100-SXM4-80GB}]\n");
  GpmSupport support{kGpmSupportVersion, 9};
  ASSERT_EQ(nvml.nvmlGpmQueryDeviceSupport(nvml.gpu(0), &support), kSuccess);
  EXPECT_EQ(support.supported, 0U);
  GpmSample sample = nullptr;
  ASSERT_EQ(nvml.nvmlGpmSampleAlloc(&sample), kSuccess);
  EXPECT_EQ(nvml.nvmlGpmSampleGet(nvml.gpu(0), sample), kNotSupported);
  EXPECT_EQ(nvml.nvmlGpmSampleFree(sample), kSuccess);
}

}  // namespace
}  // namespace gpuwarden::nvml
