// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/planning/serving.hpp"
#include "gpuwarden/planning/layer_split.hpp"

#include <gtest/gtest.h>

#include "gpuwarden/planning/catalog.hpp"
#include "planning/engines.hpp"
#include "planning/equations.hpp"
#include "planning/shapes.hpp"

namespace gpuwarden::planning {
namespace {

using testing::kTestGiB;

Bytes gib(double value) { return Bytes(static_cast<std::uint64_t>(value * kTestGiB)); }

TEST(ServingPool, GivesWhatVllmsLogSays) {
  // vLLM's start-up log, Llama 3 8B on an H100: 53.29 GiB of cache.
  Settings settings;
  settings.task = Task::serving;
  settings.sequence = 8192;
  const ServingBudget budget{.gpu = {gib(79.22)}, .outside = gib(1.79), .activations = gib(1.26)};
  const ServingPool pool = *serving_pool(figures_of(testing::llama3_8b()), settings, budget);
  EXPECT_NEAR(pool.cache / kTestGiB, 53.29, 0.02);
  EXPECT_EQ(pool.tokens % 16, 0);
  // 131,072 bytes a token.
  EXPECT_EQ(pool.tokens, static_cast<std::uint64_t>(pool.cache / 131072 / 16) * 16);
  EXPECT_NEAR(pool.requests, static_cast<double>(pool.tokens) / 8192, 0.01);
}

TEST(ServingPool, SGLangsShareIsOfWhatIsFreeBeforeForWeightsAndCache) {
  Settings settings;
  settings.task = Task::serving;
  settings.sequence = 8192;
  const ServingBudget budget{.gpu = {gib(79.22)}, .static_share = 0.8, .outside = gib(1.79)};
  const ServingPool pool = *serving_pool(figures_of(testing::llama3_8b()), settings, budget);
  EXPECT_NEAR(pool.cache + pool.weights, 0.8 * (79.22 - 1.79) * kTestGiB, 0.01 * kTestGiB);
  ServingBudget more = budget;
  more.batched_tokens = 4 * budget.batched_tokens;
  EXPECT_EQ(serving_pool(figures_of(testing::llama3_8b()), settings, more)->cache, pool.cache)
      << "what is computed with lies in the rest";
}

TEST(ServingPool, WhatAnEngineSparesIsOfWhatIsLeft) {
  Settings settings;
  settings.task = Task::serving;
  ServingBudget budget{.gpu = {gib(79.22)}, .utilization = 1};
  const double all = serving_pool(figures_of(testing::llama3_8b()), settings, budget)->cache;
  budget.spared = 0.1;
  EXPECT_NEAR(serving_pool(figures_of(testing::llama3_8b()), settings, budget)->cache, 0.9 * all, 1);
}

TEST(ServingPool, TensorParallelRanksHoldHeadsEach) {
  Settings settings;
  settings.task = Task::serving;
  const ServingBudget budget{.gpu = {gib(79.22)}};
  const std::uint64_t one = serving_pool(figures_of(testing::llama3_8b()), settings, budget)->tokens;
  settings.parallel.tensor = 2;
  const std::uint64_t two = serving_pool(figures_of(testing::llama3_8b()), settings, budget)->tokens;
  EXPECT_GT(two, 2 * one);
}

TEST(ServingPool, IsEmptyWhereTheWeightsLeaveNoRoom) {
  Settings settings;
  settings.task = Task::serving;
  const ServingPool pool = *serving_pool(figures_of(testing::llama3_70b()), settings, {.gpu = {gib(79.22)}});
  EXPECT_EQ(pool.tokens, 0);
  EXPECT_EQ(pool.requests, 0);
}

TEST(ServingPool, SlidingLayersKeepOnlyTheirWindow) {
  ModelShape gemma = testing::llama3_8b();
  gemma.sliding_window = 1024;
  gemma.sliding_layers = 24;
  Settings settings;
  settings.task = Task::serving;
  settings.sequence = 32768;
  const ServingBudget budget{.gpu = {gib(79.22)}};
  const double all = serving_pool(figures_of(testing::llama3_8b()), settings, budget)->requests;
  const double windowed = serving_pool(figures_of(gemma), settings, budget)->requests;
  EXPECT_NEAR(windowed / all, 1 / (0.25 + 0.75 / 32), 0.05);
}

TEST(ServingPool, TokensAndRequestsAgreeWhereLayersSlide) {
  ModelShape gemma = testing::llama3_8b();
  gemma.sliding_window = 1024;
  gemma.sliding_layers = 24;
  Settings settings;
  settings.task = Task::serving;
  settings.sequence = 131'072;
  const ServingPool pool = *serving_pool(figures_of(gemma), settings, {.gpu = {gib(79.22)}});
  EXPECT_DOUBLE_EQ(pool.requests, static_cast<double>(pool.tokens) / 131'072);
}

TEST(ServingPool, EveryRequestHoldsTheStateOfItsLinearAttention) {
  const ModelShape next = *find_model("Qwen3-Next-80B-A3B-Instruct");
  Settings settings;
  settings.task = Task::serving;
  settings.sequence = 1024;
  settings.parallel.tensor = 4;
  const ModelFigures model = figures_of(next);
  const ServingPool pool = *serving_pool(model, settings, {.gpu = {gib(79.22)}});
  const double cache = 1024 * kv_bytes_per_token(model, settings);
  const double state = linear_state_bytes(next) / 4;
  EXPECT_GT(state, cache) << "short requests are mostly state";
  EXPECT_NEAR(pool.requests, pool.cache / (cache + state), 0.05);
  settings.sequence = 262'144;
  const ServingPool longer = *serving_pool(model, settings, {.gpu = {gib(79.22)}});
  EXPECT_NEAR(longer.requests, longer.cache / (256 * cache + state), 0.01) << "it does not grow with the request";
}

TEST(ServingPool, FiguresLieWithinTheirRanges) {
  Settings settings;
  settings.task = Task::serving;
  const ServingPool pool = *serving_pool(figures_of(testing::llama3_8b()), settings, {.gpu = {gib(79.22)}});
  EXPECT_LT(pool.weights_low, pool.weights);
  EXPECT_GT(pool.weights_high, pool.weights);
  EXPECT_LT(pool.cache_low, pool.cache);
  EXPECT_GT(pool.cache_high, pool.cache);
  EXPECT_LT(pool.tokens_low, pool.tokens);
  EXPECT_GT(pool.tokens_high, pool.tokens);
}

TEST(ServingPool, WithoutAPoolAllMemoryBesideWeightsAndBuffersIsForTheCache) {
  Settings settings;
  settings.task = Task::serving;
  settings.sequence = 8192;
  const ModelFigures model = figures_of(testing::llama3_8b());
  settings.split = LayerSplit{};
  const double buffer = compute_buffer(model.shape, settings);
  const ServingBudget budget{.gpu = {gib(24)}, .utilization = 1, .pools = false};
  const ServingPool pool = *serving_pool(model, settings, budget);
  settings.split.reset();
  const double embedding = 2.0 * model.shape.vocab * model.shape.hidden;
  // Norms are in fp32.
  const double norms = 2.0 * (2 * 32 + 1) * model.shape.hidden;
  const double weights = serving_pool(model, settings, {.gpu = {gib(24)}})->weights - embedding + norms;
  EXPECT_NEAR(pool.weights, weights, 1);
  EXPECT_NEAR(pool.cache, 23.5 * kTestGiB - weights - buffer, 1);
}

TEST(ComputeBuffer, IsWhatLlamaCppsLogsSay) {
  constexpr double kMiB = 1 << 20U;
  const auto buffer = [](const char* name, const Settings& settings) {
    return compute_buffer(*find_model(name), settings) / kMiB;
  };
  EXPECT_NEAR(buffer("llama-3-8b", {}), 258.50, 0.01);
  EXPECT_NEAR(buffer("gpt-oss-20b", {}), 398.38, 0.01);
  // Llama 3.1 8B by ollama, of December 2025: n_ctx = 8192, n_ubatch = 512, flash_attn = 0.
  EXPECT_NEAR(buffer("llama-3.1-8b", {.sequence = 8192, .attention = Attention::eager}), 560.00, 0.01);
  EXPECT_NEAR(buffer("llama-3-8b", {.split = LayerSplit{.tokens = 2048}}), 4 * 258.50, 0.01);
  // Command-R over two GPUs, n_ctx = 4096, "pipeline parallelism enabled (n_copies=4)" (ggml-org/llama.cpp#6122).
  Settings two{.sequence = 4096, .attention = Attention::eager, .split = LayerSplit{}};
  two.parallel.layer_stages = 2;
  EXPECT_NEAR(buffer("c4ai-command-r-v01", two), 672.01, 0.02);
  two.split->gpu_layers = 40;
  EXPECT_LT(buffer("c4ai-command-r-v01", two), 600) << "not where the host has layers";
}

TEST(ServingPool, RefusesAnImpossibleUtilization) {
  EXPECT_FALSE(serving_pool(figures_of(testing::llama3_8b()), {}, {.gpu = {gib(80)}, .utilization = 1.2}));
  EXPECT_FALSE(serving_pool(figures_of(testing::llama3_8b()), {}, {.gpu = {gib(80)}, .block_tokens = 0}));
}

}  // namespace
}  // namespace gpuwarden::planning
