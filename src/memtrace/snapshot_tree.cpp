// SPDX-License-Identifier: Apache-2.0
#include "memtrace/snapshot_tree.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace gpuwarden::memtrace {
namespace {

constexpr auto kWords = std::to_array<std::pair<std::string_view, Word>>({
    {"segments", Word::segments},
    {"device_traces", Word::device_traces},
    {"action", Word::action},
    {"addr", Word::addr},
    {"size", Word::size},
    {"stream", Word::stream},
    {"time_us", Word::time_us},
    {"address", Word::address},
    {"total_size", Word::total_size},
    {"requested_size", Word::requested_size},
    {"state", Word::state},
    {"blocks", Word::blocks},
    {"device", Word::device},
    {"alloc", Word::alloc},
    {"free", Word::free},
    {"free_requested", Word::free_requested},
    {"free_completed", Word::free_completed},
    {"segment_alloc", Word::segment_alloc},
    {"segment_free", Word::segment_free},
    {"segment_map", Word::segment_map},
    {"segment_unmap", Word::segment_unmap},
    {"oom", Word::oom},
    {"snapshot", Word::snapshot},
    {"active_allocated", Word::active_allocated},
    {"active_pending_free", Word::active_pending_free},
    {"active_awaiting_free", Word::active_awaiting_free},
});

}  // namespace

Word word_of(std::string_view text) {
  constexpr std::size_t kLongest = 20;
  if (text.size() < 3 || text.size() > kLongest) return Word::other;
  const auto* const found = std::ranges::find(kWords, text, &std::pair<std::string_view, Word>::first);
  return found == kWords.end() ? Word::other : found->second;
}

Value SnapshotTree::new_list() {
  lists_.emplace_back();
  return {.kind = Kind::list, .payload = lists_.size() - 1};
}

Value SnapshotTree::new_dictionary() {
  dictionaries_.push_back(kNone);
  return {.kind = Kind::dictionary, .payload = dictionaries_.size() - 1};
}

void SnapshotTree::set(const Value& dictionary, const Value& key, const Value& value) {
  if (!key.is(Kind::text) || key.word == Word::other) return;
  std::uint32_t& newest = dictionaries_[dictionary.payload];
  // As long as there are words at most, because each stands there once.
  for (std::uint32_t at = newest; at != kNone; at = fields_[at].next) {
    Field& field = fields_[at];
    if (field.key != key.word) continue;
    field.kind = value.kind;
    field.word = value.word;
    field.payload = value.payload;
    return;
  }
  if (value.is(Kind::other)) return;
  fields_.push_back(
      {.key = key.word, .kind = value.kind, .word = value.word, .next = newest, .payload = value.payload});
  newest = static_cast<std::uint32_t>(fields_.size() - 1);
}

void SnapshotTree::append(const Value& list, const Value& value) {
  const bool dictionary = value.is(Kind::dictionary);
  if (!dictionary && !value.is(Kind::list)) return;
  if (dictionary && dictionaries_[value.payload] == kNone) return;
  lists_[list.payload].push_back(value.payload << 1U | static_cast<std::uint64_t>(dictionary));
}

std::optional<Value> SnapshotTree::find(const Value& dictionary, Word key) const {
  if (!dictionary.is(Kind::dictionary)) return std::nullopt;
  for (std::uint32_t at = dictionaries_[dictionary.payload]; at != kNone; at = fields_[at].next) {
    const Field& field = fields_[at];
    if (field.key == key) return Value{.kind = field.kind, .word = field.word, .payload = field.payload};
  }
  return std::nullopt;
}

std::optional<std::uint64_t> SnapshotTree::number(const Value& dictionary, Word key) const {
  const auto value = find(dictionary, key);
  if (!value || !value->is(Kind::integer)) return std::nullopt;
  return value->payload;
}

Word SnapshotTree::word(const Value& dictionary, Word key) const {
  const auto value = find(dictionary, key);
  return value && value->is(Kind::text) ? value->word : Word::other;
}

Value SnapshotTree::at(const Value& list, std::size_t position) const {
  const std::uint64_t item = lists_[list.payload][position];
  return {.kind = (item & 1U) != 0 ? Kind::dictionary : Kind::list, .payload = item >> 1U};
}

}  // namespace gpuwarden::memtrace
