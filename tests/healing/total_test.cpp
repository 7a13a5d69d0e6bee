// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/healing/total.hpp"

#include <gtest/gtest.h>

namespace gpuwarden::healing {
namespace {

using namespace std::chrono_literals;

launch::RunReport lasting(std::chrono::milliseconds time, std::optional<double> joules) {
  launch::RunReport report;
  report.end.wall_time = time;
  report.gpus.push_back({.energy_joules = joules});
  return report;
}

TEST(Total, AddsUpTimeAtWorkAndEnergyAndHasThePauses) {
  Total total;
  add(total, lasting(2s, 100.0), 2s);
  add(total, lasting(3s, 50.0), 7s);
  EXPECT_EQ(total.tries, 2U);
  EXPECT_EQ(total.run_time, 5s);
  EXPECT_EQ(total.wall_time, 7s);
  EXPECT_EQ(total.energy_joules, 150.0);
  EXPECT_FALSE(total.energy_is_estimate);
}

TEST(Total, EnergyThatOneTryDoesNotTellMakesAnEstimateOfIt) {
  Total total;
  add(total, lasting(1ms, std::nullopt), 1ms);
  EXPECT_EQ(total.energy_joules, std::nullopt);
  add(total, lasting(3s, 50.0), 4s);
  EXPECT_EQ(total.energy_joules, 50.0);
  EXPECT_TRUE(total.energy_is_estimate);
}

}  // namespace
}  // namespace gpuwarden::healing
