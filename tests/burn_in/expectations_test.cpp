// SPDX-License-Identifier: Apache-2.0
#include "burn_in/expectations.hpp"

#include <gtest/gtest.h>

#include "burn_in/stand_in.hpp"

namespace gpuwarden::testing {
namespace {

facts::BurnInGpu with_figures() {
  facts::BurnInGpu gpu;
  for (const auto* id : {"pcie_to_device", "memory_bandwidth", "fp32", "tensor_bf16"})
    gpu.figures.push_back({.id = id, .value = 1});
  return gpu;
}

facts::BurnInGpu expected(facts::BurnInGpu gpu, const facts::GpuRecord& record) {
  burn_in::expect(gpu, record, knowledge::Knowledge::built_in());
  return gpu;
}

TEST(Expectations, PcieRatesAreThoseOfTheStandards) {
  EXPECT_NEAR(*burn_in::pcie_rate(1, 16), 4.0, 0.01);
  EXPECT_NEAR(*burn_in::pcie_rate(3, 16), 15.75, 0.01);
  EXPECT_NEAR(*burn_in::pcie_rate(4, 8), 15.75, 0.01);
  EXPECT_NEAR(*burn_in::pcie_rate(5, 16), 63.0, 0.05);
  EXPECT_FALSE(burn_in::pcie_rate(7, 16));
  EXPECT_FALSE(burn_in::pcie_rate(0, 16));
  EXPECT_FALSE(burn_in::pcie_rate(4, 0));
}

TEST(Expectations, AreTheCataloguesFiguresAndWhatIsStillSound) {
  const auto gpu = expected(with_figures(), machine_with_gpus().gpus[0]);
  EXPECT_EQ(figure(gpu, "memory_bandwidth").expected, 3350);
  EXPECT_NEAR(*figure(gpu, "memory_bandwidth").least, 3350 * 0.75, 0.1);
  EXPECT_EQ(figure(gpu, "fp32").expected, 66.9);
  EXPECT_EQ(figure(gpu, "tensor_bf16").expected, 989.4);
  for (const auto& one : gpu.figures) EXPECT_FALSE(one.expected_from.empty()) << one.id;
}

TEST(Expectations, AnIdleLinkIsJudgedByWhatItCanDo) {
  const auto gpu = expected(with_figures(), machine_with_gpus().gpus[0]);
  EXPECT_NEAR(*figure(gpu, "pcie_to_device").expected, 63, 0.1) << "generation 1 is its idle state";
  EXPECT_NEAR(*figure(gpu, "pcie_to_device").least, 44.1, 0.1);
}

TEST(Expectations, OurOwnKernelIsNotHeldToWhatOnlyHoppersOwnInstructionsReach) {
  const auto record = machine_with_gpus().gpus[0];
  auto product = with_figures();
  product.figures.push_back({.id = "matrix_bf16", .value = 1});
  EXPECT_NEAR(*figure(expected(product, record), "matrix_bf16").least, 989.4 / 2, 0.1);
  EXPECT_LT(*figure(expected(with_figures(), record), "tensor_bf16").least, 989.4 / 3);
}

TEST(Expectations, SmallBoardsAreGrantedTheirPowerLimit) {
  auto record = machine_with_gpus().gpus[0];
  record.gpu.name = "Tesla T4";
  facts::BurnInGpu gpu;
  gpu.figures = {{.id = "matrix_f16", .value = 22}};
  EXPECT_LT(*figure(expected(gpu, record), "matrix_f16").least, 22);
}

TEST(Expectations, OfAnUnknownModelNothingIsExpectedButItsLink) {
  auto record = machine_with_gpus().gpus[0];
  record.gpu.name = "NVIDIA Something New";
  const auto gpu = expected(with_figures(), record);
  EXPECT_TRUE(figure(gpu, "pcie_to_device").least);
  EXPECT_FALSE(figure(gpu, "memory_bandwidth").least);
  EXPECT_FALSE(figure(gpu, "fp32").least);
}

}  // namespace
}  // namespace gpuwarden::testing
