// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "gpuwarden/knowledge/planning_figures.hpp"
#include "gpuwarden/planning/throughput.hpp"
#include "planning/search_parts.hpp"
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

TEST(Traffic, MegatronReducesGradientsInFp32) {
  const ModelFigures model = figures_of(llama3_8b());
  Settings settings = sharded(Sharding::none, 8);
  settings.framework = Framework::megatron;
  EXPECT_NEAR(traffic_of(model, settings, kUnit).beside, (4 + 4) * model.total * 7 / 8, 1);
  settings.parallel.sharding = Sharding::zero1;  // new weights come back in 16 bits
  EXPECT_NEAR(traffic_of(model, settings, kUnit).beside, (4 + 2) * model.total * 7 / 8, 1);
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

/// A network link carries a hundredth of what NVLink does.
const Links kNodes{.within = 100, .between = 1, .gpus_per_node = 8, .host = 1};

TEST(Traffic, CollectivesLeaveANodeThroughAllOfItsLinks) {
  const ModelFigures model = figures_of(llama3_8b());
  const double inside = traffic_of(model, sharded(Sharding::fsdp2, 8), kNodes).beside;
  EXPECT_NEAR(inside, 6 * model.total * 7 / 8 / 100, 1);
  // Eight rings, one through the link of each rank.
  const double across = traffic_of(model, sharded(Sharding::fsdp2, 16), kNodes).beside;
  EXPECT_NEAR(across, 6 * model.total * 15 / 16 / 8, 1);
  EXPECT_NEAR(traffic_of(model, sharded(Sharding::none, 16), kNodes).beside, 4 * model.total * 15 / 16 / 8, 1);
  // However fast the network, a ring still goes through the node.
  const Links fast{.within = 100, .between = 50, .gpus_per_node = 8};
  EXPECT_NEAR(traffic_of(model, sharded(Sharding::fsdp2, 16), fast).beside, 6 * model.total * 15 / 16 / 100, 1);
  // Nodes of one GPU have one link.
  const Links single{.within = 100, .between = 1, .gpus_per_node = 1};
  EXPECT_NEAR(traffic_of(model, sharded(Sharding::fsdp2, 2), single).beside, 6 * model.total / 2, 1);
}

TEST(Traffic, ReplicasHaveTheLinksOfTheirRanksInANode) {
  const ModelFigures model = figures_of(llama3_8b());
  Settings settings = sharded(Sharding::none, 2);
  const auto beside = [&] { return traffic_of(model, settings, kNodes).beside; };
  // A whole node shares each layer: one rank of a replica group in each node.
  settings.parallel.tensor = 8;
  EXPECT_NEAR(beside(), 2 * 2 * model.total / 8 / 2, 1);
  // Four ranks a node: the group's gradients are larger, its links more.
  settings.parallel = {.data = 8, .tensor = 2};
  EXPECT_NEAR(beside(), 2 * 2 * model.total / 2 * 7 / 8 / 4, 1);
  // Replicas within a node, stages between nodes: gradients stay on NVLink.
  settings.parallel = {.data = 8, .pipeline = 2};
  EXPECT_NEAR(beside(), 2 * 2 * model.total / 2 * 7 / 8 / 100, 1);
}

TEST(Traffic, TensorsAcrossNodesUseAllLinksOfBoth) {
  const ModelFigures model = figures_of(llama3_8b());
  Settings settings;
  settings.sequence = 1024;
  settings.recompute = Recompute::none;
  settings.parallel.tensor = 16;
  const double bytes = 4 * 2 * 15.0 / 16 * 2 * 4096.0 * 1024 * 32;
  EXPECT_NEAR(traffic_of(model, settings, kNodes).waiting, bytes / 8, 1);
}

TEST(Traffic, StagesSendActivationsAndTheirGradients) {
  // Narayanan et al. 2021, arXiv 2104.04473: 2 b s h bytes each way, a part by each tensor-parallel rank.
  const ModelFigures model = figures_of(llama3_8b());
  Settings settings;
  settings.sequence = 1024;
  settings.parallel = {.pipeline = 2};
  const double bytes = 2 * 2 * 4096.0 * 1024;
  EXPECT_NEAR(traffic_of(model, settings, kNodes).waiting, bytes / 100, 1e-6);
  settings.parallel = {.data = 8, .pipeline = 2};
  EXPECT_NEAR(traffic_of(model, settings, kNodes).waiting, bytes, 1e-6);
  settings.parallel.virtual_stages = 4;
  EXPECT_NEAR(traffic_of(model, settings, kNodes).waiting, 4 * bytes, 1e-6);
}

TEST(Traffic, TokensForExpertsOfOtherNodesGoThroughTheirOwnLink) {
  const ModelFigures model = figures_of(testing::mixtral_8x7b());
  Settings settings = sharded(Sharding::none, 16);
  settings.sequence = 1024;
  settings.parallel.expert = 8;
  const double bytes = 2 * 2 * 2.0 * 4096 * 1024 * 2 * 32;
  EXPECT_NEAR(traffic_of(model, settings, kNodes).waiting, bytes * 7 / 8 / 100, 1);
  settings.parallel = {.data = 8, .tensor = 2, .expert = 8};
  settings.recompute = Recompute::none;
  // Four of the eight are in the node; tensor parallelism's own collectives stay there, too.
  const double tensors = 4 * 2 * 0.5 * 2 * 4096.0 * 1024 * 32 / 100;
  EXPECT_NEAR(traffic_of(model, settings, kNodes).waiting, tensors + bytes * 4 / 8, 1);
}

TEST(Traffic, EachExpertHasFewerReplicas) {
  const ModelFigures model = figures_of(testing::mixtral_8x7b());
  Settings settings = sharded(Sharding::none, 8);
  settings.parallel.expert = 8;
  const double dense = model.total - model.experts;
  EXPECT_NEAR(traffic_of(model, settings, kUnit).beside, 4 * dense * 7 / 8, 10);
  settings.parallel.expert = 4;
  EXPECT_NEAR(traffic_of(model, settings, kUnit).beside, 4 * (dense * 7 / 8 + model.experts / 4 / 2), 10);
}

TEST(Traffic, ContextsRingIsAsFastAsItsSlowestEdge) {
  const ModelFigures model = figures_of(llama3_8b());
  Settings settings;
  settings.task = Task::adapters;
  settings.adapters = {};
  settings.parallel = {.context = 16};
  const double across = traffic_of(model, settings, kNodes).beside;
  const Links one_node{.within = 1, .between = 1, .gpus_per_node = 16};
  EXPECT_NEAR(across / traffic_of(model, settings, one_node).beside, 1, 0.3);
}

double billions(const ModelFigures& model) { return model.total / 1e9; }

TEST(HostTraffic, OptimizersOnTheHostCostGradientsWeightsAndCpuTime) {
  const ModelFigures model = figures_of(llama3_8b());
  const knowledge::PlanningFigure& adam = *knowledge::find_planning_figure("host_adam");
  Settings settings = sharded(Sharding::zero2, 8);
  const Links links{.within = 1e15, .between = 1e15, .gpus_per_node = 8, .host = 1e9};
  EXPECT_EQ(traffic_of(model, settings, links).host_step, 0);
  const double before = traffic_of(model, settings, links).beside;
  settings.parallel.offload = Offload::optimizer;
  const Traffic traffic = traffic_of(model, settings, links);
  // Two bytes of gradient out, two of new weights back, an eighth by each rank; the CPUs of the node see all of it.
  EXPECT_NEAR(traffic.beside - before, 2 * billions(model) / 8, 1e-3);
  EXPECT_NEAR(traffic.host_step, billions(model) * adam.value + 2 * billions(model) / 8, 1e-6);
  EXPECT_LT(traffic.host_step_least, traffic.host_step);
  EXPECT_LT(traffic.host_step, traffic.host_step_most);
  settings.accumulation = 4;
  EXPECT_NEAR(traffic_of(model, settings, links).host_step, traffic.host_step / 4, 1e-6);
  settings.accumulation = 1;
  settings.parallel.data = 16;  // a second host halves the work of each
  EXPECT_NEAR(traffic_of(model, settings, links).host_step, traffic.host_step / 2, 1e-6);
}

TEST(HostTraffic, WeightsOnTheHostComeForBothPasses) {
  const ModelFigures model = figures_of(llama3_8b());
  const Links links{.within = 1e15, .between = 1e15, .gpus_per_node = 8, .host = 1e9};
  Settings settings = sharded(Sharding::zero3, 8);
  const double before = traffic_of(model, settings, links).beside;
  settings.parallel.offload = Offload::all;
  EXPECT_NEAR(traffic_of(model, settings, links).beside - before, (2 + 2 * 2) * billions(model) / 8, 1e-3);
  // FSDP's CPUOffload steps with torch's Adam, and nothing is left to come back.
  const knowledge::PlanningFigure& adam = *knowledge::find_planning_figure("host_adam_torch");
  settings.parallel.sharding = Sharding::fsdp2;
  EXPECT_NEAR(traffic_of(model, settings, links).host_step, billions(model) * adam.value, 1e-6);
}

TEST(HostTraffic, OfAdaptersIsSmall) {
  const ModelFigures model = figures_of(llama3_8b());
  const Links links{.within = 1e15, .between = 1e15, .gpus_per_node = 8, .host = 1e9};
  Settings settings = sharded(Sharding::zero2, 8);
  settings.parallel.offload = Offload::optimizer;
  const double full = traffic_of(model, settings, links).host_step;
  settings.task = Task::adapters;
  settings.adapters.rank = 8;
  const double adapters = traffic_of(model, settings, links).host_step;
  EXPECT_GT(adapters, 0);
  EXPECT_LT(adapters, full / 100);
}

TEST(HostTraffic, CheckpointsOnTheHostGoAndComeBack) {
  const ModelFigures model = figures_of(llama3_8b());
  const Links links{.within = 1, .between = 1, .gpus_per_node = 8, .host = 2};
  Settings settings;
  settings.sequence = 1024;
  EXPECT_EQ(traffic_of(model, settings, links).beside, 0);
  settings.recompute = Recompute::full_offloaded;
  EXPECT_NEAR(traffic_of(model, settings, links).beside, 2 * 2 * 4096.0 * 1024 * 32 / 2, 1);
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
  EXPECT_EQ(links_of(group, 8).host, links_of(group, 8).within) << "PCIe, too";
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

TEST(Speed, OffloadingSlowsDown) {
  const ModelFigures model = figures_of(llama3_8b());
  Settings settings = sharded(Sharding::zero3, 8);
  const auto speed = [&](Offload offload) {
    settings.parallel.offload = offload;
    return *speed_of(model, settings, "NVIDIA H100 80GB HBM3", 989e12, {}, 0, {360e9, 20e9, 8, 20e9});
  };
  const Speed none = speed(Offload::none);
  const Speed optimizer = speed(Offload::optimizer);
  const Speed all = speed(Offload::all);
  EXPECT_EQ(none.host_seconds, 0);
  EXPECT_GT(optimizer.host_seconds, 1);
  EXPECT_LT(optimizer.expected, 0.5 * none.expected);
  EXPECT_LT(all.expected, optimizer.expected);
  EXPECT_LT(optimizer.low, optimizer.expected);
  EXPECT_LT(optimizer.expected, optimizer.high);
  EXPECT_LT(optimizer.high, none.high);
}

TEST(Speed, TellsWhatOfThePeakIsLeftAndWhoTookTheRest) {
  const ModelFigures model = figures_of(llama3_8b());
  Settings settings = sharded(Sharding::zero2, 16);
  settings.parallel.pipeline = 2;
  settings.parallel.tensor = 8;
  settings.parallel.offload = Offload::optimizer;
  settings.accumulation = 4;
  const double peak = 989e12;
  const Speed speed = *speed_of(model, settings, "NVIDIA H100 80GB HBM3", peak, {}, 0, {360e9, 20e9, 8, 20e9});
  const double arithmetic = 4 * step_work(model, settings).model_flops / peak / speed.utilization;
  EXPECT_NEAR(arithmetic + speed.link_seconds + speed.idle_seconds + speed.host_seconds, speed.step_seconds,
              1e-9 * speed.step_seconds);
  EXPECT_NEAR(speed.achieved, speed.utilization * arithmetic / speed.step_seconds, 1e-9);
  for (const double part : {speed.link_seconds, speed.idle_seconds, speed.host_seconds}) EXPECT_GT(part, 0);
}

TEST(SecondsPerToken, OrderWhatRestsOnTheHostBehindWhatDoesNot) {
  const ModelFigures model = figures_of(llama3_8b());
  SearchRequest request;
  request.gpus = 8;
  const auto cost = [&](Sharding sharding, Offload offload, std::uint32_t accumulation) {
    Settings settings = sharded(sharding, 8);
    settings.parallel.offload = offload;
    settings.accumulation = accumulation;
    return seconds_per_token(model, request, settings);
  };
  const double none = cost(Sharding::zero2, Offload::none, 1);
  const double often = cost(Sharding::zero2, Offload::optimizer, 1);
  EXPECT_GT(often, 2 * none);
  EXPECT_GT(cost(Sharding::fsdp2, Offload::all, 1), 2 * often) << "torch's Adam";
  // The step is paid once for all of its micro-batches.
  EXPECT_LT(cost(Sharding::zero2, Offload::optimizer, 64), 1.2 * cost(Sharding::zero2, Offload::none, 64));
}

TEST(SecondsPerToken, FallLittleWhereAllLinksOfANodeAreUsed) {
  const ModelFigures model = figures_of(llama3_8b());
  SearchRequest request;
  request.link_bytes = 360e9;
  request.network_bytes = 45e9;  // eight of them carry what NVLink does
  const auto cost = [&](std::uint32_t gpus) {
    request.gpus = gpus;
    return gpus * seconds_per_token(model, request, sharded(Sharding::fsdp2, gpus));
  };
  EXPECT_NEAR(cost(64) / cost(8), 1, 0.05);
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

TEST(WholeStepUtilization, IsMegatronsOnNvswitchAlone) {
  const ModelFigures model = figures_of(llama3_8b());
  Settings settings;
  settings.framework = Framework::megatron;
  EXPECT_TRUE(whole_step_utilization(model, settings, "NVIDIA H100 80GB HBM3"));
  EXPECT_TRUE(whole_step_utilization(model, settings, "NVIDIA H800"));
  EXPECT_FALSE(whole_step_utilization(model, settings, "NVIDIA H800 PCIe"));
  EXPECT_FALSE(whole_step_utilization(model, settings, "NVIDIA A100-SXM4-80GB"));
  settings.framework = Framework::transformers;
  EXPECT_FALSE(whole_step_utilization(model, settings, "NVIDIA H100 80GB HBM3"));
}

TEST(WholeStepUtilization, ExpertsReachLessThanDenseModels) {
  ModelFigures model = figures_of(llama3_8b());
  Settings settings;
  settings.framework = Framework::megatron;
  const auto dense = whole_step_utilization(model, settings, "NVIDIA H100 80GB HBM3");
  model.shape.experts.experts = 64;
  const auto experts = whole_step_utilization(model, settings, "NVIDIA H100 80GB HBM3");
  ASSERT_TRUE(dense && experts);
  EXPECT_LT(experts->expected, dense->low);
}

TEST(UtilizationPrior, RestrictedVariantsHaveTheirOriginalsRows) {
  EXPECT_EQ(utilization_prior("NVIDIA A800-SXM4-80GB", Precision::bf16).expected,
            utilization_prior("NVIDIA A100-SXM4-80GB", Precision::bf16).expected);
  EXPECT_EQ(utilization_prior("NVIDIA H800", Precision::bf16).expected,
            utilization_prior("NVIDIA H100 80GB HBM3", Precision::bf16).expected);
  EXPECT_NE(utilization_prior("NVIDIA H20", Precision::bf16).expected,
            utilization_prior("NVIDIA H200", Precision::bf16).expected);
}

}  // namespace
}  // namespace gpuwarden::planning
