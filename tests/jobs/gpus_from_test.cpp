// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/jobs/gpus_from.hpp"

#include "jobs/values.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::jobs {
namespace {

using namespace std::chrono_literals;
using gpuwarden::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::refusal;
using testing::said;

TEST(GpusFrom, ARangeHasItsLeastAndItsMost) {
  const auto gpus = gpus_from(said({{"num-gpus", "2:4"}, {"wait", "10m"}, {"priority", "-3"}}), {});
  ASSERT_THAT(gpus, IsOk());
  EXPECT_EQ(gpus->gpus.count, 4U);
  EXPECT_EQ(gpus->least, 2U);
  EXPECT_EQ(gpus->wait, 10min);
  EXPECT_EQ(gpus->priority, -3);
  EXPECT_EQ(gpus_from(said({{"nproc-per-node", "3:5"}}), {})->least, 3U) << "a rank for each GPU";
  EXPECT_EQ(gpus_from(said({{"num-gpus", "4"}}), {})->least, std::nullopt);
}

TEST(GpusFrom, WhatIsSaidReplacesTheFamilyInTheRequest) {
  const placement::Request request{.gpu_ids = {{"1"}}, .count = 1};
  EXPECT_THAT(gpus_from(said({{"num-gpus", "2"}}), request)->gpus.gpu_ids, IsEmpty());
  EXPECT_EQ(gpus_from(said({{"gpu-ids", "2,3"}}), request)->gpus.count, std::nullopt);
  EXPECT_THAT(gpus_from(said({{"device", "cuda:7"}}), request)->gpus.gpu_ids, ElementsAre(placement::GpuName{"1"}));
}

TEST(GpusFrom, SeveralRanksHaveAGpuEachUnlessMoreIsSaid) {
  EXPECT_EQ(gpus_from(said({{"nproc-per-node", "3"}}), {})->gpus.count, 3U);
  EXPECT_EQ(gpus_from(said({{"nproc-per-node", "3"}, {"num-gpus", "1"}}), {})->gpus.count, 1U);
  EXPECT_EQ(gpus_from(said({{"nproc-per-node", "3"}, {"device", "cpu"}}), {})->gpus.count, std::nullopt);
}

TEST(GpusFrom, WaitingWithoutATimeIsWithoutEnd) {
  EXPECT_EQ(gpus_from(said({{"wait", ""}}), {})->wait, std::chrono::milliseconds::max());
  EXPECT_EQ(gpus_from(said({}), {})->wait, std::nullopt);
}

TEST(GpusFrom, ContradictionsAreTold) {
  const auto refused = [](std::initializer_list<std::pair<const char*, const char*>> given) {
    return refusal(gpus_from(said(given), {}));
  };
  EXPECT_THAT(refused({{"num-gpus", "2:4"}, {"gpu-ids", "1,2"}}), HasSubstr("GPUs that are named and a range"));
  EXPECT_THAT(refused({{"num-gpus", "2:4"}, {"model", "llama-3-8b"}}), HasSubstr("a range of GPUs and a model"));
  EXPECT_THAT(refused({{"num-gpus", "2:4"}, {"nproc-per-node", "2:3"}}), HasSubstr("name different ranges"));
  EXPECT_THAT(refused({{"priority", "2"}}), HasSubstr("--priority requires --wait"));
  EXPECT_THAT(refused({{"priority", "2000000"}, {"wait", ""}}), HasSubstr("not a whole number from -1000000"));
  EXPECT_THAT(refused({{"model-size", "7B"}, {"family", "llama"}}), HasSubstr("--model-size and --family"));
  EXPECT_THAT(refusal(check_which_gpus(said({{"all", ""}, {"num-gpus", "2"}}))), HasSubstr("--all and --num-gpus"));
}

}  // namespace
}  // namespace gpuwarden::jobs
