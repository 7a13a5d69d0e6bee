// SPDX-License-Identifier: Apache-2.0
// A recording as one HTML file that needs nothing else: memory over time, and where each block lay.
#pragma once

#include <string>
#include <vector>

#include "gpuwarden/memtrace/record.hpp"

namespace gpuwarden::memtrace {

struct TimelineText {
  std::string title;
  std::vector<std::string> notes;  ///< paragraphs above the pictures
};

/// At most so many blocks are drawn one by one: those that held most bytes for longest. The others are counted in the
/// curve, and the page says how many they are.
inline constexpr std::size_t kBlocksDrawn = 60'000;

/// A page of about 40 bytes a block. The texts may hold anything.
std::string timeline_html(const Recording& recording, const TimelineText& text);

}  // namespace gpuwarden::memtrace
