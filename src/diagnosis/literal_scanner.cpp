// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/literal_scanner.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <tuple>
#include <utility>

#include "diagnosis/common_words.hpp"
#include "diagnosis/letter_pairs.hpp"

namespace gpuwarden::diagnosis {

namespace {

constexpr std::uint64_t kFold = 0x2020202020202020;
/// What is loaded at a place: a window and the bytes that follow it.
constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kLongestWindow = 4;
/// Of the bytes after a window, two are looked at as well where the literal goes on.
constexpr std::size_t kFollowers = 2;
/// Literals below it are sifted apart, so that they do not shorten the stride of all others.
constexpr std::size_t kLong = 6;
constexpr std::size_t kLongestStride = 8;
/// So much text is sifted before its hits are handed on: it stays in the first-level cache.
constexpr std::size_t kChunk = std::size_t{8} << 10;
/// How many literals may share a window before another, less rare one is preferred.
constexpr std::uint32_t kCrowded = 8;

/// The first byte is the lowest.
std::uint64_t load(const char* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return std::endian::native == std::endian::little ? word : std::byteswap(word);
}

/// Up to eight bytes, zeros behind them.
std::uint64_t load(std::string_view bytes) {
  if (bytes.size() >= kWord) return load(&bytes.front());
  std::array<char, kWord> word{};
  bytes.copy(word.data(), word.size());
  return load(word.data());
}

std::uint64_t first_bytes(std::size_t count) {
  return count >= kWord ? ~std::uint64_t{0} : (std::uint64_t{1} << 8 * count) - 1;
}

std::uint32_t hash(std::uint32_t block) { return block * 0x9E3779B1U; }

/// A number below 32 from two bytes.
unsigned follower_hash(std::uint64_t followers) { return static_cast<unsigned>((followers ^ followers >> 7) & 31); }

bool is_letter(char c) { return c >= 'a' && c <= 'z'; }

/// The windows of common words with a blank on either side, by hash: others may be taken for one of them.
class CommonWindows {
 public:
  CommonWindows() {
    const std::string words = " " + std::string(kCommonWords) + " ";
    for (std::size_t i = 0; i + kLongestWindow <= words.size(); ++i) {
      const std::string_view window = std::string_view(words).substr(i, kLongestWindow);
      const bool of_two_words = window.find(' ', 1) < kLongestWindow - 1;
      if (!of_two_words) windows_[place(window)] = true;
    }
  }

  bool has(std::string_view window) const { return windows_[place(window)]; }

 private:
  static std::size_t place(std::string_view window) {
    return hash(static_cast<std::uint32_t>(load(window) | kFold)) >> 16;
  }

  std::vector<bool> windows_ = std::vector<bool>(std::size_t{1} << 16);
};

/// Length of the window and the stride for literals of at least `shortest` bytes.
std::pair<std::size_t, std::size_t> window_and_stride(std::size_t shortest) {
  const std::size_t window = std::min(shortest, shortest < kLong ? kLongestWindow - 1 : kLongestWindow);
  return {window, std::min(kLongestStride, shortest - window + 1)};
}

}  // namespace

/// The number of a bit that is set.
std::size_t LiteralScanner::bucket_of(const Sieve& sieve, std::size_t slot, unsigned follower) {
  const std::uint32_t below = (std::uint32_t{1} << follower) - 1;
  return sieve.ranks[slot] + static_cast<std::size_t>(std::popcount(sieve.table[slot] & below));
}

/// Chooses for each literal of a sieve the windows to look for.
class LiteralScanner::Builder {
 public:
  Builder(const LiteralScanner& scanner, std::vector<std::uint32_t> literals)
      : scanner_(scanner), literals_(std::move(literals)) {}

  Sieve build() {
    std::size_t shortest = scanner_.longest();
    for (const std::uint32_t literal : literals_) shortest = std::min(shortest, scanner_.length(literal));
    std::tie(sieve_.window, sieve_.stride) = window_and_stride(shortest);
    sieve_.mask = static_cast<std::uint32_t>(first_bytes(sieve_.window));
    for (const std::uint32_t literal : literals_) choose(literal);
    fill_tables();
    return std::move(sieve_);
  }

