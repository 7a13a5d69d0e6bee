// SPDX-License-Identifier: Apache-2.0
// What only another framework brings is planned with that framework's bytes.
#include <gtest/gtest.h>

#include <algorithm>

#include "planning/equations.hpp"
#include "planning/search_parts.hpp"
#include "planning/shapes.hpp"

namespace gpuwarden::planning {
namespace {

using testing::llama3_70b;
using testing::llama3_8b;

SearchRequest on_h100s(std::uint32_t gpus) {
  SearchRequest request;
  request.gpu = {Bytes(84'943'000'000)};  // 79.11 GiB
  request.gpus = gpus;
  request.settings.sequence = 4096;
  return request;
}

const Candidate* find(const Search& found, std::uint32_t tensor, Sharding sharding) {
  const auto one = std::ranges::find_if(found.candidates, [&](const Candidate& candidate) {
    const Parallelism& parallel = candidate.settings.parallel;
    return parallel.tensor == tensor && parallel.pipeline == 1 && parallel.context == 1 &&
           parallel.sharding == sharding;
  });
  return one == found.candidates.end() ? nullptr : &*one;
}

TEST(Megatron, HasEighteenBytesAParameterWhateverSixteenBitIsAskedFor) {
  const ModelFigures model = figures_of(llama3_8b());
  for (const Precision precision :
       {Precision::mixed_low, Precision::mixed, Precision::bf16, Precision::fp16, Precision::master_weights}) {
    Settings settings;
    settings.framework = Framework::megatron;
    settings.precision = precision;
    const Settings run = as_run(settings);
    EXPECT_EQ(as_run(run), run);
    const StateBytes bytes = state_bytes(model, run);
    EXPECT_EQ(bytes.weights, 2) << to_string(precision);
    EXPECT_EQ(bytes.gradients, 4) << to_string(precision);
    EXPECT_EQ(bytes.states, 12) << to_string(precision);
    EXPECT_EQ(bytes.temporaries, 0) << to_string(precision);
  }
  Settings full;
  full.framework = Framework::megatron;
  full.precision = Precision::fp32;
  EXPECT_EQ(state_bytes(model, as_run(full)).weights, 4);
}

TEST(OtherFramework, IsPlannedWithItsOwnBytes) {
  const Search here = *plan(figures_of(llama3_70b()), on_h100s(16));
  SearchRequest request = on_h100s(16);
  request.settings.framework = Framework::megatron;
  const Search there = *plan(figures_of(llama3_70b()), request);
  const Candidate* const moved = find(here, 8, Sharding::zero1);
  const Candidate* const own = find(there, 8, Sharding::zero1);
  ASSERT_TRUE(moved != nullptr && own != nullptr);
  EXPECT_TRUE(moved->other_framework);
  EXPECT_FALSE(own->other_framework);
  EXPECT_EQ(moved->settings.framework, Framework::megatron);
  EXPECT_EQ(moved->name, own->name);
  EXPECT_EQ(moved->estimate, own->estimate);
  EXPECT_GT(moved->estimate.peak_moment().total(), 6 * 70e9 / 8) << "weights and gradients alone";
  const Candidate* const titan = find(here, 8, Sharding::fsdp2);
  ASSERT_NE(titan, nullptr);
  EXPECT_EQ(titan->settings.framework, Framework::torchtitan);
  EXPECT_EQ(titan->settings.step, OptimizerStep::fused);
}

TEST(OtherFramework, TakesNothingThatItDoesNotBring) {
  Settings settings;
  settings.optimizer = Optimizer::adamw_8bit;
  settings.loss = LossKernel::fused_linear;
  EXPECT_EQ(moved_to(Framework::megatron, settings).optimizer, Optimizer::adamw);
  EXPECT_EQ(moved_to(Framework::megatron, settings).loss, LossKernel::standard);
  EXPECT_EQ(moved_to(Framework::torchtitan, settings).optimizer, Optimizer::adamw);
  EXPECT_EQ(moved_to(Framework::transformers, settings), settings) << "stays at home";
  SearchRequest quantised = on_h100s(8);
  quantised.settings.task = Task::adapters;
  quantised.settings.quantization = Quantization::nf4_double;
  for (const Candidate& candidate : strategies(figures_of(llama3_70b()), quantised))
    EXPECT_FALSE(candidate.other_framework) << candidate.name;
}

TEST(OtherFramework, IsSaidWhereItIsTakenAndWhereItIsMuchFaster) {
  SearchRequest request = on_h100s(4);
  request.settings.optimizer = Optimizer::sgd;
  request.gpu = {Bytes(15ULL << 30U)};
  bool said = false;
  for (std::uint64_t gib = 10; gib <= 79; ++gib) {
    request.gpu = {Bytes(gib << 30U)};
    const Search found = *plan(figures_of(llama3_8b()), request);
    if (!found.recommended) continue;
    const Candidate& chosen = found.candidates[*found.recommended];
    const bool named = found.reason.contains("it takes Megatron") || found.reason.contains("it takes torchtitan");
    EXPECT_EQ(named, chosen.other_framework) << found.reason;
    said = said || named;
  }
  EXPECT_TRUE(said);
}

TEST(OtherFramework, OffloadsOnlyWhereItCan) {
  SearchRequest request = on_h100s(8);
  request.settings.parallel.offload = Offload::optimizer;
  int divided = 0;
  for (const Candidate& candidate : strategies(figures_of(llama3_70b()), request)) {
    if (!candidate.other_framework) continue;
    EXPECT_EQ(candidate.settings.framework, Framework::torchtitan) << candidate.name;
    EXPECT_TRUE(candidate.name.contains("CPUOffload")) << candidate.name;
    ++divided;
  }
  EXPECT_GT(divided, 0);
}

TEST(Changes, SayWhichOtherFrameworkTheyTake) {
  const Search found = *plan(figures_of(llama3_70b()), on_h100s(8));
  ASSERT_FALSE(found.recommended);
  ASSERT_FALSE(found.changes.empty());
  int elsewhere = 0;
  for (const Change& change : found.changes) {
    const Candidate& candidate = change.candidate;
    const bool named = change.what.contains(", in Megatron") || change.what.contains(", in torchtitan");
    EXPECT_EQ(named, candidate.other_framework) << change.what;
    elsewhere += named ? 1 : 0;
  }
  EXPECT_GT(elsewhere, 0);
}

TEST(Changes, OfMegatronNameNothingOfTransformers) {
  SearchRequest request = on_h100s(8);
  request.settings.framework = Framework::megatron;
  const Search found = *plan(figures_of(llama3_70b()), request);
  EXPECT_FALSE(found.recommended) << "18 bytes a parameter are 147 GiB on each of eight";
  for (const Change& change : found.changes) {
    for (const std::string_view foreign :
         {"8-bit AdamW", "fused linear", "pure bf16", "QLoRA", "fused optimizer", "on the host"})
      EXPECT_FALSE(change.what.contains(foreign)) << change.what;
  }
}

}  // namespace
}  // namespace gpuwarden::planning
