// SPDX-License-Identifier: Apache-2.0
// Which GPUs of a machine with uneven wiring a request gets.
#include <gmock/gmock.h>

#include "gpuwarden/placement/select.hpp"
#include "support/fleet_builder.hpp"

namespace gpuwarden::placement {
namespace {

using facts::LinkLevel;
using ::testing::ElementsAre;

class Wiring : public ::testing::Test {
 protected:
  /// NVLinks between two of the GPUs; the others' way goes over the CPUs.
  void link(std::uint32_t a, std::uint32_t b, int nvlinks) {
    if (!snapshot_.links) snapshot_.links.emplace();
    snapshot_.links->push_back({GpuIndex{a}, GpuIndex{b}, LinkLevel::system, nvlinks});
  }
  /// A DGX-1 with V100s (source: NVIDIA DGX-1 system architecture white paper, figure of the NVLink mesh).
  void wire_as_dgx1() {
    snapshot_ = testing::fleet(8);
    for (const auto& [a, b, nvlinks] : {std::tuple{0U, 1U, 1},
                                        {0U, 2U, 1},
                                        {0U, 3U, 2},
                                        {0U, 4U, 2},
                                        {1U, 2U, 2},
                                        {1U, 3U, 1},
                                        {1U, 5U, 2},
                                        {2U, 3U, 2},
                                        {2U, 6U, 1},
                                        {3U, 7U, 1},
                                        {4U, 5U, 1},
                                        {4U, 6U, 1},
                                        {4U, 7U, 2},
                                        {5U, 6U, 2},
                                        {5U, 7U, 1},
                                        {6U, 7U, 2}})
      link(a, b, nvlinks);
    for (std::uint32_t a = 0; a < 8; ++a) {
      for (std::uint32_t b = a + 1; b < 8; ++b) link(a, b, 0);
    }
  }
  std::vector<std::uint32_t> chosen(Request request) const {
    const auto decision = select(request, {snapshot_, {}, {}, {}});
    std::vector<std::uint32_t> indices;
    if (!decision) return indices;
    for (const Device& device : decision->selected) indices.push_back(device.index.value);
    std::ranges::sort(indices);
    return indices;
  }

  facts::Snapshot snapshot_ = testing::fleet(4);
};

TEST_F(Wiring, OfADgx1TheBestRingIsTakenThatLeavesTheMost) {
  wire_as_dgx1();
  // Several fours have a ring of three double links and a single one; of these only two leave the other four whole.
  EXPECT_THAT(chosen({.count = 4}), ElementsAre(0, 1, 2, 3));
  // Three of 0 to 3 have a ring of single links; with any of the others there is a hop over the CPUs.
  const auto three = chosen({.count = 3});
  ASSERT_EQ(three.size(), 3U);
  EXPECT_TRUE(three.back() < 4 || three.front() >= 4) << three[0] << three[1] << three[2];
}

TEST_F(Wiring, ASingleGpuIsTakenWhereItIsMissedLeast) {
  for (const auto& [a, b] : {std::pair{0U, 1U}, {0U, 2U}, {1U, 2U}}) link(a, b, 4);
  for (std::uint32_t a = 0; a < 3; ++a) link(a, 3, 0);
  EXPECT_THAT(chosen({.count = 1}), ElementsAre(3));
  EXPECT_THAT(chosen({.count = 3}), ElementsAre(0, 1, 2));
}

TEST_F(Wiring, WhereLinksAreAlikeNumaNodesAndThenCoolnessDecide) {
  for (std::uint32_t a = 0; a < 4; ++a) {
    for (std::uint32_t b = a + 1; b < 4; ++b) link(a, b, 2);
  }
  for (const std::uint32_t index : {0U, 3U}) snapshot_.gpus[index].gpu.numa_node = 0;
  for (const std::uint32_t index : {1U, 2U}) snapshot_.gpus[index].gpu.numa_node = 1;
  EXPECT_THAT(chosen({.count = 2}), ElementsAre(0, 3));
  for (facts::GpuRecord& record : snapshot_.gpus) record.sample.temperature = Celsius(40);
  snapshot_.gpus[3].sample.temperature = Celsius(75);
  EXPECT_THAT(chosen({.count = 2}), ElementsAre(1, 2));
}

TEST_F(Wiring, NearerNetworkAdaptersCountBeforeCoolness) {
  for (std::uint32_t a = 0; a < 4; ++a) {
    for (std::uint32_t b = a + 1; b < 4; ++b) link(a, b, 2);
  }
  for (facts::GpuRecord& record : snapshot_.gpus) record.gpu.numa_node = 0;
  facts::Nic nic{.name = "mlx5_0"};
  for (std::uint32_t gpu = 0; gpu < 4; ++gpu)
    nic.distances.push_back({GpuIndex{gpu}, gpu == 2 ? LinkLevel::single_switch : LinkLevel::system});
  snapshot_.nics.push_back(nic);
  EXPECT_THAT(chosen({.count = 1}), ElementsAre(2));
}

TEST_F(Wiring, LinksThatAreMissingOrOneSidedAreNoObstacle) {
  link(1, 0, 2);
  link(0, 1, 1);
  EXPECT_THAT(chosen({.count = 2}), ElementsAre(0, 1));
  snapshot_.links->clear();
  EXPECT_THAT(chosen({.count = 2}), ElementsAre(0, 1));
  snapshot_.links.reset();
  EXPECT_THAT(chosen({.count = 2}), ElementsAre(0, 1));
}

TEST_F(Wiring, OfManyAlikeTheNeighbourhoodsAreTried) {
  // Nine islands of four, of which the last alone has double links.
  snapshot_ = testing::fleet(36);
  for (std::uint32_t island = 0; island < 9; ++island) {
    for (std::uint32_t a = 0; a < 4; ++a) {
      for (std::uint32_t b = a + 1; b < 4; ++b) link(4 * island + a, 4 * island + b, island == 8 ? 2 : 1);
    }
  }
  EXPECT_THAT(chosen({.count = 4}), ElementsAre(32, 33, 34, 35));
}

}  // namespace
}  // namespace gpuwarden::placement
