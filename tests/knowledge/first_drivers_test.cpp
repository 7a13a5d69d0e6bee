// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/knowledge/first_drivers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "gpuwarden/knowledge/advice.hpp"
#include "known.hpp"

namespace gpuwarden::knowledge {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(FirstDrivers, AProductCameLaterThanItsGeneration) {
  const FirstDrivers h200 = first_drivers_of(*find_gpu_model("NVIDIA H200"));
  EXPECT_THAT(h200.source, HasSubstr("open-gpu-kernel-modules"));
  EXPECT_FALSE(h200.serve({535, 183, 1}));
  EXPECT_FALSE(h200.serve({550, 54, 15}));
  EXPECT_TRUE(h200.serve({550, 90, 7}));
  EXPECT_TRUE(h200.serve({560, 28, 3}));
  EXPECT_FALSE(first_drivers_of("NVIDIA GeForce RTX 4060 Laptop GPU MIG 1g", 520).releases.empty());
}

TEST(FirstDrivers, EachBranchHasItsOwn) {
  const FirstDrivers one = first_drivers_of("NVIDIA GeForce RTX 4060", 520);
  EXPECT_TRUE(one.serve({525, 147, 5}));
  EXPECT_FALSE(one.serve({520, 56, 6}));
  EXPECT_FALSE(one.serve({535, 54, 3})) << "newer than 525.147.05, and older than the card";
  EXPECT_TRUE(one.serve({535, 86, 5}));
  EXPECT_TRUE(one.serve({536, 40})) << "Windows' number";
  EXPECT_EQ(text_of(one), "branch 525 (R535: 535.86.05)");
}

TEST(FirstDrivers, AnInstalledBranchIsToldOfItsOwnRelease) {
  const FirstDrivers one = first_drivers_of("NVIDIA GeForce RTX 4060", 520);
  EXPECT_EQ(one.of_branch(535), (Version{535, 86, 5}));
  EXPECT_EQ(one.of_branch(545), Version{525}) << "nothing is said of that branch";
  EXPECT_EQ(text_of(one, 535), "535.86.05 of R535");
  EXPECT_EQ(text_of(one, 525), "branch 525");
  EXPECT_EQ(text_of(one, 520), "branch 525 (R535: 535.86.05)");
  EXPECT_EQ(text_of(first_drivers_of("NVIDIA H200", 520), 550), "550.90.07 of R550");
}

TEST(FirstDrivers, OthersHaveTheirGenerations) {
  const FirstDrivers a2 = first_drivers_of(*find_gpu_model("NVIDIA A2"));
  EXPECT_TRUE(a2.source.empty());
  EXPECT_EQ(text_of(a2), "branch 455");
  EXPECT_TRUE(a2.serve({455}));
  EXPECT_FALSE(a2.serve({450, 80, 2}));
  EXPECT_TRUE(first_drivers_of("NVIDIA Z9000", 0).serve({304})) << "nothing is known";
}

TEST(FirstDrivers, WhatMigNeedsIsNotWhatTheGpuNeeds) {
  for (const GpuModel& model : gpu_models())
    EXPECT_THAT(first_drivers_of(model).source, Not(AnyOf(HasSubstr("MIG"), HasSubstr("Multi-Instance"))))
        << model.name;
  EXPECT_EQ(text_of(first_drivers_of(*find_gpu_model("NVIDIA RTX PRO 6000 Blackwell Server Edition"))), "branch 570");
}

TEST(FirstDrivers, ASitesLaterBranchStands) {
  EXPECT_EQ(first_drivers_of("NVIDIA H200", 570).lowest(), Version{570});
  EXPECT_EQ(first_drivers_of("NVIDIA H200", 520).lowest(), (Version{550, 90, 7}));
}

TEST(FirstDrivers, NoneIsBeforeItsGeneration) {
  for (const GpuModel& model : gpu_models()) {
    const FirstDrivers first = first_drivers_of(model);
    EXPECT_GE(first.lowest().major, model.first_driver_branch) << model.name;
    EXPECT_TRUE(std::ranges::is_sorted(first.releases)) << model.name;
  }
}

TEST(FirstDrivers, AdviceStandsOnThem) {
  const DriverNeeds needs = driver_needs(known(), *find_gpu_model("NVIDIA GeForce RTX 4060"), {}, "", {});
  EXPECT_EQ(needs.minimum, Version{525});
  EXPECT_EQ(standing_of(needs, {535, 54, 3}), DriverStanding::below_minimum);
}

}  // namespace
}  // namespace gpuwarden::knowledge
