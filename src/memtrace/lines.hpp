// SPDX-License-Identifier: Apache-2.0
// Lines and cells of a CSV file, and numbers in them.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gpuwarden::memtrace {

/// The lines of a text, without their ends; empty ones are left out.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}

  std::optional<std::string_view> next() {
    while (at_ < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string_view line = text_.substr(at_, end - at_);
      at_ = end + 1;
      ++number_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty()) return line;
    }
    return std::nullopt;
  }
  /// Of the line that came last, from 1 on.
  std::size_t number() const { return number_; }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t number_ = 0;
};

/// The cells of one line; there is no quoting in these formats.
struct Cells {
  static constexpr std::size_t kMost = 16;
  std::array<std::string_view, kMost> cells;
  std::size_t count = 0;  ///< kMost + 1: more than that

  explicit Cells(std::string_view line) {
    for (;;) {
      const std::size_t comma = line.find(',');
      if (count == kMost) {
        ++count;
        return;
      }
      cells[count++] = line.substr(0, comma);
      if (comma == std::string_view::npos) return;
      line.remove_prefix(comma + 1);
    }
  }
};

/// All of the text as a number of this base; "0x" is allowed before digits of base 16.
inline std::optional<std::uint64_t> whole_number(std::string_view text, int base = 10) {
  if (base == 16 && (text.starts_with("0x") || text.starts_with("0X"))) text.remove_prefix(2);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace gpuwarden::memtrace
