// SPDX-License-Identifier: Apache-2.0
// Where llama.cpp puts what, against the buffers of its logs.
#include "gpuwarden/planning/layer_split.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "gpuwarden/planning/answer.hpp"
#include "gpuwarden/planning/catalog.hpp"
#include "gpuwarden/planning/gguf.hpp"

namespace gpuwarden::planning {
namespace {

constexpr double kMiB = 1 << 20U;

Settings split_over(std::uint32_t gpus, Quantization quantization, LayerSplit split = {}) {
  Settings settings{.task = Task::serving, .precision = Precision::bf16, .quantization = quantization};
  settings.sequence = 4096;
  settings.parallel.layer_stages = gpus;
  settings.split = std::move(split);
  return settings;
}

/// A file of 70 billion parameters in Q4_K_M and one request of 8192 tokens, by llama.cpp.
PlanRequest request_of_70b(std::uint32_t gpus, const char* names, LayerSplit split = {}) {
  PlanRequest request;
  request.work.model = *find_model("Llama-3.1-70B-Instruct-Q4_K_M.gguf");
  request.work.settings = split_over(gpus, Quantization::q4_k_m, std::move(split));
  request.work.settings.sequence = 8192;
  request.work.engine = Engine::llama_cpp;
  request.work.serving_utilization = 1;
  request.gpus = *gpus_named(names);
  return request;
}

LayerLoads loads_of(const char* model, const Settings& settings) {
  return layer_loads(figures_of(*find_model(model)), settings);
}

double weights_of_all(const LayerLoads& loads) {
  return std::accumulate(loads.gpus.begin(), loads.gpus.end(), loads.host.weights,
                         [](double sum, const LayerLoad& load) { return sum + load.weights; });
}

// ggml-org/llama.cpp#6122: 4070 Ti and 3090 Ti, 41/41 layers, n_ctx = 4096.
TEST(LayerSplit, IsWhatALogOfTwoGpusSays) {
  const LayerLoads loads = loads_of("c4ai-command-r-v01", split_over(2, Quantization::q4_k_s, {.shares = {12, 29}}));
  EXPECT_EQ(loads.gpus[0].layers, 12U);
  EXPECT_NEAR(loads.gpus[0].weights / kMiB, 5434.38, 0.01);
  EXPECT_NEAR(loads.gpus[0].cache / kMiB, 1536, 0.01);
  EXPECT_FALSE(loads.gpus[0].output);
  EXPECT_EQ(loads.gpus[1].layers, 28U);
  EXPECT_NEAR(loads.gpus[1].weights / kMiB, 13989.53, 0.01);
  EXPECT_NEAR(loads.gpus[1].cache / kMiB, 3584, 0.01);
  EXPECT_TRUE(loads.gpus[1].output);
  EXPECT_NEAR(loads.host.weights / kMiB, 1640.62, 0.01);
}

// ollama/ollama#11986: Llama 3.3 70B, 81/81 layers.
TEST(LayerSplit, IsWhatOllamasLogSays) {
  const LayerLoads loads = loads_of("llama-3.1-70b", split_over(2, Quantization::q8_0, {.shares = {28, 53}}));
  EXPECT_NEAR(loads.gpus[0].weights / kMiB, 24277.75, 0.01);
  EXPECT_NEAR(loads.gpus[1].weights / kMiB, 46151.91, 0.01);
  EXPECT_NEAR(loads.host.weights / kMiB, 1064.62, 0.01);
}

// An ollama of December 2025: "CUDA0 model buffer size = 4403.49 MiB", "KV buffer size = 1024.00 MiB" of 8192 tokens.
TEST(LayerSplit, IsWhatALogOfOneGpuSays) {
  Settings settings = split_over(1, Quantization::q4_k_m);
  settings.sequence = 8192;
  const LayerLoads loads = loads_of("llama-3.1-8b", settings);
  EXPECT_NEAR(loads.gpus[0].weights / kMiB, 4403.49, 0.01);
  EXPECT_NEAR(loads.gpus[0].cache / kMiB, 1024, 0.01);
  settings.kv_bytes = bytes_per_element(GgmlType::q8_0);
  EXPECT_NEAR(loads_of("llama-3.1-8b", settings).gpus[0].cache / kMiB, 544, 0.01);
}

TEST(LayerSplit, AlikeSharesGiveTheOutputToTheLastGpu) {
  const LayerLoads loads = loads_of("qwen3-32b", split_over(3, Quantization::q4_k_m));
  EXPECT_EQ(loads.gpus[0].layers + loads.gpus[1].layers + loads.gpus[2].layers, 64U);
  EXPECT_TRUE(loads.gpus[2].output);
  EXPECT_EQ(loads.host.layers, 0U);
  EXPECT_EQ(loads.host.cache, 0);
}

TEST(LayerSplit, TheFirstLayersStayOnTheHost) {
  const LayerLoads loads = loads_of("llama-3.1-8b", split_over(1, Quantization::q4_k_m, {.gpu_layers = 11}));
  EXPECT_EQ(loads.host.layers, 22U);
  EXPECT_EQ(loads.gpus[0].layers, 10U);
  EXPECT_TRUE(loads.gpus[0].output) << "it is one of the eleven";
  EXPECT_NEAR(loads.host.cache_share, 22.0 / 32, 1e-9);
  EXPECT_NEAR(loads.gpus[0].cache_share, 10.0 / 32, 1e-9);
  const LayerLoads none = loads_of("llama-3.1-8b", split_over(1, Quantization::q4_k_m, {.gpu_layers = 0}));
  EXPECT_EQ(none.gpus[0].weights, 0);
  EXPECT_TRUE(none.host.output);
  const auto whole = weights_of_all(loads_of("llama-3.1-8b", split_over(1, Quantization::q4_k_m)));
  EXPECT_NEAR(weights_of_all(loads), whole, 1);
  EXPECT_NEAR(weights_of_all(none), whole, 1);
}

TEST(LayerSplit, RowsAreDividedBySharesAndTheCacheByLayers) {
  using Mode = LayerSplit::Mode;
  const LayerLoads layers = loads_of("llama-3.1-8b", split_over(2, Quantization::q4_k_m, {.shares = {3, 1}}));
  const LayerLoads rows =
      loads_of("llama-3.1-8b", split_over(2, Quantization::q4_k_m, {.mode = Mode::row, .shares = {3, 1}}));
  EXPECT_EQ(rows.gpus[0].cache, layers.gpus[0].cache);
  EXPECT_NEAR(weights_of_all(rows), weights_of_all(layers), 1);
  const FileWeights file = file_weights(*find_model("llama-3.1-8b"), split_over(2, Quantization::q4_k_m));
  const double dense = std::accumulate(file.dense.begin(), file.dense.end(), 0.0);
  EXPECT_NEAR(rows.gpus[1].weights, dense / 4 + file.output, 1e6) << "norms are small";
}

TEST(LayerSplit, ExpertsOfTheFirstLayersStayOnTheHost) {
  const LayerLoads all = loads_of("gpt-oss-120b", split_over(1, Quantization::mxfp4_moe));
  const LayerLoads some = loads_of("gpt-oss-120b", split_over(1, Quantization::mxfp4_moe, {.host_experts = 9}));
  EXPECT_NEAR(weights_of_all(all), weights_of_all(some), 1);
  EXPECT_EQ(some.gpus[0].layers, 36U);
  EXPECT_EQ(some.gpus[0].cache, all.gpus[0].cache);
  // A quarter of the experts, which are nearly all of the model.
  EXPECT_NEAR(some.host.weights - all.host.weights, all.gpus[0].weights / 4, 0.03 * all.gpus[0].weights);
}

TEST(LayerSplit, APlanTellsWhatTheGpuThatHoldsTheMostNeeds) {
  PlanRequest request = request_of_70b(2, "2xa6000", {.shares = {3, 1}});
  const auto plan = answer(request);
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_TRUE(plan->loads);
  EXPECT_EQ(plan->best().name, "layer split over 2");
  EXPECT_EQ(plan->best().estimate.peak_moment().at(Use::weights), plan->loads->gpus[0].weights);
  EXPECT_EQ(plan->best().estimate.communication, 0) << "no NCCL";
  EXPECT_EQ(plan->best().estimate.host, plan->loads->host.weights);
  EXPECT_EQ(plan->engine_options, "-ngl all -c 8192 --split-mode layer --tensor-split 3,1 -fa on");
  request.gpus = *gpus_named("a6000");
  EXPECT_FALSE(answer(request)) << "one GPU for two shares";
}

TEST(LayerSplit, ASmallerFileIsOfferedWhereTheOneDoesNotFit) {
  PlanRequest request;
  request.work.model = *find_model("Qwen3-32B-Q8_0.gguf");
  request.work.settings = split_over(1, Quantization::q8_0);
  request.work.engine = Engine::llama_cpp;
  request.work.serving_utilization = 1;
  request.gpus = *gpus_named("rtx4090");
  const auto offers = [](const Result<PlanAnswer>& plan, Quantization quantization) {
    return std::ranges::any_of(plan->search.changes, [&](const Change& change) {
      return change.what == "take a file in Q4_K_M" && change.candidate.settings.quantization == quantization;
    });
  };
  const auto served = answer(request);
  ASSERT_TRUE(served && !served->fits);
  EXPECT_TRUE(offers(served, Quantization::q4_k_m));
  request.work.settings.task = Task::inference;
  request.work.settings.split.reset();
  request.work.settings.parallel = {};
  const auto inferred = answer(request);
  ASSERT_TRUE(inferred && !inferred->fits);
  EXPECT_TRUE(offers(inferred, Quantization::q4_k_m));
}

TEST(LayerSplit, TheBestStrategyHasTheLengthThatOllamaTakes) {
  Workload work;
  work.model = *find_model("qwen3:8b");
  work.settings = split_over(1, Quantization::q4_k_m);
  work.settings.sequence = 40'960;
  work.engine = Engine::ollama;
  work.length = Length::usual;
  work.serving_utilization = 1;
  const auto small = best_strategy(figures_of(work.model), work, *gpus_named("rtx4060"), 8);
  ASSERT_TRUE(small);
  EXPECT_EQ(small->settings.sequence, 4096U);
  EXPECT_EQ(best_strategy(figures_of(work.model), work, *gpus_named("rtx4090"), 8)->settings.sequence, 32'768U);
  EXPECT_EQ(best_strategy(figures_of(work.model), work, *gpus_named("2xrtx4090"), 8)->settings.sequence, 40'960U);
}

TEST(LayerSplit, AModelOnTheHostAloneNeedsLittleOfTheGpu) {
  PlanRequest request;
  request.work.model = *find_model("Llama-3.1-70B-Instruct-Q4_K_M.gguf");
  request.work.settings = split_over(1, Quantization::q4_k_m, {.gpu_layers = 0});
  request.work.engine = Engine::llama_cpp;
  request.work.serving_utilization = 1;
  request.gpus = *gpus_named("rtx3060");
  const auto plan = answer(request);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_TRUE(plan->fits) << plan->search.reason;
  EXPECT_LT(plan->best().estimate.expected(), 2e9);
  EXPECT_GT(plan->best().estimate.host, 42e9);
}

TEST(LayerSplit, WhereNothingFitsTheCpuMayKeepTheFirstLayers) {
  PlanRequest request = request_of_70b(1, "rtx4090");
  const auto plan = answer(request);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_FALSE(plan->fits);
  ASSERT_FALSE(plan->search.changes.empty());
  const Change& first = plan->search.changes.front();
  EXPECT_THAT(first.what, ::testing::HasSubstr("-ngl 44"));
  EXPECT_GT(first.candidate.estimate.host, 15e9);
  // Of a model with experts these go first.
  request.work.model = *find_model("gpt-oss-120b-mxfp4.gguf");
  request.work.settings.quantization = Quantization::mxfp4_moe;
  const auto experts = answer(request);
  ASSERT_TRUE(experts && !experts->fits && !experts->search.changes.empty());
  const Change& least = experts->search.changes.front();
  const std::uint32_t layers = least.candidate.settings.split->host_experts;
  EXPECT_THAT(least.what, ::testing::EndsWith("(--n-cpu-moe " + std::to_string(layers) + ")"));
  EXPECT_GT(layers, 15U);
  request.work.settings.split->host_experts = layers;
  EXPECT_TRUE(answer(request)->fits);
  request.work.settings.split->host_experts = layers - 1;
  EXPECT_FALSE(answer(request)->fits);
}

}  // namespace
}  // namespace gpuwarden::planning
