// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/placement/nodes.hpp"

#include <array>
#include <bit>
#include <numeric>
#include <random>

#include "support/fleet_builder.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::placement {
namespace {

using namespace gpuwarden::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr NodeOffer whole(std::uint32_t gpus) { return {gpus, true}; }
constexpr NodeOffer broken(std::uint32_t gpus) { return {gpus, false}; }

TEST(ChooseNodes, TheFewestThatHaveEnough) {
  EXPECT_THAT(choose_nodes(std::vector{broken(2), whole(8), broken(3), whole(8)}, 16), ElementsAre(0, 8, 0, 8));
  EXPECT_THAT(choose_nodes(std::vector{broken(2), whole(8), broken(3)}, 13), ElementsAre(2, 8, 3));
  EXPECT_THAT(choose_nodes(std::vector{broken(2), broken(3)}, 6), IsEmpty());
}

TEST(ChooseNodes, WholeNodesAreLeftForTheNextJob) {
  EXPECT_THAT(choose_nodes(std::vector{whole(8), broken(5), broken(3)}, 3), ElementsAre(0, 0, 3)) << "it fits";
  EXPECT_THAT(choose_nodes(std::vector{whole(8), broken(5), broken(3)}, 4), ElementsAre(0, 4, 0));
  EXPECT_THAT(choose_nodes(std::vector{whole(8), broken(6), broken(6), broken(4)}, 12), ElementsAre(0, 6, 6, 0))
      << "8 and 4 would do as well, and break a whole one";
  EXPECT_THAT(choose_nodes(std::vector{whole(4), broken(4)}, 4), ElementsAre(0, 4));
}

TEST(ChooseNodes, TheFirstOnesWhereAllAreAlike) {
  EXPECT_THAT(choose_nodes(std::vector{whole(8), whole(8), whole(8)}, 12), ElementsAre(4, 8, 0));
}

/// What an exhaustive search finds: fewest nodes, least left over, fewest whole ones.
std::array<std::uint32_t, 3> best_of_all(const std::vector<NodeOffer>& offers, std::uint32_t count) {
  std::array<std::uint32_t, 3> best{~0U, ~0U, ~0U};
  for (std::uint32_t set = 1; set < 1U << offers.size(); ++set) {
    std::uint32_t sum = 0;
    std::uint32_t whole_ones = 0;
    for (std::size_t i = 0; i < offers.size(); ++i) {
      if ((set >> i & 1U) == 0) continue;
      sum += offers[i].free;
      whole_ones += offers[i].whole ? 1 : 0;
    }
    if (sum >= count) best = std::min(best, {static_cast<std::uint32_t>(std::popcount(set)), sum - count, whole_ones});
  }
  return best;
}

TEST(ChooseNodes, AgreesWithLookingAtEverySet) {
  std::mt19937 random(7);  // NOLINT(bugprone-random-generator-seed)
  for (int round = 0; round < 300; ++round) {
    std::vector<NodeOffer> offers(1 + random() % 9);
    for (NodeOffer& one : offers) {
      one.free = static_cast<std::uint32_t>(1 + random() % 8);
      one.whole = one.free == 8;
    }
    const auto all = std::accumulate(offers.begin(), offers.end(), 0U,
                                     [](std::uint32_t sum, const NodeOffer& one) { return sum + one.free; });
    const auto count = static_cast<std::uint32_t>(1 + random() % all);
    const auto given = choose_nodes(offers, count);
    ASSERT_EQ(std::accumulate(given.begin(), given.end(), 0U), count);
    std::array<std::uint32_t, 3> found{};
    for (std::size_t i = 0; i < offers.size(); ++i) {
      ASSERT_LE(given[i], offers[i].free);
      if (given[i] == 0) continue;
      found[0] += 1;
      found[1] += offers[i].free;
      found[2] += offers[i].whole ? 1 : 0;
    }
    found[1] -= count;
    EXPECT_EQ(found, best_of_all(offers, count)) << round;
  }
}

TEST(ChooseNodes, ThousandsOfNodesAreFilledToo) {
  std::vector<NodeOffer> offers(1250, whole(8));
  for (std::size_t i = 0; i < offers.size(); i += 3) offers[i] = broken(5);
  const auto given = choose_nodes(offers, 6001);
  EXPECT_EQ(std::accumulate(given.begin(), given.end(), 0U), 6001U);
  for (std::size_t i = 0; i < offers.size(); ++i) EXPECT_LE(given[i], offers[i].free);
}

class SelectOnNodes : public ::testing::Test {
 protected:
  SelectOnNodes() {
    for (int i = 0; i < 3; ++i) {
      snapshots_.push_back(fleet(4));
      for (facts::GpuRecord& record : snapshots_.back().gpus)
        record.gpu.uuid = Uuid(record.gpu.uuid.value + "-" + std::to_string(i));
    }
  }
  Result<NodesDecision> choose(const NodesRequest& request) const {
    std::vector<Inputs> nodes;
    for (const facts::Snapshot& one : snapshots_) nodes.push_back({one, leases_, nobody_, {}, disabled_});
    return select_on_nodes(request, nodes);
  }
  static std::vector<std::size_t> sizes(const NodesDecision& decision) {
    std::vector<std::size_t> sizes(3, 0);
    for (const NodeShare& share : decision.shares) sizes[share.node] = share.decision.selected.size();
    return sizes;
  }
  void lease(int node, int gpu) {
    leases_.push_back({.uuid = snapshots_.at(node).gpus.at(gpu).gpu.uuid, .shared = false, .holders = {}});
  }

  std::vector<facts::Snapshot> snapshots_;
  std::vector<facts::Lease> leases_;
  std::vector<facts::Disabling> disabled_;
  std::vector<Uuid> nobody_;
};

TEST_F(SelectOnNodes, EachNodesShareIsChosenAmongItsFreeGpus) {
  lease(1, 0);
  lease(1, 1);
  const auto decision = choose({.count = 6});
  ASSERT_THAT(decision, IsOk());
  ASSERT_TRUE(decision->satisfied) << decision->missing;
  EXPECT_EQ(decision->available, 10U);
  EXPECT_THAT(sizes(*decision), ElementsAre(4, 2, 0));
  EXPECT_EQ(decision->shares[1].decision.selected[0].index, GpuIndex{2});
}

TEST_F(SelectOnNodes, UnfitGpusAndNodesThatDoNotAnswerAreNoneOfThem) {
  snapshots_[0].gpus[3].state = facts::GpuState::lost;
  disabled_.push_back({.uuid = snapshots_[1].gpus[0].gpu.uuid, .reason = "x"});
  snapshots_[2].gpus.clear();
  snapshots_[2].problem.emplace();
  snapshots_[2].problem->code = ErrorCode::unavailable;
  const auto decision = choose({.count = 6});
  ASSERT_THAT(decision, IsOk());
  EXPECT_THAT(sizes(*decision), ElementsAre(3, 3, 0));
  ASSERT_EQ(decision->left_out.size(), 1U);
  EXPECT_EQ(decision->left_out[0].first, 2U);
  EXPECT_EQ(choose({.count = 7})->missing, "only 6 of the 7 requested GPUs are available on 3 nodes");
}

TEST_F(SelectOnNodes, WhatIsForOneMachineIsRefused) {
  EXPECT_EQ(choose({.count = 0}).error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(choose({.gpus = {.gpu_ids = {{"0"}}}, .count = 1}).error().message, HasSubstr("by their number"));
}

}  // namespace
}  // namespace gpuwarden::placement
