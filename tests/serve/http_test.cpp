// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/serve/http.hpp"

#include <gtest/gtest.h>

#include "support/matchers.hpp"

namespace gpuwarden::serve {
namespace {

using testing::FailsWith;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(HttpTarget, IsTakenApartAndDecoded) {
  const auto target = parse_target("/api/v1/history?gpu=GPU-1%2F2&metric=power+draw&empty=&flag#there");
  ASSERT_TRUE(target.has_value());
  EXPECT_EQ(target->path, "/api/v1/history");
  EXPECT_THAT(target->query, ::testing::ElementsAre(Pair("gpu", "GPU-1/2"), Pair("metric", "power draw"),
                                                    Pair("empty", ""), Pair("flag", "")));
}

TEST(HttpTarget, APlusInAPathIsAPlus) { EXPECT_EQ(parse_target("/a+b")->path, "/a+b"); }

TEST(HttpTarget, WhatNoClientMeansIsRefused) {
  for (const char* bad : {"", "x", "http://h/x", "/%", "/%4", "/%zz", "/%00", "/a%0ab", "/a\tb", "/a?x=%", "/../etc",
                          "/a/../b", "/%2e%2e/etc", "/a/%2e%2e"}) {
    EXPECT_FALSE(parse_target(bad).has_value()) << bad;
  }
  EXPECT_THAT(parse_target("/" + std::string(kLongestTarget, 'a')),
              FailsWith(ErrorCode::invalid_argument, HasSubstr("longer than 4096 bytes")));
  EXPECT_TRUE(parse_target("/" + std::string(kLongestTarget - 1, 'a')).has_value());
}

TEST(HttpMoment, IsSecondsADateOrATimeAgo) {
  const std::chrono::system_clock::time_point now(std::chrono::seconds(1'700'000'000));
  const auto seconds = [&](const char* text) {
    const auto moment = parse_moment(text, now);
    EXPECT_TRUE(moment.has_value()) << text;
    return moment ? std::chrono::duration<double>(moment->time_since_epoch()).count() : -1;
  };
  EXPECT_DOUBLE_EQ(seconds("1699999000.5"), 1699999000.5);
  EXPECT_DOUBLE_EQ(seconds("2023-11-14T22:13:20Z"), 1'700'000'000);
  EXPECT_DOUBLE_EQ(seconds("2023-11-14T22:13:20.250Z"), 1'700'000'000.25);
  EXPECT_DOUBLE_EQ(seconds("-15m"), 1'700'000'000 - 900);
  EXPECT_DOUBLE_EQ(seconds("now"), 1'700'000'000);
  for (const char* bad : {"", "yesterday", "-", "-x", "1e300", "2023-13-01T00:00:00Z", "9999-01-01T00:00:00Z",
                          "2023-02-30T00:00:00Z", "nan"})
    EXPECT_FALSE(parse_moment(bad, now).has_value()) << bad;
}

TEST(HttpStatus, FollowsFromTheErrorsCode) {
  EXPECT_EQ(status_of(ErrorCode::invalid_argument), 400);
  EXPECT_EQ(status_of(ErrorCode::permission_denied), 403);
  EXPECT_EQ(status_of(ErrorCode::not_found), 404);
  EXPECT_EQ(status_of(ErrorCode::unavailable), 503);
  EXPECT_EQ(status_of(ErrorCode::failed), 500);
}

}  // namespace
}  // namespace gpuwarden::serve
