// SPDX-License-Identifier: Apache-2.0
// A machine for pickles that knows only data: numbers, texts, lists, dictionaries and references to them. Source of
// the opcodes: Python's Lib/pickletools.py, protocols 0 to 5.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "gpuwarden/base/text.hpp"
#include "memtrace/quote.hpp"
#include "memtrace/snapshot_tree.hpp"

namespace gpuwarden::memtrace {
namespace {

/// So many values may wait on the stack (1 GiB): more than any list of events has.
constexpr std::size_t kDeepest = std::size_t{1} << 26U;
constexpr std::uint8_t kNewestProtocol = 5;

class PickleMachine {
 public:
  PickleMachine(std::string_view data, const std::string& name, SnapshotTree& tree)
      : data_(data), name_(name), tree_(tree) {}

  Result<Value> run();

 private:
  /// An opcode: its code, its name, what it does (false: it could not), and the number of bytes of its argument or of
  /// the length before it.
  struct Row {
    unsigned char code;
    const char* name;
    bool (PickleMachine::*act)(unsigned);
    unsigned width = 0;
  };
  static const Row kRows[];

  bool fail_with(std::string what) {
    if (!error_)
      error_ = Error{ErrorCode::corrupt, fmt::format("{}: {} at byte {}: {}", name_, row_->name, begin_, what),
                     "the file is damaged or was cut off: copy it or write it again"};
    return false;
  }
  bool refuse(const std::string& what) {
    error_ = Error{ErrorCode::corrupt, fmt::format("{}: refused: byte {} ({}) {}", name_, begin_, row_->name, what),
                   "no snapshot of PyTorch holds that; Python would run it: do not open this file with pickle.load"};
    return false;
  }

  // Reading.
  bool has(std::uint64_t bytes) { return bytes <= data_.size() - at_ || fail_with("the file ends here"); }
  /// `width` bytes, the lowest first; at most 8.
  std::optional<std::uint64_t> unsigned_of(std::uint64_t width) {
    if (!has(width)) return std::nullopt;
    std::uint64_t number = 0;
    for (std::uint64_t i = 0; i < width; ++i)
      number |= std::uint64_t{static_cast<unsigned char>(data_[at_ + i])} << (8 * i);
    at_ += width;
    return number;
  }
  /// The rest of the line, without its end.
  std::optional<std::string_view> line() {
    const std::size_t end = data_.find('\n', at_);
    if (end == std::string_view::npos) {
      fail_with("the file ends here");
      return std::nullopt;
    }
    const std::string_view text = data_.substr(at_, end - at_);
    at_ = end + 1;
    return text;
  }

  // The stack.
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  bool push(const Value& value) {
    if (stack_.size() == kDeepest) return fail_with("too many values at once");
    stack_.push_back(value);
    return true;
  }
  std::optional<Value> pop() {
    if (stack_.size() <= floor()) {
      fail_with("there is no value that it could take");
      return std::nullopt;
    }
    const Value value = stack_.back();
    stack_.pop_back();
    return value;
  }
  /// Where the values since the last mark begin; the mark is gone then.
  std::optional<std::size_t> pop_mark() {
    if (marks_.empty()) {
      fail_with("there is no mark before it");
      return std::nullopt;
    }
    const std::size_t begin = marks_.back();
    marks_.pop_back();
    return begin;
  }
  bool push_text(std::size_t from, std::size_t size) {
    const auto length = static_cast<std::uint32_t>(std::min<std::size_t>(size, ~std::uint32_t{0}));
    return push({.kind = Kind::text, .word = word_of(data_.substr(from, size)), .length = length, .payload = from});
  }
  std::string text_of(const Value& value) const {
    if (!value.is(Kind::text)) return "?";
    return quoted(data_.substr(value.payload, value.length));
  }

