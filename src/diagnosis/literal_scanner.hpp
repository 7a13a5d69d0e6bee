// SPDX-License-Identifier: Apache-2.0
// Finds where any of hundreds of literals stands in a text, at gigabytes a second where few of them do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace gpuwarden::diagnosis {

/// ASCII case does not count; other bytes, line ends and NUL too, stand for themselves. Immutable: any number of
/// threads may use one scanner.
///
/// Only every few bytes of the text are looked at: a literal of n bytes that stands there has one of its n - 3
/// four-byte windows at one of any n - 3 successive places. So the windows that begin a stride apart are hashed and
/// looked up in a small table; what is in it is compared in full. No text can make that slow beyond (places) x
/// (literals that share the window there, widest_bucket() at most) x (a comparison of longest() bytes at most).
class LiteralScanner {
 public:
  /// Lower case (others are made so). They are fast from 6 bytes on; those below cost a second look at the text. An
  /// empty one is never found.
  explicit LiteralScanner(const std::vector<std::string>& literals);

  /// Calls hit(begin, index of the literal) for every occurrence, by position and then by index. Takes memory for the
  /// occurrences in a few KiB of the text.
  template <class F>
  void scan(std::string_view text, F&& hit) const {
    using Function = std::remove_reference_t<F>;
    scan_with(text, {[](void* function, std::size_t begin, std::uint32_t literal) {
                       (*static_cast<Function*>(function))(begin, literal);
                     },
                     const_cast<void*>(static_cast<const void*>(&hit))});
  }

  std::size_t size() const { return patterns_.size(); }
  std::size_t longest() const { return longest_; }  ///< bytes; 0 without literals
  std::size_t length(std::uint32_t literal) const { return patterns_[literal].length; }
  std::size_t widest_bucket() const;

 private:
  struct Callback {
    void (*call)(void*, std::size_t, std::uint32_t);
    void* function;
  };
  struct Hit {
    std::size_t begin;
    std::uint32_t literal;
    auto operator<=>(const Hit&) const = default;
  };
  /// text | fold == bytes, byte for byte, is equality without ASCII case: fold has 0x20 where the literal has a letter.
  struct Pattern {
    std::size_t at = 0;  ///< where its bytes begin in bytes_ and fold_
    std::size_t length = 0;
  };
  /// A window of a literal, with what follows it there, eight bytes in all: they tell most false alarms.
  struct Window {
    std::uint64_t word = 0;  ///< folded
    std::uint32_t literal = 0;
    std::uint32_t known : 4 = 0;    ///< how many of the word's bytes are the literal's
    std::uint32_t offset : 28 = 0;  ///< of the window in the literal
  };
  /// Literals that are looked for with the same window and stride.
  struct Sieve {
    std::uint32_t mask = 0;  ///< which bytes of a loaded word the window has
    std::size_t window = 0;
    std::size_t stride = 0;
    int table_shift = 0;
    std::vector<std::uint32_t> table;    ///< by hash of a window: a bit for each hash of the two bytes after it
    std::vector<std::uint32_t> ranks;    ///< by hash of a window: how many bits are set before those of its own
    std::vector<std::uint32_t> buckets;  ///< by the number of a set bit: where its windows begin in `windows`
    std::vector<Window> windows;         ///< one that may be followed by anything stands in several buckets
  };
  class Builder;

  static std::size_t bucket_of(const Sieve& sieve, std::size_t slot, unsigned follower);

  void scan_with(std::string_view text, Callback callback) const;
  /// Looks at the places from `place` up to `end`; returns the first place that is left.
  std::size_t sift(const Sieve& sieve, std::string_view text, std::size_t place, std::size_t end,
                   std::vector<Hit>& hits) const;
  void verify(const Sieve& sieve, std::string_view text, std::size_t place, std::vector<Hit>& hits) const;
  bool equal(const char* text, const Pattern& pattern) const;

  std::vector<Pattern> patterns_;
  std::string bytes_;
  std::string fold_;
  std::vector<Sieve> sieves_;
  std::size_t longest_ = 0;
  std::size_t reach_ = 0;  ///< how far before a place an occurrence found there may begin
};

}  // namespace gpuwarden::diagnosis
