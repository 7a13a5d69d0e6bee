// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "gpuwarden/planning/throughput.hpp"
#include "planning/shapes.hpp"

namespace gpuwarden::planning {
namespace {

using testing::llama3_8b;

const Links kUnit{.within = 1, .between = 1, .gpus_per_node = 8};

Settings sharded(Sharding sharding, std::uint32_t data) {
  Settings settings;
  settings.precision = Precision::bf16;
  settings.parallel = {.data = data, .sharding = sharding};
  return settings;
}

TEST(Traffic, OneGpuSendsNothing) {
  const Traffic alone = traffic_of(figures_of(llama3_8b()), {}, kUnit);
  EXPECT_EQ(alone.waiting, 0);
  EXPECT_EQ(alone.beside, 0);
}

TEST(Traffic, ShardedWeightsCostHalfAsMuchAgainAsDdp) {
  // ZeRO, arXiv 1910.02054, section 7: 2 and 3 times the parameters.
  const ModelFigures model = figures_of(llama3_8b());
  const double ddp = traffic_of(model, sharded(Sharding::none, 8), kUnit).beside;
  const double fsdp = traffic_of(model, sharded(Sharding::fsdp2, 8), kUnit).beside;
  EXPECT_NEAR(ddp, 2 * 2 * model.total * 7 / 8, 1);
  EXPECT_NEAR(fsdp / ddp, 1.5, 1e-9);
}

TEST(Traffic, AccumulationSparesDdpAndNotFsdp) {
  const ModelFigures model = figures_of(llama3_8b());
  Settings ddp = sharded(Sharding::none, 8);
  Settings fsdp = sharded(Sharding::fsdp2, 8);
  const double before = traffic_of(model, ddp, kUnit).beside;
  const double gathered = traffic_of(model, fsdp, kUnit).beside;
  ddp.accumulation = fsdp.accumulation = 4;
  EXPECT_NEAR(traffic_of(model, ddp, kUnit).beside, before / 4, 1);
  EXPECT_EQ(traffic_of(model, fsdp, kUnit).beside, gathered);
}

TEST(Traffic, TensorParallelismReducesActivationsTwiceALayerAndPass) {
  const ModelFigures model = figures_of(llama3_8b());
  Settings settings;
  settings.sequence = 1024;
  settings.recompute = Recompute::none;
  settings.parallel.tensor = 2;
  // Megatron-LM, arXiv 1909.08053: four all-reduces a layer; each is a ring of 2 (t - 1) / t of the tensor.
  const double expected = 4 * 2 * 0.5 * 2 * 4096.0 * 1024 * 32;
  EXPECT_NEAR(traffic_of(model, settings, kUnit).waiting, expected, 1);
  settings.recompute = Recompute::full;
  EXPECT_NEAR(traffic_of(model, settings, kUnit).waiting, 1.5 * expected, 1);
}

TEST(Traffic, NodesAreJoinedMoreSlowly) {
  const Links links{.within = 100, .between = 1, .gpus_per_node = 8};
  const ModelFigures model = figures_of(llama3_8b());
  const double inside = traffic_of(model, sharded(Sharding::fsdp2, 8), links).beside;
  const double across = traffic_of(model, sharded(Sharding::fsdp2, 16), links).beside;
  EXPECT_GT(across, 50 * inside);
}

TEST(Traffic, ExpertsAndContextHaveTheirs) {
  const ModelFigures model = figures_of(testing::mixtral_8x7b());
  Settings settings = sharded(Sharding::none, 8);
  const double without = traffic_of(model, settings, kUnit).waiting;
  settings.parallel.expert = 8;
  EXPECT_GT(traffic_of(model, settings, kUnit).waiting, without);
  settings.parallel = {.context = 4};
  EXPECT_GT(traffic_of(model, settings, kUnit).beside, 0);
}

TEST(Links, AreThoseOfTheGpus) {
  GpuGroup group;
  group.nvlink_gb_s = 900;
  EXPECT_NEAR(links_of(group, 8).within, 360e9, 1e9);
  group.nvlink_gb_s = 0;
  EXPECT_LT(links_of(group, 8).within, 32e9) << "PCIe";
  EXPECT_EQ(links_of(group, 0).gpus_per_node, 1U);
}

TEST(Speed, SlowLinksSlowShardingDown) {
  const ModelFigures model = figures_of(llama3_8b());
  Settings settings = sharded(Sharding::fsdp2, 8);
  settings.sequence = 2048;
  const auto speed = [&](double link) {
    return *speed_of(model, settings, "NVIDIA A100-SXM4-80GB", 312e12, {}, 0, {link, link, 8});
  };
  const Speed fast = speed(1e15);
  const Speed slow = speed(20e9);
  EXPECT_LT(fast.link_seconds, 1e-3);
  EXPECT_GT(slow.link_seconds, 0.5);
  EXPECT_LT(slow.expected, 0.6 * fast.expected);
  EXPECT_LT(slow.low, slow.expected);
  EXPECT_LT(slow.expected, slow.high);
}

TEST(Speed, AMeasuredUtilizationContainsTheTraffic) {
  const ModelFigures model = figures_of(llama3_8b());
  const Settings settings = sharded(Sharding::fsdp2, 8);
  const Speed slow = *speed_of(model, settings, "H100", 1e15, 0.4, 0, {1e6, 1e6, 8});
  EXPECT_EQ(slow.link_seconds, 0);
  EXPECT_EQ(slow.low, slow.high);
}

TEST(Speed, RecomputationsForwardPassLowersTheLowEndOnly) {
  const ModelFigures model = figures_of(llama3_8b());
  Settings settings;
  settings.recompute = Recompute::none;
  const Speed none = *speed_of(model, settings, "NVIDIA A100-SXM4-80GB", 312e12);
  settings.recompute = Recompute::full;
  const Speed full = *speed_of(model, settings, "NVIDIA A100-SXM4-80GB", 312e12);
  EXPECT_NEAR(full.low / none.low, 0.75, 1e-6);
  EXPECT_NEAR(full.high, none.high, 1e-6 * none.high);
}

TEST(UtilizationPrior, EightBitsReachLessOfTheirOwnPeak) {
  const Utilization sixteen = utilization_prior("NVIDIA H100 80GB HBM3", Precision::mixed);
  const Utilization eight = utilization_prior("NVIDIA H100 80GB HBM3", Precision::mixed, true);
  EXPECT_LT(eight.expected, sixteen.expected);
  EXPECT_GT(utilization_prior("some GPU", Precision::mixed, true).expected, 0);
}

}  // namespace
}  // namespace gpuwarden::planning
