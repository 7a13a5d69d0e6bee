// SPDX-License-Identifier: Apache-2.0
// What a reader keeps of a PyTorch snapshot: nested lists and dictionaries, but of those only what tells of memory.
// Stack frames, which are nine tenths of most snapshots, leave nothing behind.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/memtrace/read.hpp"

namespace gpuwarden::memtrace {

/// The keys that matter, and the words that stand for values.
enum class Word : std::uint8_t {
  other,
  segments,
  device_traces,
  action,
  addr,
  size,
  stream,
  time_us,
  address,
  total_size,
  requested_size,
  state,
  blocks,
  device,
  alloc,
  free,
  free_requested,
  free_completed,
  segment_alloc,
  segment_free,
  segment_map,
  segment_unmap,
  oom,
  snapshot,
  active_allocated,
  active_pending_free,
  active_awaiting_free,
};

Word word_of(std::string_view text);

enum class Kind : std::uint8_t { other, integer, text, list, dictionary, absent };

/// 16 bytes, because there are many.
struct Value {
  Kind kind = Kind::other;
  Word word = Word::other;   ///< of a text
  std::uint32_t length = 0;  ///< of a text
  /// An integer's bits, a text's position in the file, or the number of a list or dictionary.
  std::uint64_t payload = 0;

  bool is(Kind one) const { return kind == one; }
};

inline Value integer(std::int64_t number) {
  return {.kind = Kind::integer, .payload = static_cast<std::uint64_t>(number)};
}

class SnapshotTree {
 public:
  Value new_list();
  Value new_dictionary();
  /// In place of what the key had before. Does nothing for a key that is no known word.
  void set(const Value& dictionary, const Value& key, const Value& value);
  /// Does nothing unless the value is a list, or a dictionary in which something was set.
  void append(const Value& list, const Value& value);

  std::optional<Value> find(const Value& dictionary, Word key) const;
  std::optional<std::uint64_t> number(const Value& dictionary, Word key) const;
  Word word(const Value& dictionary, Word key) const;
  std::size_t length(const Value& list) const { return lists_[list.payload].size(); }
  Value at(const Value& list, std::size_t position) const;

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Field {
    Word key = Word::other;
    Kind kind = Kind::other;
    Word word = Word::other;
    std::uint32_t next = kNone;
    std::uint64_t payload = 0;
  };

  std::deque<Field> fields_;
  std::deque<std::uint32_t> dictionaries_;  ///< each one's newest field
  /// Items are numbers of lists and dictionaries, twice that number, one more for a dictionary.
  std::deque<std::vector<std::uint64_t>> lists_;
};

/// The trace in a snapshot.
Result<Trace> trace_of_snapshot(const SnapshotTree& tree, const Value& root, std::string format,
                                const std::string& name, const ReadOptions& options);

/// Reads a pickle without running anything of it.
Result<Value> read_pickle(std::string_view data, const std::string& name, SnapshotTree& tree);
Result<Value> read_json(std::string_view data, const std::string& name, SnapshotTree& tree);

}  // namespace gpuwarden::memtrace
