// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/candidate_texts.hpp"

#include <algorithm>
#include <array>
#include <random>
#include <set>

#include "diagnosis/candidate_lines.hpp"

namespace gpuwarden::diagnosis {

namespace {

struct Hit {
  std::size_t begin;
  std::size_t end;
  std::uint32_t literal;
};

std::vector<Hit> all_hits(const std::vector<std::string>& literals, std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  std::vector<Hit> hits;
  for (std::uint32_t i = 0; i < literals.size(); ++i) {
    for (std::size_t at = lower.find(literals[i]); at != std::string::npos; at = lower.find(literals[i], at + 1)) {
      hits.push_back({at, at + literals[i].size(), i});
    }
  }
  std::ranges::stable_sort(hits, {}, &Hit::begin);
  return hits;
}

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/// The end of the last whole character of [begin, end) of a text that goes on behind it: UTF-8 or not.
std::size_t whole_characters(std::string_view text, std::size_t begin, std::size_t end) {
  for (std::size_t back = 1; back <= 3 && begin + back <= end; ++back) {
    const auto c = static_cast<unsigned char>(text[end - back]);
    if (c >= 0xC0) {
      const std::size_t length = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
      return length > back ? end - back : end;
    }
    if (c < 0x80) return end;
  }
  return end;
}

class WholeText {
 public:
  explicit WholeText(std::string_view text) : text_(text) {
    for (std::size_t begin = 0; begin < text.size();) {
      begins_.push_back(begin);
      const std::size_t end = text.find('\n', begin);
      ends_.push_back(std::min(end, text.size()));
      begin = end == std::string_view::npos ? text.size() : end + 1;
    }
  }

  std::size_t lines() const { return begins_.size(); }
  std::size_t line_of(std::size_t place) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(begins_, place) - begins_.begin()) - 1;
  }
  std::size_t begin(std::size_t line) const { return begins_[line]; }
  std::size_t end(std::size_t line) const { return ends_[line]; }

  std::string shown(std::size_t begin, std::size_t end) const {
    while (end > begin && text_[end - 1] == '\r') --end;
    return std::string(text_.substr(begin, end - begin));
  }

  Found around(std::size_t line, std::size_t begin, std::size_t end) const {
    Found found{.number = line + 1, .line = shown(begin, end)};
    for (std::size_t i = line; i-- > 0 && found.before.size() < kMostBefore;) {
      // Seen to begin: its own beginning, or the line end before it, is near enough.
      const bool in_reach = i == 0 ? begin <= kLookBehind : begins_[i] - 1 + kLookBehind >= begin;
      if (!in_reach) break;
      found.before.push_back(neighbour(i, text_.size()));
    }
    const std::size_t reach = std::min(text_.size(), end + kLookAhead);
    for (std::size_t i = line + 1; i < lines() && found.after.size() < kMostAfter; ++i) {
      if (begins_[i] >= reach) break;
      const bool ends = ends_[i] < reach || reach == text_.size();
      if (!ends && reach - begins_[i] <= kLongestNeighbour) break;
      found.after.push_back(neighbour(i, reach));
      if (!ends) break;
    }
    return found;
  }

 private:
  std::string neighbour(std::size_t line, std::size_t reach) const {
    std::size_t end = std::min(ends_[line], reach);
    while (end > begins_[line] && text_[end - 1] == '\r') --end;
    if (end - begins_[line] > kLongestNeighbour) {
      end = whole_characters(text_, begins_[line], begins_[line] + kLongestNeighbour);
    }
    return std::string(text_.substr(begins_[line], end - begins_[line]));
  }

  std::string_view text_;
  std::vector<std::size_t> begins_;
  std::vector<std::size_t> ends_;
};