  // What the opcodes do.
  bool protocol(unsigned);
  bool skip(unsigned width) { return unsigned_of(width).has_value(); }
  bool mark(unsigned);
  bool stop(unsigned);
  bool drop(unsigned);
  bool drop_mark(unsigned);
  bool duplicate(unsigned);
  bool nothing(unsigned) { return push({}); }
  bool constant(unsigned number) { return push(integer(number)); }
  bool small_integer(unsigned width);
  bool signed_integer(unsigned width);
  bool long_integer(unsigned width);
  bool integer_line(unsigned);
  bool real(unsigned width);
  bool real_line(unsigned);
  bool text(unsigned width);
  bool bytes(unsigned width);
  bool text_line(unsigned quotes);
  bool empty_list(unsigned) { return push(tree_.new_list()); }
  bool empty_dictionary(unsigned) { return push(tree_.new_dictionary()); }
  bool list(unsigned);
  bool tuple(unsigned items);
  bool dictionary(unsigned);
  bool append(unsigned);
  bool append_all(unsigned);
  bool set_item(unsigned);
  bool set_items(unsigned);
  bool set_between(std::size_t begin);
  bool memorize(unsigned);
  bool put(unsigned width);
  bool put_line(unsigned);
  bool put_at(std::uint64_t index);
  bool get(unsigned width);
  bool get_line(unsigned);
  bool get_at(std::uint64_t index);
  bool named_line(unsigned);
  bool named_stack(unsigned);
  bool runs_code(unsigned) { return refuse("would run code"); }

