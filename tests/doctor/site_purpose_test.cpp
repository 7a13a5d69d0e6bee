// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/doctor/site_purpose.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/matchers.hpp"

namespace gpuwarden::doctor {
namespace {

using testing::IsOk;

TEST(SitePurpose, WhatARuleCallsAWorkloadIsAPurpose) {
  const auto knowledge = knowledge::Knowledge::built_in().with_overlay(
      "rules: [{id: ours, workload: our-model, driver: {required: 570.86}}]\n", "site.yaml");
  ASSERT_THAT(knowledge, IsOk());
  const auto purpose = read_purpose("Our-Model v2", *knowledge);
  ASSERT_THAT(purpose, IsOk());
  EXPECT_EQ(purpose->text, "Our-Model v2");
  EXPECT_FALSE(purpose->package || purpose->architecture || purpose->work);
  EXPECT_FALSE(read_purpose("our-model", knowledge::Knowledge::built_in())) << "nobody knows it elsewhere";
  EXPECT_TRUE(read_purpose("vllm", *knowledge)->package) << "what everybody knows stays what it is";
}

}  // namespace
}  // namespace gpuwarden::doctor
