// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/literal_scanner.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <unordered_map>
#include <utility>

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
  if (bytes.size() >= kWord) return load(bytes.data());
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

/// How often a byte stands in logs, in steps of a factor of two or so: 0 is the commonest.
std::array<std::uint8_t, 256> rarities() {
  // From logs of training jobs, kernels and servers, letters of both cases together; what is not here is rare.
  constexpr std::string_view kCommonFirst = " e0t1aionsr2l.d3c5m4/u:6p8_79g-h=fb,vy[]x\"k'w()";
  std::array<std::uint8_t, 256> rarity{};
  rarity.fill(9);
  for (std::size_t rank = 0; rank < kCommonFirst.size(); ++rank) {
    rarity[static_cast<unsigned char>(kCommonFirst[rank])] = static_cast<std::uint8_t>(3 + rank / 8);
  }
  return rarity;
}

/// Length of the window and the stride for literals of at least `shortest` bytes.
std::pair<std::size_t, std::size_t> window_and_stride(std::size_t shortest) {
  const std::size_t window = std::min(shortest, shortest < kLong ? kLongestWindow - 1 : kLongestWindow);
  return {window, std::min(kLongestStride, shortest - window + 1)};
}

}  // namespace

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

  /// How often one expects to meet the window in a text, in some unit.
  double cost(std::uint32_t literal, std::size_t offset) const {
    int rarity = 0;
    for (const unsigned char c : rest(literal, offset).substr(0, sieve_.window + kFollowers)) rarity += rarity_[c];
    const auto found = users_.find(block(literal, offset));
    const std::uint32_t users = found == users_.end() ? 0 : found->second;
    return (users > kCrowded ? 1.0 + users : 1.0) / static_cast<double>(std::uint64_t{1} << rarity);
  }

  /// As many successive windows as the stride is wide, the least expected ones.
  void choose(std::uint32_t literal) {
    const std::size_t length = scanner_.length(literal);
    std::size_t best = 0;
    double least = 0;
    for (std::size_t first = 0; first + sieve_.window + sieve_.stride - 1 <= length; ++first) {
      double sum = 0;
      for (std::size_t i = 0; i < sieve_.stride; ++i) sum += cost(literal, first + i);
      if (first == 0 || sum < least) {
        least = sum;
        best = first;
      }
    }
    for (std::size_t i = 0; i < sieve_.stride; ++i) add(literal, best + i);
  }

  void add(std::uint32_t literal, std::size_t offset) {
    const Pattern& pattern = scanner_.patterns_[literal];
    const std::string_view fold = std::string_view(scanner_.fold_).substr(pattern.at, pattern.length);
    sieve_.windows.push_back({.head = load(rest(literal, 0)),
                              .head_fold = load(fold),
                              .head_mask = first_bytes(pattern.length),
                              .block = block(literal, offset),
                              .literal = literal,
                              .offset = static_cast<std::uint32_t>(offset)});
    ++users_[block(literal, offset)];
  }

  /// Which followers a place may have that is to be looked at for this window.
  std::uint32_t followers(const Window& window) const {
    const std::string_view known = rest(window.literal, window.offset).substr(sieve_.window);
    const std::uint64_t word = (load(known) | kFold) & first_bytes(kFollowers);
    if (known.size() >= kFollowers) return std::uint32_t{1} << follower_hash(word);
    if (known.empty()) return ~std::uint32_t{0};
    std::uint32_t any = 0;
    for (std::uint64_t second = 0; second < 256; ++second)
      any |= std::uint32_t{1} << follower_hash((word & 0xff) | (second | 0x20) << 8);
    return any;
  }

  void fill_tables() {
    const int width = static_cast<int>(std::bit_width(sieve_.windows.size()));
    const int bits = std::clamp(width + 1, 10, 14);
    const int bucket_bits = std::clamp(width + 1, 4, 16);
    sieve_.table_shift = 32 - bits;
    sieve_.bucket_shift = 32 - bucket_bits;
    sieve_.table.assign(std::size_t{1} << bits, 0);
    sieve_.buckets.assign((std::size_t{1} << bucket_bits) + 1, 0);
    std::ranges::stable_sort(sieve_.windows, {}, [](const Window& window) { return hash(window.block); });
    for (const Window& window : sieve_.windows) {
      sieve_.table[hash(window.block) >> sieve_.table_shift] |= followers(window);
      ++sieve_.buckets[(hash(window.block) >> sieve_.bucket_shift) + 1];
    }
    for (std::size_t i = 1; i < sieve_.buckets.size(); ++i) sieve_.buckets[i] += sieve_.buckets[i - 1];
  }

  const LiteralScanner& scanner_;
  std::vector<std::uint32_t> literals_;
  std::array<std::uint8_t, 256> rarity_ = rarities();
  std::unordered_map<std::uint32_t, std::uint32_t> users_;
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
  const std::uint32_t block = static_cast<std::uint32_t>(load(text.substr(place)) | kFold) & sieve.mask;
  const std::size_t bucket = hash(block) >> sieve.bucket_shift;
  for (std::uint32_t i = sieve.buckets[bucket]; i < sieve.buckets[bucket + 1]; ++i) {
    const Window& window = sieve.windows[i];
    if (window.block != block || window.offset > place) continue;
    const std::size_t begin = place - window.offset;
    const Pattern& pattern = patterns_[window.literal];
    if (pattern.length > text.size() - begin) continue;
    if (((load(text.substr(begin)) | window.head_fold) & window.head_mask) != window.head) continue;
    if (equal(text.data() + begin, pattern)) hits.push_back({begin, window.literal});
  }
}

std::size_t LiteralScanner::sift(const Sieve& sieve, std::string_view text, std::size_t place, std::size_t end,
                                 std::vector<Hit>& hits) const {
  constexpr std::size_t kAtOnce = 8;
  const char* const data = text.data();
  const std::uint32_t* const table = sieve.table.data();
  const std::uint32_t mask = sieve.mask;
  const int shift = sieve.table_shift;
  const std::size_t window_bits = 8 * sieve.window;
  const std::size_t stride = sieve.stride;
  const auto look = [&](std::size_t at) -> unsigned {
    const std::uint64_t word = load(data + at) | kFold;
    return table[hash(static_cast<std::uint32_t>(word) & mask) >> shift] >> follower_hash(word >> window_bits) & 1;
  };
  // Places do not depend on each other, so the processor looks up several at a time; one branch serves them all.
  while (place + kAtOnce * stride + kWord <= end) {
    unsigned any = 0;
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