/// Where the stretch of a long line begins whose first literal is at `place`.
std::size_t stretch_begin(std::string_view text, std::size_t line_begin, std::size_t place) {
  std::size_t begin = std::max(line_begin, place - std::min(place, kStretchLead));
  for (std::size_t i = place; i-- > begin;) {
    if (text[i] == '\r' || text[i] == '\0') return i + 1;
  }
  for (int i = 0; i < 3 && begin > line_begin && begin < place && continues(text[begin]); ++i) ++begin;
  return begin;
}

}  // namespace

Report read_in_pieces(const std::vector<std::string>& literals, std::string_view text,
                      const std::function<std::size_t(std::size_t)>& next, bool neighbours) {
  const LiteralScanner scanner(literals);
  Report report;
  CandidateReader reader(scanner, [&](const Candidate& candidate) {
    Found found{.number = candidate.number, .line = std::string(candidate.line), .whole = candidate.whole};
    found.literals.assign(candidate.literals.begin(), candidate.literals.end());
    if (neighbours) {
      for (const auto line : candidate.before()) found.before.emplace_back(line);
      for (const auto line : candidate.after()) found.after.emplace_back(line);
    }
    report.found.push_back(std::move(found));
  });
  while (!text.empty()) {
    const std::size_t size = next(text.size());
    reader.feed(text.substr(0, size));
    text.remove_prefix(size);
  }
  reader.finish();
  report.lines = reader.lines();
  report.bytes = reader.bytes();
  return report;
}

Report read_simply(const std::vector<std::string>& literals, std::string_view text) {
  const WholeText whole(text);
  const std::vector<Hit> hits = all_hits(literals, text);
  Report report{.lines = whole.lines(), .bytes = text.size()};
  for (std::size_t i = 0; i < hits.size();) {
    const std::size_t line = whole.line_of(hits[i].begin);
    std::size_t begin = whole.begin(line);
    std::size_t end = whole.end(line);
    const bool is_long = end - begin > kLongestLine;
    if (is_long) {
      begin = stretch_begin(text, begin, hits[i].begin);
      if (end > begin + kLongestLine) end = whole_characters(text, begin, begin + kLongestLine);
    }
    std::set<std::uint32_t> literals_in;
    for (auto hit = std::ranges::lower_bound(hits, begin, {}, &Hit::begin); hit != hits.end() && hit->begin < end;
         ++hit) {
      if (hit->end <= end) literals_in.insert(hit->literal);
    }
    Found found = whole.around(line, begin, end);
    found.whole = !is_long;
    found.literals.assign(literals_in.begin(), literals_in.end());
    report.found.push_back(std::move(found));
    while (i < hits.size() && hits[i].end <= end) ++i;
  }
  return report;
}

std::string random_log(const std::vector<std::string>& literals, unsigned seed, std::size_t size) {
  using namespace std::string_view_literals;
  std::mt19937 random(seed);
  const auto below = [&random](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
  std::string text;
  while (text.size() < size) {
    const std::size_t kind = below(200);
    const std::size_t length = kind == 0   ? below(100000)
                               : kind < 4  ? 16300 + below(200)
                               : kind < 10 ? below(9000)
                                           : below(120);
    const std::size_t begin = text.size();
    while (text.size() < begin + length) {
      const std::size_t what = below(400);
      if (what == 0)
        text += literals[below(literals.size())];
      else if (what == 1)
        text += "\xE2\x82\xAC"sv;
      else if (what == 2)
        text += "\r\0\xF0\x9F\x98\x80"sv.substr(below(6), 1);
      else
        text += static_cast<char>('A' + below(60));
    }
    text += std::array{"\n"sv, "\n"sv, "\r\n"sv, "\r\r\n"sv}[below(4)];
  }
  return text;
}

std::string utf16(std::u16string_view text, bool little) {
  std::string bytes;
  const auto add = [&](char16_t unit) {
    const char low = static_cast<char>(unit & 0xFF);
    const char high = static_cast<char>(unit >> 8);
    bytes += little ? low : high;
    bytes += little ? high : low;
  };
  add(0xFEFF);
  for (const char16_t unit : text) add(unit);
  return bytes;
}

}  // namespace gpuwarden::diagnosis
