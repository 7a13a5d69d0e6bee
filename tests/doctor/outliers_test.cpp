// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/doctor/outliers.hpp"

#include <fmt/format.h>

#include "support/fleet_builder.hpp"

namespace gpuwarden::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Nodes of four GPUs at 40 C, on one driver.
std::vector<NamedMachine> alike_nodes(std::size_t count) {
  std::vector<NamedMachine> machines;
  for (std::size_t i = 0; i < count; ++i) {
    NamedMachine machine{fmt::format("gn{}", i), testing::fleet(4)};
    machine.snapshot.driver_version = "550.54.15";
    for (auto& record : machine.snapshot.gpus) {
      record.sample.temperature = Celsius(40);
      record.sample.clock_sm = Megahertz(1980);
      record.sample.pcie_generation = Count(5);
      record.sample.pcie_width = Count(16);
    }
    machines.push_back(std::move(machine));
  }
  return machines;
}

void work(std::vector<NamedMachine>& machines) {
  for (auto& machine : machines) {
    for (auto& record : machine.snapshot.gpus) record.sample.utilization_gpu = Percent(99);
  }
}

TEST(Outliers, NodesThatAreAlikeHaveNone) {
  EXPECT_THAT(outliers(alike_nodes(4)), IsEmpty());
  EXPECT_THAT(outliers({}), IsEmpty());
}

TEST(Outliers, AnotherDriverAndANarrowLinkAreNamed) {
  auto nodes = alike_nodes(3);
  nodes[1].snapshot.driver_version = "535.54.03";
  nodes[2].snapshot.gpus[3].sample.pcie_width = Count(8);
  EXPECT_THAT(outliers(nodes), ElementsAre(Outlier{"gn1", "driver", "535.54.03", "550.54.15"},
                                           Outlier{"gn2", "GPU 3 PCIe lanes", "x8", "x16"}));
}

TEST(Outliers, OfTwoNodesNeitherIsTheOddOne) {
  auto nodes = alike_nodes(2);
  nodes[1].snapshot.driver_version = "535.54.03";
  EXPECT_THAT(outliers(nodes), IsEmpty());
}

TEST(Outliers, AHotGpuIsNamedAndAWarmOneIsNot) {
  auto nodes = alike_nodes(2);
  nodes[0].snapshot.gpus[0].sample.temperature = Celsius(54);
  EXPECT_THAT(outliers(nodes), IsEmpty());
  nodes[0].snapshot.gpus[0].sample.temperature = Celsius(55);
  EXPECT_THAT(outliers(nodes), ElementsAre(Outlier{"gn0", "GPU 0 temperature", "55 C", "40 C"}));
}

TEST(Outliers, OfTwoHalvesThatDifferALittleNeitherIsOdd) {
  auto nodes = alike_nodes(1);
  auto& gpus = nodes[0].snapshot.gpus;
  for (std::size_t i = 0; i < gpus.size(); ++i) gpus[i].sample.temperature = Celsius(i < 2 ? 60 : 80);
  EXPECT_THAT(outliers(nodes), IsEmpty()) << "10 C from the middle, which is 70 C";
  for (std::size_t i = 0; i < gpus.size(); ++i) gpus[i].sample.temperature = Celsius(i < 2 ? 40 : 80);
  EXPECT_THAT(outliers(nodes), ElementsAre(Outlier{"gn0", "GPU 2 temperature", "80 C", "60 C"},
                                           Outlier{"gn0", "GPU 3 temperature", "80 C", "60 C"}));
}

TEST(Outliers, ClocksAndLinksCountOnlyAtWork) {
  auto nodes = alike_nodes(2);
  nodes[1].snapshot.gpus[2].sample.clock_sm = Megahertz(345);
  nodes[1].snapshot.gpus[1].sample.pcie_generation = Count(1);
  EXPECT_THAT(outliers(nodes), IsEmpty()) << "idle ones rest as they like";
  work(nodes);
  EXPECT_THAT(outliers(nodes), ElementsAre(Outlier{"gn1", "GPU 2 SM clock", "345 MHz", "1980 MHz"},
                                           Outlier{"gn1", "GPU 1 PCIe generation", "1", "5"}));
}

TEST(Outliers, BusyAndIdleGpusAreNoPeers) {
  auto nodes = alike_nodes(2);
  auto& busy = nodes[0].snapshot.gpus[0].sample;
  busy.utilization_gpu = Percent(99);
  busy.temperature = Celsius(75);
  EXPECT_THAT(outliers(nodes), IsEmpty()) << "one that works alone has nobody to be compared with";
}

TEST(Outliers, WhatIsNotToldStandsApartFromNothing) {
  auto nodes = alike_nodes(3);
  nodes[2].snapshot.driver_version.reset();
  nodes[2].snapshot.gpus[0].sample.temperature.reset();
  EXPECT_THAT(outliers(nodes), IsEmpty());
}

}  // namespace
}  // namespace gpuwarden::doctor
