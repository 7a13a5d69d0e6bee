// SPDX-License-Identifier: Apache-2.0
// Matchers for Result: EXPECT_THAT(f(), IsOk()), IsOkAnd(matcher), FailsWith(code, message matcher).
#pragma once

#include <gmock/gmock.h>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::testing {

MATCHER(IsOk, "holds a value") {
  if (arg.has_value()) return true;
  *result_listener << "fails with: " << arg.error().message;
  return false;
}

MATCHER_P(IsOkAnd, inner, "holds a value that matches") {
  if (!arg.has_value()) {
    *result_listener << "fails with: " << arg.error().message;
    return false;
  }
  return ::testing::ExplainMatchResult(inner, arg.value(), result_listener);
}

MATCHER_P2(FailsWith, code, message, "fails with a code and a message that match") {
  if (arg.has_value()) {
    *result_listener << "holds a value";
    return false;
  }
  *result_listener << "fails with " << to_string(arg.error().code) << ": " << arg.error().message;
  return arg.error().code == code && ::testing::ExplainMatchResult(message, arg.error().message, result_listener);
}

}  // namespace gpuwarden::testing
