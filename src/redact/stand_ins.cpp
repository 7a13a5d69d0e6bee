// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "redact/names.hpp"

namespace gpuwarden::redact {
namespace {

/// A name of more words is looked for no further: domains have some ten at most.
constexpr std::size_t kMostWords = 16;

std::size_t word_end(std::string_view text, std::size_t at) {
  while (at < text.size() && is_word(text[at])) ++at;
  return at;
}

std::size_t count_words(std::string_view name) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < name.size(); ++i) count += is_word(name[i]) && !is_word(before(name, i)) ? 1 : 0;
  return count;
}

}  // namespace

const std::string& StandIns::of(std::string_view name) {
  const auto found = known_.find(name);
  if (found != known_.end()) return found->second;
  if (!name.empty() && is_word(name.front()) && is_word(name.back())) {
    std::size_t& most = words_[std::string(name.substr(0, word_end(name, 0)))];
    most = std::max(most, std::min(count_words(name), kMostWords));
  } else if (std::ranges::any_of(name, [](char c) { return static_cast<unsigned char>(c) >= 0x80; })) {
    odd_.emplace_back(name);
  }
  return known_.emplace(name, format_(known_.size() + 1)).first->second;
}

std::optional<std::string> StandIns::of_beginning(std::string_view beginning) const {
  const auto first = known_.lower_bound(beginning);
  if (first == known_.end() || !first->first.starts_with(beginning)) return std::nullopt;
  const auto second = std::next(first);
  if (second != known_.end() && second->first.starts_with(beginning)) return std::nullopt;
  return first->second;
}

void StandIns::find_at(std::string_view text, std::size_t at, std::size_t end, const Visit& visit) const {
  const auto found = words_.find(text.substr(at, end - at));
  if (found == words_.end()) return;
  for (std::size_t n = 0; n < found->second; ++n) {
    const auto name = known_.find(text.substr(at, end - at));
    if (name != known_.end()) visit(name->first, at, name->second);
    // Over what stands between two words of a name: a dot, a hyphen, a letter of two or more bytes.
    std::size_t next = end;
    while (next < text.size() && next - end < 8 && !is_word(text[next])) ++next;
    if (!is_word(at_or_end(text, next))) return;
    end = word_end(text, next);
  }
}

void StandIns::find_odd(std::string_view text, const Visit& visit) const {
  for (const std::string& name : odd_) {
    const std::string& stand_in = known_.find(name)->second;
    for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + name.size())) {
      if (!is_word(before(text, at)) && !is_word(at_or_end(text, at + name.size()))) visit(name, at, stand_in);
    }
  }
}

std::size_t next_word(std::string_view text, std::size_t at) {
  while (at < text.size() && !is_word(text[at])) ++at;
  return at;
}

std::size_t end_of_word(std::string_view text, std::size_t at) { return word_end(text, at); }

}  // namespace gpuwarden::redact