 private:
  std::string_view rest(std::uint32_t literal, std::size_t offset) const {
    const Pattern& pattern = scanner_.patterns_[literal];
    return std::string_view(scanner_.bytes_).substr(pattern.at, pattern.length).substr(offset);
  }
  std::uint32_t block(std::uint32_t literal, std::size_t offset) const {
    return static_cast<std::uint32_t>(load(rest(literal, offset)) | kFold) & sieve_.mask;
  }

  std::size_t slot_of(const Window& window) const {
    return hash(static_cast<std::uint32_t>(window.word) & sieve_.mask) >> sieve_.table_shift;
  }

  /// Literals with this window so far, and with others of the same hash.
  std::uint32_t& users(std::uint32_t literal, std::size_t offset) {
    return users_[hash(block(literal, offset)) >> (32 - kUserBits)];
  }

  /// How rare each byte of a literal is after the one before it, and whether a window of a common word ends with it.
  void weigh_bytes(std::string_view literal) {
    static const CommonWindows common;
    constexpr int kNextInWord = 2;
    after_.clear();
    ends_common_.clear();
    for (std::size_t i = 0; i < literal.size(); ++i) {
      const bool ends_common =
          i + 1 >= kLongestWindow && common.has(literal.substr(i + 1 - kLongestWindow, kLongestWindow));
      const int rarity = i == 0 ? 0 : rarity_of_next(literal[i - 1], literal[i]);
      after_.push_back(ends_common ? std::min(rarity, kNextInWord) : rarity);
      ends_common_.push_back(ends_common);
    }
  }

  /// About -log2 of how often one meets a window of the literal in hand, and what follows it up to `end`.
  int rarity_of_window(std::string_view literal, std::size_t offset, std::size_t end) const {
    constexpr int kOfCommonWord = 11;
    const std::size_t last = offset + sieve_.window - 1;
    int rarity = rarity_of(literal[offset]);
    for (std::size_t i = offset + 1; i <= last; ++i) rarity += after_[i];
    if (ends_common_[last]) rarity = std::min(rarity, kOfCommonWord);
    for (std::size_t i = last + 1; i < end; ++i) rarity += after_[i];
    return rarity;
  }

  /// How often one expects to look at a place for each window of a literal, in some unit.
  void expect(std::uint32_t literal) {
    // A slot of the table in which all bits are set is met so rarely; anything may follow such a window.
    constexpr std::array<int, kFollowers + 1> kSlotRarity{21, 17, 16};
    const std::string_view whole = rest(literal, 0);
    weigh_bytes(whole);
    expected_.clear();
    for (std::size_t offset = 0; offset + sieve_.window <= whole.size(); ++offset) {
      const std::size_t full = offset + sieve_.window + kFollowers;
      const std::size_t end = std::min(whole.size(), full);
      const std::uint32_t others = users(literal, offset);
      expected_.push_back(std::ldexp(others > kCrowded ? 1.0 + others : 1.0, -rarity_of_window(whole, offset, end)) +
                          std::ldexp(1.0, -kSlotRarity[full - end]));
    }
  }

  /// As many successive windows as the stride is wide, the least expected ones.
  void choose(std::uint32_t literal) {
    expect(literal);
    std::size_t best = 0;
    double least = 0;
    for (std::size_t first = 0; first + sieve_.stride <= expected_.size(); ++first) {
      double sum = 0;
      for (std::size_t i = 0; i < sieve_.stride; ++i) sum += expected_[first + i];
      if (first == 0 || sum < least) {
        least = sum;
        best = first;
      }
    }
    for (std::size_t i = 0; i < sieve_.stride; ++i) add(literal, best + i);
  }

  void add(std::uint32_t literal, std::size_t offset) {
    const std::size_t known = std::min(rest(literal, offset).size(), kWord);
    chosen_.push_back({.word = (load(rest(literal, offset)) | kFold) & first_bytes(known),
                       .literal = literal,
                       .known = static_cast<std::uint32_t>(known) & 15U,
                       .offset = static_cast<std::uint32_t>(offset) & 0xFFFFFFFU});
    ++users(literal, offset);
  }

