// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/out_of_memory.hpp"

#include <gtest/gtest.h>

namespace gpuwarden::diagnosis {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr std::int64_t kMiB = std::int64_t{1} << 20;

Facts message(std::int64_t tried, std::int64_t total, std::int64_t free, std::int64_t allocated,
              std::int64_t unallocated) {
  return {{"tried_bytes", tried},
          {"total_bytes", total},
          {"free_bytes", free},
          {"allocated_bytes", allocated},
          {"reserved_unallocated_bytes", unallocated}};
}

std::string cause_of(const Facts& facts) {
  const auto verdict = judge_memory(facts);
  return verdict ? verdict->cause : "";
}

TEST(OutOfMemory, AProcessThatFillsTheGpuNeedsALargerOne) {
  Facts facts = message(2 * kGiB, 80 * kGiB, kGiB, 77 * kGiB, kGiB / 2);
  facts["this_process_bytes"] = 79 * kGiB;
  EXPECT_EQ(cause_of(facts), "oom_capacity");
}

TEST(OutOfMemory, WhatIsReservedButUnallocatedAndWouldHaveSufficedIsFragmentation) {
  Facts facts = message(2 * kGiB, 80 * kGiB, 400 * kMiB, 69 * kGiB, 9 * kGiB);
  facts["this_process_bytes"] = 79 * kGiB;
  const auto verdict = judge_memory(facts);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->cause, "oom_fragmentation");
  EXPECT_EQ(verdict->reason, "2 GiB were asked for, 9 GiB are reserved but unallocated");
}

TEST(OutOfMemory, TheUsualLeftoversOfACacheAreNoFragmentation) {
  EXPECT_EQ(cause_of(message(170 * kMiB, 80 * kGiB, 140 * kMiB, 78 * kGiB, 800 * kMiB)), "oom_capacity");
}

TEST(OutOfMemory, ANamedForeignProcessFillsTheGpu) {
  Facts facts = message(112 * kMiB, 44 * kGiB, 78 * kMiB, 4 * kGiB, 16 * kMiB);
  facts["this_process_bytes"] = 4 * kGiB + 100 * kMiB;
  facts["processes"] = std::vector<ProcessMemory>{{535, 40 * kGiB}};
  EXPECT_EQ(cause_of(facts), "oom_other_process");
}

TEST(OutOfMemory, InAContainerTheNamedProcessMayBeOneself) {
  Facts facts = message(3 * kGiB, 80 * kGiB, 2 * kGiB, 73 * kGiB, 300 * kMiB);
  facts["processes"] = std::vector<ProcessMemory>{{679812, 77 * kGiB}};
  EXPECT_EQ(cause_of(facts), "oom_capacity");
}

TEST(OutOfMemory, WhatNobodyIsNamedForIsHeldByOthers) {
  Facts facts{{"tried_bytes", 128 * kMiB},
              {"total_bytes", 4 * kGiB},
              {"free_bytes", 44 * kMiB},
              {"allocated_bytes", 3200 * kMiB},
              {"reserved_bytes", 3300 * kMiB}};
  EXPECT_EQ(cause_of(facts), "oom_capacity") << "a context and libraries take some, too";
  facts["reserved_bytes"] = 900 * kMiB;
  facts["allocated_bytes"] = 800 * kMiB;
  EXPECT_EQ(cause_of(facts), "oom_other_process");
}

TEST(OutOfMemory, ARequestBeyondTheWholeGpuFitsNowhere) {
  Facts facts = message(350 * kGiB, 80 * kGiB, 70 * kGiB, 4 * kGiB, kGiB);
  facts["processes"] = std::vector<ProcessMemory>{{1, 40 * kGiB}};
  EXPECT_EQ(cause_of(facts), "oom_capacity");
}

TEST(OutOfMemory, NumbersThatTellNothingGiveNoVerdict) {
  EXPECT_FALSE(judge_memory({}));
  EXPECT_FALSE(judge_memory({{"tried_bytes", 2 * kGiB}}));
  EXPECT_FALSE(judge_memory({{"tried_bytes", std::string("many")}}));
}

}  // namespace
}  // namespace gpuwarden::diagnosis
