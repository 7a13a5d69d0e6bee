// SPDX-License-Identifier: Apache-2.0
// Snapshots as JSON, read event by event so that the whole text never stands in memory as values.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "memtrace/quote.hpp"
#include "memtrace/snapshot_tree.hpp"

namespace gpuwarden::memtrace {
namespace {

class TreeFiller final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit TreeFiller(SnapshotTree& tree) : tree_(tree) {}

  bool null() override { return add({}); }
  bool boolean(bool value) override { return add(integer(static_cast<std::int64_t>(value))); }
  bool number_integer(number_integer_t value) override { return add(integer(value)); }
  bool number_unsigned(number_unsigned_t value) override { return add(integer(static_cast<std::int64_t>(value))); }
  bool number_float(number_float_t, const string_t&) override { return add({}); }
  bool string(string_t& text) override { return add(text_value(text)); }
  bool binary(binary_t&) override { return add({}); }

  bool start_object(std::size_t) override { return open(tree_.new_dictionary()); }
  bool key(string_t& text) override { return open_.back().key = text_value(text), true; }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(tree_.new_list()); }
  bool end_array() override { return close(); }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    bad_byte = position;
    return false;
  }

  Value root;
  std::optional<std::size_t> bad_byte;
  bool too_deep = false;

 private:
  struct Open {
    Value container;
    Value key;
  };

  static Value text_value(const std::string& text) { return {.kind = Kind::text, .word = word_of(text)}; }

  bool open(const Value& container) {
    too_deep = open_.size() == kDeepestNesting;
    if (too_deep) return false;
    open_.push_back({container, {}});
    return true;
  }
  /// A container is added when it is complete.
  bool close() {
    const Value done = open_.back().container;
    open_.pop_back();
    return add(done);
  }
  bool add(const Value& value) {
    if (open_.empty()) {
      root = value;
    } else if (open_.back().container.is(Kind::list)) {
      tree_.append(open_.back().container, value);
    } else {
      tree_.set(open_.back().container, open_.back().key, value);
    }
    return true;
  }

  SnapshotTree& tree_;
  std::vector<Open> open_;
};

}  // namespace

Result<Value> read_json(std::string_view data, const std::string& name, SnapshotTree& tree) {
  TreeFiller filler(tree);
  const bool whole = nlohmann::json::sax_parse(data, &filler);
  if (filler.too_deep)
    return fail(ErrorCode::corrupt, fmt::format("{}: nests deeper than {} levels", name, kDeepestNesting),
                "no snapshot of PyTorch does that: write it again");
  if (!whole)
    return fail(ErrorCode::corrupt,
                fmt::format("{}: is not valid JSON from byte {} on", name, filler.bad_byte.value_or(data.size())),
                "the file is damaged or was cut off: copy it or write it again");
  return filler.root;
}

}  // namespace gpuwarden::memtrace