  /// Which followers a place may have that is to be looked at for this window.
  std::uint32_t followers(const Window& window) const {
    const std::uint64_t word = window.word >> 8 * sieve_.window;
    if (window.known >= sieve_.window + kFollowers) return std::uint32_t{1} << follower_hash(word & 0xffff);
    if (window.known == sieve_.window) return ~std::uint32_t{0};
    std::uint32_t any = 0;
    // The hash heeds no more of the second.
    for (std::uint64_t second = 0; second < 16; ++second)
      any |= std::uint32_t{1} << follower_hash((word & 0xff) | second << 8);
    return any;
  }

  void fill_tables() {
    const int bits = std::clamp(static_cast<int>(std::bit_width(chosen_.size())) + 1, 10, 16);
    sieve_.table_shift = 32 - bits;
    sieve_.table.assign(std::size_t{1} << bits, 0);
    sieve_.ranks.assign(sieve_.table.size(), 0);
    for (const Window& window : chosen_) sieve_.table[slot_of(window)] |= followers(window);
    std::uint32_t rank = 0;
    for (std::size_t slot = 0; slot < sieve_.table.size(); ++slot) {
      sieve_.ranks[slot] = rank;
      rank += static_cast<std::uint32_t>(std::popcount(sieve_.table[slot]));
    }
    sieve_.buckets.assign(rank + 1, 0);
    for_each_bucket([&](std::size_t bucket, const Window&) { ++sieve_.buckets[bucket]; });
    for (std::size_t i = 1; i < sieve_.buckets.size(); ++i) sieve_.buckets[i] += sieve_.buckets[i - 1];
    sieve_.windows.resize(sieve_.buckets.back());
    // Filled from their ends, buckets are left beginning where their windows do.
    for_each_bucket(
        [&](std::size_t bucket, const Window& window) { sieve_.windows[--sieve_.buckets[bucket]] = window; });
  }

  /// Calls what(bucket, window) for every bucket that a window stands in.
  template <class F>
  void for_each_bucket(F&& what) const {
    for (const Window& window : chosen_) {
      const std::size_t slot = slot_of(window);
      for (std::uint32_t left = followers(window); left != 0; left &= left - 1)
        what(bucket_of(sieve_, slot, static_cast<unsigned>(std::countr_zero(left))), window);
    }
  }

  static constexpr int kUserBits = 16;

  const LiteralScanner& scanner_;
  std::vector<std::uint32_t> literals_;
  std::vector<std::uint32_t> users_ = std::vector<std::uint32_t>(std::size_t{1} << kUserBits);
  // Of the literal in hand:
  std::vector<int> after_;
  std::vector<bool> ends_common_;
  std::vector<double> expected_;  ///< by offset
  std::vector<Window> chosen_;
  Sieve sieve_;
};

LiteralScanner::LiteralScanner(const std::vector<std::string>& literals) {
  std::vector<std::uint32_t> short_ones;
  std::vector<std::uint32_t> long_ones;
  for (const std::string& literal : literals) {
    const auto index = static_cast<std::uint32_t>(patterns_.size());
    patterns_.push_back({bytes_.size(), literal.size()});
    longest_ = std::max(longest_, literal.size());
    for (char c : literal) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
      bytes_.push_back(c);
      fold_.push_back(is_letter(c) ? 0x20 : 0);
    }
    if (!literal.empty()) (literal.size() < kLong ? short_ones : long_ones).push_back(index);
  }
  for (auto* some : {&short_ones, &long_ones}) {
    if (!some->empty()) sieves_.push_back(Builder(*this, std::move(*some)).build());
  }
  for (const Sieve& sieve : sieves_) {
    for (const Window& window : sieve.windows) reach_ = std::max<std::size_t>(reach_, window.offset);
  }
}

std::size_t LiteralScanner::widest_bucket() const {
  std::size_t widest = 0;
  for (const Sieve& sieve : sieves_) {
    for (std::size_t i = 1; i < sieve.buckets.size(); ++i) {
      widest = std::max<std::size_t>(widest, sieve.buckets[i] - sieve.buckets[i - 1]);
    }
  }
  return widest;
}

