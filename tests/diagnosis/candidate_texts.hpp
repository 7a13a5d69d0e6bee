// SPDX-License-Identifier: Apache-2.0
// Random logs, and a reader of candidate lines that has the whole text at hand.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuwarden::diagnosis {

/// A candidate with copies of what it shows.
struct Found {
  std::uint64_t number = 0;
  std::string line;
  bool whole = true;
  std::vector<std::uint32_t> literals;
  std::vector<std::string> before;
  std::vector<std::string> after;
  bool operator==(const Found&) const = default;
};

struct Report {
  std::vector<Found> found;
  std::uint64_t lines = 0;
  std::uint64_t bytes = 0;
  bool operator==(const Report&) const = default;
};

/// What CandidateReader finds; `next` tells the size of the next piece from what is left.
Report read_in_pieces(const std::vector<std::string>& literals, std::string_view text,
                      const std::function<std::size_t(std::size_t)>& next, bool neighbours = true);

/// What it should find, by searching the text as a whole. For texts in UTF-8 without a mark.
Report read_simply(const std::vector<std::string>& literals, std::string_view text);

/// Lines of all lengths, from none to 100 KB, with line ends of all kinds, with literals in some of them.
std::string random_log(const std::vector<std::string>& literals, unsigned seed, std::size_t size);

/// With a byte order mark.
std::string utf16(std::u16string_view text, bool little);

}  // namespace gpuwarden::diagnosis
