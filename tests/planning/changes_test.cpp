// SPDX-License-Identifier: Apache-2.0
// What is offered where nothing fits, and how strategies that offload are named.
#include <gtest/gtest.h>

#include <algorithm>

#include "gpuwarden/planning/search.hpp"
#include "gpuwarden/planning/serving.hpp"
#include "planning/shapes.hpp"

namespace gpuwarden::planning {
namespace {

using testing::kTestGiB;
using testing::llama3_8b;

SearchRequest serving(double gib, std::uint32_t sequence) {
  SearchRequest request;
  request.gpu = {Bytes(static_cast<std::uint64_t>(gib * kTestGiB))};
  request.settings.task = Task::serving;
  request.settings.precision = Precision::bf16;
  request.settings.sequence = sequence;
  request.micro_batch = 1;
  return request;
}

bool offers(const std::vector<Change>& changes, std::string_view words) {
  return std::ranges::any_of(changes, [&](const Change& change) { return change.what.contains(words); });
}

TEST(PoolChanges, MakeThePoolHoldARequestCheapestFirst) {
  // 15 GiB of weights on 24: the weights fit, 8 GiB of cache for 65,536 tokens do not.
  const ModelFigures model = figures_of(llama3_8b());
  const SearchRequest request = serving(24, 65536);
  const ServingBudget budget{.gpu = request.gpu};
  ASSERT_LT(serving_pool(model, request.settings, budget)->tokens, 65536U);
  const std::vector<Change> changes = pool_changes(model, request, budget, longest_request(model, request, budget), 2);
  ASSERT_FALSE(changes.empty());
  EXPECT_TRUE(offers(changes, "weights in 8 bit"));
  EXPECT_TRUE(offers(changes, "tokens at most"));
  EXPECT_TRUE(offers(changes, "use 2 GPUs"));
  for (const Change& change : changes) {
    EXPECT_FALSE(change.what.empty());
    EXPECT_NE(change.candidate.fit, Fit::does_not_fit) << change.what;
  }
  EXPECT_EQ(changes.back().what, "use 2 GPUs");
}

TEST(PoolChanges, AnEngineThatMayTakeMoreIsTheCheapest) {
  const ModelFigures model = figures_of(llama3_8b());
  SearchRequest request = serving(24, 512);
  const ServingBudget budget{.gpu = request.gpu};
  const std::uint64_t tokens = serving_pool(model, request.settings, budget)->tokens;
  request.settings.sequence = static_cast<std::uint32_t>(tokens + 1000);
  const std::vector<Change> changes = pool_changes(model, request, budget, longest_request(model, request, budget), {});
  ASSERT_FALSE(changes.empty());
  EXPECT_TRUE(changes.front().what.contains("95%")) << changes.front().what;
  EXPECT_TRUE(offers(changes, "KV cache in 8 bit"));
}

TEST(PoolChanges, AreNoneWhereARequestIsHeldOrNothingHelps) {
  const ModelFigures model = figures_of(llama3_8b());
  const SearchRequest roomy = serving(80, 4096);
  EXPECT_TRUE(
      pool_changes(model, roomy, {.gpu = roomy.gpu}, longest_request(model, roomy, {.gpu = roomy.gpu}), {}).empty());
  const SearchRequest tiny = serving(2, 4096);
  EXPECT_TRUE(
      pool_changes(model, tiny, {.gpu = tiny.gpu}, longest_request(model, tiny, {.gpu = tiny.gpu}), {}).empty());
}

TEST(Changes, ServingOffersFewerSequencesBeforeItQuantises) {
  SearchRequest request = serving(24, 8192);
  request.micro_batch = 32;
  const Search found = *plan(figures_of(llama3_8b()), request);
  EXPECT_FALSE(found.recommended);
  ASSERT_FALSE(found.changes.empty());
  EXPECT_TRUE(found.changes.front().what.contains("one sequence")) << found.changes.front().what;
}

SearchRequest training(std::uint32_t gpus) {
  SearchRequest request;
  request.gpu = testing::a100_80gb();
  request.gpus = gpus;
  request.settings.sequence = 4096;
  return request;
}

TEST(FixedStrategy, TriesEveryRecomputationUnlessThatIsPinned) {
  SearchRequest request = training(8);
  request.fixed_strategy = true;
  request.settings.parallel.sharding = Sharding::fsdp2;
  const Search free = *plan(figures_of(llama3_8b()), request);
  EXPECT_EQ(free.candidates.size(), 2U);
  EXPECT_NE(free.candidates[0].settings.recompute, free.candidates[1].settings.recompute);
  request.fixed_recompute = true;
  for (const Recompute pinned : {Recompute::none, Recompute::full}) {
    request.settings.recompute = pinned;
    const Search one = *plan(figures_of(llama3_8b()), request);
    ASSERT_EQ(one.candidates.size(), 1U);
    EXPECT_EQ(one.candidates[0].settings.recompute, pinned);
  }
}

TEST(FixedStrategy, MeasuredPeaksHoldForTheirRecomputationOnly) {
  SearchRequest request = training(1);
  request.fixed_strategy = true;
  const ModelFigures model = figures_of(llama3_8b());
  const std::vector<MeasuredPeak> peaks{{1, Bytes(40ULL << 30U)}, {2, Bytes(42ULL << 30U)}};
  request.calibration = *calibrate(model, request.settings, peaks);
  EXPECT_EQ(plan(model, request)->candidates.size(), 1U);
}

TEST(Offloading, IsNamedAsTheToolThatDoesIt) {
  SearchRequest request = training(4);
  request.fixed_strategy = true;
  const auto name = [&](Sharding sharding, Offload offload) {
    request.settings.parallel.sharding = sharding;
    request.settings.parallel.offload = offload;
    return plan(figures_of(llama3_8b()), request)->candidates.front().name;
  };
  EXPECT_EQ(name(Sharding::zero2, Offload::optimizer), "ZeRO-2 over 4, optimizer on the host (ZeRO-Offload)");
  EXPECT_EQ(name(Sharding::zero3, Offload::all), "ZeRO-3 over 4, all on the host (ZeRO-Offload)");
  // FSDP moves everything or nothing.
  EXPECT_EQ(name(Sharding::fsdp2, Offload::optimizer), "FSDP over 4, all on the host (CPUOffload)");
  EXPECT_EQ(name(Sharding::fsdp1, Offload::all), "FSDP over 4, all on the host (CPUOffload)");
}

}  // namespace
}  // namespace gpuwarden::planning
