// SPDX-License-Identifier: Apache-2.0
// A text read through the front door, as the tests of several formats want it.
#pragma once

#include "gpuwarden/capture/capture.hpp"
#include "support/matchers.hpp"

namespace gpuwarden::capture {

/// The facts in a text of any kind; a failed expectation, and no facts, where it cannot be read.
inline facts::Snapshot snapshot_of(std::string_view text) {
  const auto capture = read_capture(text, "test");
  EXPECT_THAT(capture, testing::IsOk()) << text;
  return capture ? capture->snapshot : facts::Snapshot{};
}

}  // namespace gpuwarden::capture
