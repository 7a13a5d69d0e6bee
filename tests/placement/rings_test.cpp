// SPDX-License-Identifier: Apache-2.0
#include "placement/rings.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <random>
#include <tuple>

namespace gpuwarden::placement {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

DeviceSet set_of(std::initializer_list<unsigned> devices) {
  DeviceSet set = 0;
  for (const unsigned device : devices) set |= DeviceSet{1} << device;
  return set;
}

constexpr DeviceSet all(std::size_t devices) { return (DeviceSet{1} << devices) - 1; }

std::vector<std::size_t> members(DeviceSet set) {
  std::vector<std::size_t> list;
  for (std::size_t i = 0; i < 32; ++i) {
    if ((set >> i & 1U) != 0) list.push_back(i);
  }
  return list;
}

/// Slowest link and sum of the best ring, by trying every order.
std::pair<double, double> tried_ring(const LinkGraph& graph, DeviceSet set) {
  std::vector<std::size_t> order = members(set);
  if (order.size() < 2) return {0, 0};
  if (order.size() == 2) return {graph.worth(order[0], order[1]), graph.worth(order[0], order[1])};
  std::pair<double, double> best{-1, -1};
  do {
    std::pair<double, double> ring{1e9, 0};
    for (std::size_t i = 0; i < order.size(); ++i) {
      const double worth = graph.worth(order[i], order[(i + 1) % order.size()]);
      ring = {std::min(ring.first, worth), ring.second + worth};
    }
    best = std::max(best, ring);
  } while (std::next_permutation(order.begin() + 1, order.end()));
  return best;
}

double sum_within(const LinkGraph& graph, DeviceSet set) {
  double sum = 0;
  for (const std::size_t a : members(set)) {
    for (const std::size_t b : members(set)) sum += a < b ? graph.worth(a, b) : 0;
  }
  return sum;
}

LinkGraph random_graph(std::mt19937& random, std::size_t devices) {
  constexpr double kWorths[] = {0, 10, 20, 100, 200};
  LinkGraph graph(devices);
  for (std::size_t a = 0; a < devices; ++a) {
    for (std::size_t b = a + 1; b < devices; ++b) graph.set(a, b, kWorths[random() % 5]);
  }
  return graph;
}

TEST(BestSets, AreThoseThatTryingEverythingFinds) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const std::size_t devices = 2 + random() % 5;
    const LinkGraph graph = random_graph(random, devices);
    const std::size_t count = 1 + random() % devices;
    const DeviceSet free = all(devices);
    const DeviceSet fixed = count > 1 && random() % 3 == 0 ? set_of({static_cast<unsigned>(random() % devices)}) : 0;
    using Score = std::tuple<double, double, double>;
    std::vector<DeviceSet> expected;
    Score best{-2, 0, 0};
    for (DeviceSet set = 0; set <= free; ++set) {
      if (static_cast<std::size_t>(std::popcount(set)) != count || (set & fixed) != fixed) continue;
      const auto [slowest, sum] = tried_ring(graph, set);
      const Score now{slowest, sum, sum_within(graph, free & ~set)};
      if (now > best) expected.clear();
      if (now >= best) expected.push_back(set);
      best = std::max(best, now);
    }
    const BestSets found = best_sets(graph, free, fixed, count);
    EXPECT_THAT(found.sets, ::testing::UnorderedElementsAreArray(expected)) << "round " << round;
    const Score told{found.slowest, found.sum, found.left};
    EXPECT_TRUE(count == 1 || told == best) << "round " << round;
  }
}

TEST(BestSets, OfNoDeviceThatIsFree) {
  LinkGraph graph(4);
  EXPECT_THAT(best_sets(graph, set_of({0, 1}), 0, 3).sets, IsEmpty());
  EXPECT_THAT(best_sets(graph, set_of({1, 3}), 0, 2).sets, ElementsAre(set_of({1, 3})));
}

TEST(BestSets, ALinkThatIsToldTwiceCountsByTheWorse) {
  LinkGraph graph(3);
  graph.set(0, 1, 200);
  graph.set(1, 0, 100);
  graph.set(1, 2, 150);
  EXPECT_THAT(best_sets(graph, all(3), 0, 2).sets, ElementsAre(set_of({1, 2})));
}

TEST(BestSets, WithoutLinksAllAreAlike) {
  const LinkGraph graph(3);
  EXPECT_THAT(best_sets(graph, all(3), 0, 2).sets,
              UnorderedElementsAre(set_of({0, 1}), set_of({0, 2}), set_of({1, 2})));
}

TEST(BestSets, ASingleDeviceIsTakenWhereItIsMissedLeast) {
  // A square of fast links, and one more that hangs on a slow one.
  LinkGraph graph(5);
  for (const auto& [a, b] : {std::pair{0U, 1U}, {1U, 2U}, {2U, 3U}, {3U, 0U}}) graph.set(a, b, 200);
  graph.set(3, 4, 10);
  EXPECT_THAT(best_sets(graph, all(5), 0, 1).sets, ElementsAre(set_of({4})));
}

TEST(BestSets, ABrokenOneOnlyRemovesItself) {
  LinkGraph graph(4);
  for (unsigned a = 0; a < 4; ++a) {
    for (unsigned b = a + 1; b < 4; ++b) graph.set(a, b, a == 0 ? 0 : 100);
  }
  EXPECT_THAT(best_sets(graph, all(4), 0, 3).sets, ElementsAre(set_of({1, 2, 3})));
}

}  // namespace
}  // namespace gpuwarden::placement
