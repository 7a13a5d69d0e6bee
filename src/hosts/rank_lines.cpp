// SPDX-License-Identifier: Apache-2.0
#include "hosts/rank_lines.hpp"

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::hosts {
namespace {

/// Longer than the longest line that run_job writes whole.
constexpr std::size_t kLongestLine = 131072;

void append(std::optional<std::uint32_t> rank, std::string_view text, std::vector<RankText>& texts) {
  if (texts.empty() || texts.back().rank != rank) texts.push_back({rank, {}});
  texts.back().text += text;
}

}  // namespace

std::vector<RankText> RankLines::add(std::string_view text) {
  std::vector<RankText> texts;
  if (alone_) {
    append(alone_, text, texts);
    return texts;
  }
  kept_ += text;
  std::size_t at = 0;
  for (std::size_t end = kept_.find('\n'); end != std::string::npos; end = kept_.find('\n', at)) {
    add_line(std::string_view(kept_).substr(at, end + 1 - at), texts);
    at = end + 1;
  }
  kept_.erase(0, at);
  if (kept_.size() > kLongestLine) {
    add_line(kept_, texts);
    kept_.clear();
  }
  return texts;
}

std::vector<RankText> RankLines::finish() {
  std::vector<RankText> texts;
  if (!kept_.empty()) add_line(kept_, texts);
  kept_.clear();
  return texts;
}

void RankLines::add_line(std::string_view line, std::vector<RankText>& texts) const {
  constexpr std::string_view kHead = "[rank ";
  const std::size_t end = line.find("] ");
  const auto rank = line.starts_with(kHead) && end != std::string_view::npos
                        ? parse_integer(line.substr(kHead.size(), end - kHead.size()))
                        : std::nullopt;
  if (!rank || *rank < 0 || *rank > UINT32_MAX) return append(std::nullopt, line, texts);
  append(static_cast<std::uint32_t>(*rank), line.substr(end + 2), texts);
}

}  // namespace gpuwarden::hosts