bool LiteralScanner::equal(const char* text, const Pattern& pattern) const {
  const char* bytes = bytes_.data() + pattern.at;
  const char* fold = fold_.data() + pattern.at;
  std::size_t i = 0;
  for (; i + kWord <= pattern.length; i += kWord) {
    if ((load(text + i) | load(fold + i)) != load(bytes + i)) return false;
  }
  for (; i < pattern.length; ++i) {
    if (static_cast<char>(text[i] | fold[i]) != bytes[i]) return false;
  }
  return true;
}

void LiteralScanner::verify(const Sieve& sieve, std::string_view text, std::size_t place,
                            std::vector<Hit>& hits) const {
  const std::uint64_t word = load(text.substr(place)) | kFold;
  const std::size_t slot = hash(static_cast<std::uint32_t>(word) & sieve.mask) >> sieve.table_shift;
  const unsigned follower = follower_hash(word >> 8 * sieve.window);
  if ((sieve.table[slot] >> follower & 1) == 0) return;
  const std::size_t bucket = bucket_of(sieve, slot, follower);
  for (std::uint32_t i = sieve.buckets[bucket]; i < sieve.buckets[bucket + 1]; ++i) {
    const Window& window = sieve.windows[i];
    if ((word & first_bytes(window.known)) != window.word || window.offset > place) continue;
    const std::size_t begin = place - window.offset;
    const Pattern& pattern = patterns_[window.literal];
    if (pattern.length > text.size() - begin) continue;
    if (equal(text.data() + begin, pattern)) hits.push_back({begin, window.literal});
  }
}

std::size_t LiteralScanner::sift(const Sieve& sieve, std::string_view text, std::size_t place, std::size_t end,
                                 std::vector<Hit>& hits) const {
  constexpr std::size_t kAtOnce = 64;
  const char* const data = text.data();
  const std::uint32_t* const table = sieve.table.data();
  const std::uint32_t mask = sieve.mask;
  const int shift = sieve.table_shift;
  const std::size_t window_bits = 8 * sieve.window;
  const std::size_t stride = sieve.stride;
  const auto look = [&](std::size_t at) -> std::uint64_t {
    const std::uint64_t word = load(data + at) | kFold;
    return table[hash(static_cast<std::uint32_t>(word) & mask) >> shift] >> follower_hash(word >> window_bits) & 1;
  };
  // Places do not depend on each other, so the processor looks up several at a time; few branches serve them all.
  while (place + kAtOnce * stride + kWord <= end) {
    std::uint64_t any = 0;
    for (std::size_t i = 0; i < kAtOnce; ++i) any |= look(place + i * stride) << i;
    for (; any != 0; any &= any - 1) {
      verify(sieve, text, place + static_cast<std::size_t>(std::countr_zero(any)) * stride, hits);
    }
    place += kAtOnce * stride;
  }
  for (; place < end && place + kWord <= text.size(); place += stride) {
    if (look(place) != 0) verify(sieve, text, place, hits);
  }
  // At the very end less than a word is left.
  for (; place < end && place + sieve.window <= text.size(); place += stride) verify(sieve, text, place, hits);
  return place;
}

void LiteralScanner::scan_with(std::string_view text, Callback callback) const {
  std::vector<Hit> hits;
  std::vector<std::size_t> places(sieves_.size(), 0);
  for (std::size_t chunk = 0; chunk < text.size(); chunk += kChunk) {
    const std::size_t end = std::min(text.size(), chunk + kChunk);
    for (std::size_t i = 0; i < sieves_.size(); ++i) places[i] = sift(sieves_[i], text, places[i], end, hits);
    if (hits.empty()) continue;
    std::ranges::sort(hits);
    // What the next chunk shows may begin before its end.
    const std::size_t settled = end == text.size() ? end : end - std::min(end, reach_);
    const auto rest = std::ranges::lower_bound(hits, settled, {}, &Hit::begin);
    for (auto hit = hits.begin(); hit != rest; ++hit) callback.call(callback.function, hit->begin, hit->literal);
    hits.erase(hits.begin(), rest);
  }
}

}  // namespace gpuwarden::diagnosis