  std::string_view data_;
  const std::string& name_;
  SnapshotTree& tree_;
  std::size_t at_ = 0;
  std::size_t begin_ = 0;  ///< of the current opcode
  const Row* row_ = nullptr;
  std::vector<Value> stack_;
  std::vector<std::size_t> marks_;
  std::vector<Value> memo_;
  std::optional<Value> result_;
  std::optional<Error> error_;
};

constexpr PickleMachine::Row PickleMachine::kRows[] = {
    {'(', "MARK", &PickleMachine::mark},
    {'.', "STOP", &PickleMachine::stop},
    {'0', "POP", &PickleMachine::drop},
    {'1', "POP_MARK", &PickleMachine::drop_mark},
    {'2', "DUP", &PickleMachine::duplicate},
    {'F', "FLOAT", &PickleMachine::real_line},
    {'I', "INT", &PickleMachine::integer_line},
    {'J', "BININT", &PickleMachine::signed_integer, 4},
    {'K', "BININT1", &PickleMachine::small_integer, 1},
    {'L', "LONG", &PickleMachine::integer_line},
    {'M', "BININT2", &PickleMachine::small_integer, 2},
    {'N', "NONE", &PickleMachine::nothing},
    {'P', "PERSID", &PickleMachine::named_line},
    {'Q', "BINPERSID", &PickleMachine::runs_code},
    {'R', "REDUCE", &PickleMachine::runs_code},
    {'S', "STRING", &PickleMachine::text_line, 1},
    {'T', "BINSTRING", &PickleMachine::text, 4},
    {'U', "SHORT_BINSTRING", &PickleMachine::text, 1},
    {'V', "UNICODE", &PickleMachine::text_line, 0},
    {'X', "BINUNICODE", &PickleMachine::text, 4},
    {'a', "APPEND", &PickleMachine::append},
    {'b', "BUILD", &PickleMachine::runs_code},
    {'c', "GLOBAL", &PickleMachine::named_line},
    {'d', "DICT", &PickleMachine::dictionary},
    {'}', "EMPTY_DICT", &PickleMachine::empty_dictionary},
    {'e', "APPENDS", &PickleMachine::append_all},
    {'g', "GET", &PickleMachine::get_line},
    {'h', "BINGET", &PickleMachine::get, 1},
    {'i', "INST", &PickleMachine::named_line},
    {'j', "LONG_BINGET", &PickleMachine::get, 4},
    {'l', "LIST", &PickleMachine::list},
    {']', "EMPTY_LIST", &PickleMachine::empty_list},
    {'o', "OBJ", &PickleMachine::runs_code},
    {'p', "PUT", &PickleMachine::put_line},
    {'q', "BINPUT", &PickleMachine::put, 1},
    {'r', "LONG_BINPUT", &PickleMachine::put, 4},
    {'s', "SETITEM", &PickleMachine::set_item},
    {'t', "TUPLE", &PickleMachine::list},
    {')', "EMPTY_TUPLE", &PickleMachine::tuple, 0},
    {'u', "SETITEMS", &PickleMachine::set_items},
    {'G', "BINFLOAT", &PickleMachine::real, 8},
    {'B', "BINBYTES", &PickleMachine::bytes, 4},
    {'C', "SHORT_BINBYTES", &PickleMachine::bytes, 1},
    {0x80, "PROTO", &PickleMachine::protocol},
    {0x81, "NEWOBJ", &PickleMachine::runs_code},
    {0x82, "EXT1", &PickleMachine::runs_code},
    {0x83, "EXT2", &PickleMachine::runs_code},
    {0x84, "EXT4", &PickleMachine::runs_code},
    {0x85, "TUPLE1", &PickleMachine::tuple, 1},
    {0x86, "TUPLE2", &PickleMachine::tuple, 2},
    {0x87, "TUPLE3", &PickleMachine::tuple, 3},
    {0x88, "NEWTRUE", &PickleMachine::constant, 1},
    {0x89, "NEWFALSE", &PickleMachine::constant, 0},
    {0x8a, "LONG1", &PickleMachine::long_integer, 1},
    {0x8b, "LONG4", &PickleMachine::long_integer, 4},
    {0x8c, "SHORT_BINUNICODE", &PickleMachine::text, 1},
    {0x8d, "BINUNICODE8", &PickleMachine::text, 8},
    {0x8e, "BINBYTES8", &PickleMachine::bytes, 8},
    {0x8f, "EMPTY_SET", &PickleMachine::empty_list},
    {0x90, "ADDITEMS", &PickleMachine::append_all},
    {0x91, "FROZENSET", &PickleMachine::list},
    {0x92, "NEWOBJ_EX", &PickleMachine::runs_code},
    {0x93, "STACK_GLOBAL", &PickleMachine::named_stack},
    {0x94, "MEMOIZE", &PickleMachine::memorize},
    {0x95, "FRAME", &PickleMachine::skip, 8},
    {0x96, "BYTEARRAY8", &PickleMachine::bytes, 8},
    {0x97, "NEXT_BUFFER", &PickleMachine::runs_code},
    {0x98, "READONLY_BUFFER", &PickleMachine::runs_code},
};

Result<Value> PickleMachine::run() {
  static constexpr Row kUnknown{0, "an unknown opcode", nullptr, 0};
  std::array<const Row*, 256> row_of{};
  row_of.fill(&kUnknown);
  for (const Row& row : kRows) row_of[row.code] = &row;
  while (!result_ && !error_) {
    begin_ = at_;
    if (at_ == data_.size()) {
      row_ = &kUnknown;
      return fail(ErrorCode::corrupt, fmt::format("{}: the pickle ends at byte {} without its last opcode", name_, at_),
                  "the file was cut off: copy it or write it again");
    }
    row_ = row_of[static_cast<unsigned char>(data_[at_++])];
    if (row_->act == nullptr)
      fail_with(fmt::format("no pickle has the code {:#04x}", static_cast<unsigned char>(data_[begin_])));
    else
      (this->*row_->act)(row_->width);
  }
  if (error_) return std::unexpected(*error_);
  return *result_;
}

bool PickleMachine::protocol(unsigned) {
  const auto version = unsigned_of(1);
  if (!version) return false;
  return *version <= kNewestProtocol || fail_with(fmt::format("unknown protocol {}", *version));
}

bool PickleMachine::mark(unsigned) {
  if (marks_.size() == kDeepestNesting) return fail_with(fmt::format("nests deeper than {} levels", kDeepestNesting));
  marks_.push_back(stack_.size());
  return true;
}

bool PickleMachine::stop(unsigned) {
  result_ = pop();
  return result_.has_value();
}

bool PickleMachine::drop(unsigned) {
  // Python lets it take a mark, too.
  if (!marks_.empty() && stack_.size() == marks_.back()) return marks_.pop_back(), true;
  return pop().has_value();
}

bool PickleMachine::drop_mark(unsigned) {
  const auto begin = pop_mark();
  if (begin) stack_.resize(*begin);
  return begin.has_value();
}

bool PickleMachine::duplicate(unsigned) {
  if (stack_.size() <= floor()) return fail_with("there is no value that it could take");
  return push(Value(stack_.back()));
}

bool PickleMachine::small_integer(unsigned width) {
  const auto number = unsigned_of(width);
  return number && push(integer(static_cast<std::int64_t>(*number)));
}

bool PickleMachine::signed_integer(unsigned width) {
  const auto number = unsigned_of(width);
  return number && push(integer(static_cast<std::int32_t>(static_cast<std::uint32_t>(*number))));
}

bool PickleMachine::long_integer(unsigned width) {
  const auto size = unsigned_of(width);
  if (!size || !has(*size)) return false;
  constexpr std::uint64_t kWidest = 8;
  // One byte more holds the sign of numbers from 2^63 on, as addresses are.
  const bool too_wide = *size > kWidest + 1 || (*size == kWidest + 1 && data_[at_ + kWidest] != '\0');
  if (too_wide) {
    at_ += *size;
    return push({});
  }
  const bool negative = *size > 0 && *size <= kWidest && (static_cast<unsigned char>(data_[at_ + *size - 1]) & 0x80U);
  std::uint64_t number = *unsigned_of(std::min(*size, kWidest));
  if (*size > kWidest) ++at_;
  if (negative && *size < kWidest) number |= ~std::uint64_t{0} << (8 * *size);
  return push(integer(static_cast<std::int64_t>(number)));
}

bool PickleMachine::integer_line(unsigned) {
  auto digits = line();
  if (!digits) return false;
  if (digits->ends_with('L')) digits->remove_suffix(1);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits->data(), digits->data() + digits->size(), number);
  if (error == std::errc::result_out_of_range) return push({});
  if (error != std::errc() || end != digits->data() + digits->size()) return fail_with("is not a number");
  return push(integer(number));
}

bool PickleMachine::real(unsigned width) {
  if (!has(width)) return false;
  at_ += width;
  return push({});
}

bool PickleMachine::real_line(unsigned) { return line() && push({}); }

bool PickleMachine::text(unsigned width) {
  const auto size = unsigned_of(width);
  if (!size || !has(*size)) return false;
  at_ += *size;
  return push_text(at_ - *size, *size);
}

bool PickleMachine::bytes(unsigned width) {
  const auto size = unsigned_of(width);
  if (!size || !has(*size)) return false;
  at_ += *size;
  return push({});
}

bool PickleMachine::text_line(unsigned quotes) {
  const auto text = line();
  if (!text) return false;
  if (text->size() < 2 * std::size_t{quotes}) return fail_with("is not text in quotes");
  return push_text(static_cast<std::size_t>(text->data() - data_.data()) + quotes,
                   text->size() - 2 * std::size_t{quotes});
}

bool PickleMachine::list(unsigned) {
  const auto begin = pop_mark();
  if (!begin) return false;
  const Value made = tree_.new_list();
  for (std::size_t i = *begin; i < stack_.size(); ++i) tree_.append(made, stack_[i]);
  stack_.resize(*begin);
  return push(made);
}

bool PickleMachine::tuple(unsigned items) {
  if (stack_.size() < floor() + items) return fail_with("there is no value that it could take");
  const Value made = tree_.new_list();
  for (std::size_t i = stack_.size() - items; i < stack_.size(); ++i) tree_.append(made, stack_[i]);
  stack_.resize(stack_.size() - items);
  return push(made);
}

bool PickleMachine::dictionary(unsigned) {
  const auto begin = pop_mark();
  if (!begin) return false;
  const Value made = tree_.new_dictionary();
  stack_.insert(stack_.begin() + static_cast<std::ptrdiff_t>(*begin), made);
  return set_between(*begin + 1);
}

bool PickleMachine::append(unsigned) {
  const auto item = pop();
  if (!item) return false;
  if (stack_.size() <= floor() || !stack_.back().is(Kind::list)) return fail_with("there is no list to append to");
  tree_.append(stack_.back(), *item);
  return true;
}

bool PickleMachine::append_all(unsigned) {
  const auto begin = pop_mark();
  if (!begin) return false;
  if (*begin <= floor() || !stack_[*begin - 1].is(Kind::list)) return fail_with("there is no list to append to");
  for (std::size_t i = *begin; i < stack_.size(); ++i) tree_.append(stack_[*begin - 1], stack_[i]);
  stack_.resize(*begin);
  return true;
}

bool PickleMachine::set_item(unsigned) {
  if (stack_.size() < floor() + 3) return fail_with("there is no value that it could take");
  return set_between(stack_.size() - 2);
}

bool PickleMachine::set_items(unsigned) {
  const auto begin = pop_mark();
  return begin && set_between(*begin);
}

/// Keys and values from `begin` on belong to the dictionary before them.
bool PickleMachine::set_between(std::size_t begin) {
  if (begin <= floor() || !stack_[begin - 1].is(Kind::dictionary)) return fail_with("there is no dictionary to fill");
  if ((stack_.size() - begin) % 2 != 0) return fail_with("a key has no value");
  for (std::size_t i = begin; i < stack_.size(); i += 2) tree_.set(stack_[begin - 1], stack_[i], stack_[i + 1]);
  stack_.resize(begin);
  return true;
}

bool PickleMachine::memorize(unsigned) { return put_at(memo_.size()); }

bool PickleMachine::put(unsigned width) {
  const auto index = unsigned_of(width);
  return index && put_at(*index);
}

bool PickleMachine::put_line(unsigned) {
  const auto digits = line();
  if (!digits) return false;
  const auto index = parse_integer(*digits);
  if (!index || *index < 0) return fail_with("is not a number");
  return put_at(static_cast<std::uint64_t>(*index));
}

bool PickleMachine::put_at(std::uint64_t index) {
  if (stack_.size() <= floor()) return fail_with("there is no value that it could take");
  // Who writes a pickle counts up, from 0 or 1; numbers far off would only take memory.
  if (index > memo_.size() + 1) return fail_with(fmt::format("the number {} is far from the others", index));
  if (index >= memo_.size()) memo_.resize(index + 1, Value{.kind = Kind::absent});
  memo_[index] = stack_.back();
  return true;
}

bool PickleMachine::get(unsigned width) {
  const auto index = unsigned_of(width);
  return index && get_at(*index);
}

bool PickleMachine::get_line(unsigned) {
  const auto digits = line();
  if (!digits) return false;
  const auto index = parse_integer(*digits);
  if (!index || *index < 0) return fail_with("is not a number");
  return get_at(static_cast<std::uint64_t>(*index));
}

bool PickleMachine::get_at(std::uint64_t index) {
  if (index >= memo_.size() || memo_[index].is(Kind::absent))
    return fail_with(fmt::format("nothing was kept under {}", index));
  return push(memo_[index]);
}

bool PickleMachine::named_line(unsigned) {
  const auto module = line();
  if (!module) return false;
  if (std::string_view(row_->name) == "PERSID") return refuse(fmt::format("asks for {}", quoted(*module)));
  const auto member = line();
  return member && refuse(fmt::format("asks for {}.{}", quoted(*module), quoted(*member)));
}

bool PickleMachine::named_stack(unsigned) {
  const auto member = pop();
  const auto module = member ? pop() : std::nullopt;
  return module && refuse(fmt::format("asks for {}.{}", text_of(*module), text_of(*member)));
}

}  // namespace

Result<Value> read_pickle(std::string_view data, const std::string& name, SnapshotTree& tree) {
  return PickleMachine(data, name, tree).run();
}

}  // namespace gpuwarden::memtrace
