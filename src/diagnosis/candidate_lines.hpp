// SPDX-License-Identifier: Apache-2.0
// Finds the lines of a log in which literals stand, in one pass and in memory that does not grow with the log.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "diagnosis/literal_scanner.hpp"
#include "diagnosis/text_decoder.hpp"

namespace gpuwarden::diagnosis {

/// Of a longer line, stretches of at most so many bytes are given.
inline constexpr std::size_t kLongestLine = std::size_t{16} << 10;
/// A stretch begins so many bytes before its first literal, unless the line, or what a '\r' or a NUL begins, does.
inline constexpr std::size_t kStretchLead = std::size_t{4} << 10;
inline constexpr std::size_t kMostBefore = 3;
inline constexpr std::size_t kMostAfter = 120;
/// Lines before and after are cut to so many bytes, and not looked for further away than these.
inline constexpr std::size_t kLongestNeighbour = std::size_t{4} << 10;
inline constexpr std::size_t kLookBehind = std::size_t{64} << 10;
inline constexpr std::size_t kLookAhead = std::size_t{192} << 10;

/// A line in which literals stand, and what is around it. All views are valid until the callback returns.
class Candidate {
 public:
  std::uint64_t number = 0;  ///< of the line, from 1; stretches of one line share it
  std::string_view line;     ///< without its end ('\n' and any '\r' before it); a stretch of it if it is longer
  bool whole = true;         ///< not only a stretch of the line
  std::span<const std::uint32_t> literals;  ///< those that begin in it (in a stretch: stand in it), sorted, each once

  /// The up to `count` (kMostBefore) lines before it, nearest first. They are looked for when asked for.
  std::span<const std::string_view> before(std::size_t count = kMostBefore) const;
  /// The up to `count` (kMostAfter) lines after it, in order.
  std::span<const std::string_view> after(std::size_t count = kMostAfter) const;

 private:
  friend class CandidateReader;
  /// What is known of the text around; without `begins` (`ends`) it goes on before (after) that.
  std::string_view around_;
  std::size_t begin_ = 0;  ///< of the line in it
  std::size_t end_ = 0;    ///< of the line in it, with any '\r'
  bool begins_ = false;
  bool ends_ = false;
  mutable std::array<std::string_view, kMostBefore> before_{};
  mutable std::array<std::string_view, kMostAfter> after_{};
};

/// Fed with a log piece by piece. What it finds depends on the text alone, not on how that was cut into pieces; when
/// it is found does: up to 1.4 MiB of text wait for more, or for the end. NUL is a byte like others, a '\r' within a
/// line does not end it, UTF-16 with a byte order mark is read as UTF-8, an UTF-8 mark is left out.
class CandidateReader {
 public:
  /// `scanner` has to outlive it. `found` is called from feed() and finish(), line by line.
  CandidateReader(const LiteralScanner& scanner, std::function<void(const Candidate&)> found);

  void feed(std::string_view piece);
  void finish();

  std::uint64_t lines() const { return lines_; }  ///< of the whole text, after finish()
  std::uint64_t bytes() const { return bytes_; }  ///< as they were fed

 private:
  /// A line, or a part of a long one, whose literals are still being gathered. Places in the buffer.
  struct Stretch {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::uint64_t number = 0;
    bool whole = false;
  };

  std::string_view text(std::size_t begin, std::size_t end) const { return {buffer_.get() + begin, end - begin}; }
  void append(std::string_view text);
  void process(bool at_end);
  void slide(std::size_t limit);
  void hit(std::size_t place, std::uint32_t literal);
  void open(std::size_t place);
  Stretch stretch_around(std::size_t place) const;
  void close();
  void gather(std::uint32_t literal);
  void count_lines(std::size_t until);

  const LiteralScanner& scanner_;
  std::function<void(const Candidate&)> found_;
  TextDecoder decoder_;
  std::size_t capacity_;
  std::unique_ptr<char[]> buffer_;
  std::size_t size_ = 0;
  bool from_start_ = true;   ///< the buffer holds the text from its beginning
  bool to_end_ = false;      ///< and to its end
  std::size_t scanned_ = 0;  ///< literals that begin before it are dealt with
  std::size_t counted_ = 0;  ///< so far the line ends are counted
  std::uint64_t lines_ = 0;
  std::uint64_t bytes_ = 0;
  bool is_open_ = false;
  Stretch open_;
  std::vector<std::uint32_t> literals_;  ///< of the open stretch
  std::vector<bool> gathered_;           ///< by literal: whether it is among them
};

}  // namespace gpuwarden::diagnosis
