// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/facts/burn_in_json.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace gpuwarden::facts {
namespace {

BurnInGpu full_gpu() {
  BurnInGpu gpu;
  gpu.uuid = Uuid("GPU-1");
  gpu.index = GpuIndex{2};
  gpu.name = "NVIDIA H200";
  gpu.not_possible = "busy";
  gpu.failed = "broken";
  gpu.memory = BurnInMemory{Bytes(10), Bytes(9), {"zeros"}, true, 1, {{0xFFFFFFFFFFFFFFF8, 1, 2, "zeros"}}};
  gpu.figures = {{"fp32", 60.5, "TFLOPS", "fma", 66.9, 40.1, "catalogue"}};
  gpu.wrong_results = 3;
  gpu.notes = {"a note"};
  gpu.moments = {{"load", Celsius(60), Megahertz(1755), Milliwatts(650'500), Count(5), Count(16),
                  std::vector{ThrottleReason::sw_power_cap}}};
  gpu.milliseconds = 4200;
  return gpu;
}

TEST(BurnInJson, AGpuSurvivesTheRoundTripThroughTextAndCbor) {
  const auto json = to_json(full_gpu());
  for (const auto& carried :
       {nlohmann::json::parse(json.dump()), nlohmann::json::from_cbor(nlohmann::json::to_cbor(json))}) {
    const auto after = burn_in_gpu_from_json(carried);
    ASSERT_TRUE(after.has_value());
    EXPECT_EQ(*after, full_gpu());
  }
}

TEST(BurnInJson, KeysNameTheirUnits) {
  const auto json = to_json(full_gpu());
  EXPECT_EQ(json["memory"]["tested_bytes"], 9);
  EXPECT_EQ(json["memory"]["faults"][0]["wrong_bits"], 2);
  EXPECT_EQ(json["moments"][0]["power_watts"], 650.5);
  EXPECT_EQ(json["moments"][0]["throttle_reasons"][0], "sw_power_cap");
  EXPECT_EQ(json["figures"][0]["unit"], "TFLOPS");
}

TEST(BurnInJson, UnknownIsNull) {
  const auto json = to_json(BurnInRun{.library = "libcuda.so.1"});
  EXPECT_TRUE(json["cuda_version"].is_null());
  EXPECT_TRUE(json["failed"].is_null());
  EXPECT_EQ(json["gpus"], nlohmann::json::array());
  EXPECT_EQ(json["pairs"], nlohmann::json::array());
  const auto pair = to_json(BurnInRun{.pairs = {{.from = Uuid("GPU-1"), .to = Uuid("GPU-2")}}})["pairs"][0];
  EXPECT_EQ(pair["to"], "GPU-2");
  EXPECT_TRUE(pair["direct"].is_null() && pair["figure"].is_null() && pair["failed"].is_null());
}

TEST(BurnInJson, AWrongTypeIsNamed) {
  auto json = to_json(full_gpu());
  json["wrong_results"] = "three";
  const auto read = burn_in_gpu_from_json(json);
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, ErrorCode::corrupt);
  EXPECT_TRUE(read.error().message.contains("wrong_results"));
}

}  // namespace
}  // namespace gpuwarden::facts
