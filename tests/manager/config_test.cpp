// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/manager/config.hpp"

#include "gpuwarden/manager/cuda_manager.hpp"
#include "gpuwarden/manager/memory_manager.hpp"
#include "gpuwarden/manager/optimization.hpp"
#include "gpuwarden/manager/performance_monitor.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::manager {
namespace {

using namespace gpuwarden::testing;
using ::testing::HasSubstr;
using Json = nlohmann::json;

TEST(GpuConfigTest, GoesThroughJsonWithoutLoss) {
  GpuConfig config;
  config.device_ids = {2, 0};
  config.memory_fraction = 0.5;
  config.optimization_level = OptimizationLevel::experimental;
  config.precision = ModelPrecision::bf16;
  config.enable_monitoring = false;
  config.allocation_strategy = AllocationStrategy::fragmentation_aware;
  config.distributed_backend = "gloo";
  EXPECT_EQ(gpu_config_from_json(to_json(config)).value(), config);
  EXPECT_EQ(gpu_config_from_json(Json::object()).value(), GpuConfig{});
  EXPECT_EQ(config_keys().size(), 14U);
}

TEST(GpuConfigTest, ABadValueNamesItsKeyAndItsRange) {
  const std::vector<std::pair<const char*, Json>> bad{{"device_ids", {0, 0}},
                                                      {"device_ids", {-1}},
                                                      {"device_ids", Json::array()},
                                                      {"memory_fraction", 0},
                                                      {"memory_fraction", 1.5},
                                                      {"optimization_level", "turbo"},
                                                      {"precision", "fp8"},
                                                      {"enable_amp", "yes"},
                                                      {"enable_compile", 1},
                                                      {"enable_channels_last", 0},
                                                      {"enable_memory_pooling", "no"},
                                                      {"enable_monitoring", Json::object()},
                                                      {"allocation_strategy", 3},
                                                      {"max_memory_cache_ratio", -0.1},
                                                      {"max_memory_cache_ratio", 1.01},
                                                      {"enable_profiling", "on"},
                                                      {"distributed_backend", "smoke"},
                                                      {"enable_distributed", 2}};
  for (const auto& [key, value] : bad) {
    const auto read = gpu_config_from_json(Json{{key, value}});
    ASSERT_THAT(read, FailsWith(ErrorCode::invalid_argument, HasSubstr(key))) << value;
    EXPECT_THAT(read.error().hint, HasSubstr(std::string(key) + " must be")) << value;
  }
  const auto unknown = gpu_config_from_json({{"memory_fractoin", 0.5}});
  EXPECT_THAT(unknown, FailsWith(ErrorCode::invalid_argument, HasSubstr("memory_fractoin")));
  EXPECT_THAT(unknown.error().hint, HasSubstr("memory_fraction"));
  GpuConfig direct;
  direct.memory_fraction = 7;
  EXPECT_THAT(validate(direct), FailsWith(ErrorCode::invalid_argument, HasSubstr("memory_fraction: 7")));
}

TEST(PartConfigs, HaveRangesOfTheirOwn) {
  EXPECT_THAT(cuda_config_from_json({{"max_retries", 0}}),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("max_retries")));
  EXPECT_THAT(memory_config_from_json({{"max_pool_size", 5}}),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("max_pool_size")));
  EXPECT_EQ(memory_config_from_json({{"max_pool_size", 2147483648}})->max_pool_size, 2_GiB);
  EXPECT_EQ(cuda_config_from_json({{"retry_delay", 0.5}})->retry_delay, std::chrono::milliseconds(500));
  const auto levels = monitor_config_from_json(
      {{"thresholds", {{"temperature", 85}, {"power", {{"above", 600}, {"level", "critical"}}}}}});
  ASSERT_THAT(levels, IsOk());
  EXPECT_EQ(levels->thresholds.at("power").level, AlertLevel::critical);
  EXPECT_EQ(monitor_config_from_json(to_json(*levels)).value(), *levels);
  EXPECT_THAT(monitor_config_from_json({{"thresholds", {{"temprature", 85}}}}),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("temprature")));
  const auto rules = alert_rules(*levels);
  ASSERT_THAT(rules, IsOk());
  EXPECT_EQ(rules->rules.size(), telemetry::built_in_rules().size() + 2);
  EXPECT_TRUE(alert_rules({.enable_alerting = false})->rules.empty());
}

constexpr facts::ComputeCapability kVolta{7, 0};
constexpr facts::ComputeCapability kPascal{6, 1};
constexpr facts::ComputeCapability kHopper{9, 0};

TEST(Optimization, TheLevelSaysWhatIsTried) {
  GpuConfig config;
  config.optimization_level = OptimizationLevel::none;
  EXPECT_FALSE(plan_optimization(config, kHopper).inference_mode);
  config.optimization_level = OptimizationLevel::basic;
  EXPECT_TRUE(plan_optimization(config, kHopper).inference_mode);
  EXPECT_FALSE(plan_optimization(config, kHopper).compile);
  config.optimization_level = OptimizationLevel::aggressive;
  EXPECT_EQ(plan_optimization(config, kHopper).compile_mode, "default");
  config.optimization_level = OptimizationLevel::experimental;
  EXPECT_EQ(plan_optimization(config, kHopper).compile_mode, "max-autotune");
  config.enable_compile = false;
  EXPECT_FALSE(plan_optimization(config, kHopper).compile);
  EXPECT_THAT(plan_optimization(config, kHopper).notes, ::testing::Contains(HasSubstr("enable_compile")));
  EXPECT_TRUE(plan_optimization(config, kHopper).channels_last);
  config.enable_channels_last = false;
  EXPECT_FALSE(plan_optimization(config, kHopper).channels_last);
}

TEST(Optimization, PrecisionFollowsTheDevice) {
  GpuConfig config;
  EXPECT_EQ(plan_optimization(config, kHopper).autocast, "bfloat16");
  EXPECT_EQ(plan_optimization(config, kVolta).autocast, "float16");
  EXPECT_EQ(plan_optimization(config, kPascal).precision, ModelPrecision::fp32);
  EXPECT_EQ(plan_optimization(config, std::nullopt).autocast, "bfloat16") << "on the CPU";
  config.enable_amp = false;
  EXPECT_EQ(plan_optimization(config, kHopper).precision, ModelPrecision::fp32);
  config.precision = ModelPrecision::bf16;
  EXPECT_EQ(plan_optimization(config, kHopper).precision, ModelPrecision::bf16);
  EXPECT_EQ(plan_optimization(config, kVolta).precision, ModelPrecision::fp32);
  EXPECT_EQ(to_json(plan_optimization(config, kVolta))["notes"].size(), 1U);
  config.precision = ModelPrecision::fp16;
  EXPECT_EQ(plan_optimization(config, std::nullopt).precision, ModelPrecision::fp32);
}

}  // namespace
}  // namespace gpuwarden::manager
