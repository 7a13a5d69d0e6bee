// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "gpuwarden/base/foreign_option.hpp"
#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/foreign_options.hpp"
#include "gpuwarden/planning/pasted_line.hpp"
#include "planning/plan_name.hpp"

namespace gpuwarden::planning {
namespace {

constexpr auto kListNames = std::to_array<std::string_view>({"lora-targets", "calibrate"});

bool has_name(std::span<const std::string_view> table, std::string_view name) {
  return std::ranges::find(table, name) != table.end();
}

class LineReader {
 public:
  explicit LineReader(std::vector<std::string> words) : words_(std::move(words)) {}

  Result<PastedLine> read() {
    bool options = true;
    while (next_ < words_.size()) {
      const std::string& word = words_[next_++];
      if (options && word == "--") {
        options = false;
      } else if (options && looks_like_option(word)) {
        GPUWARDEN_CHECK(take_option(word));
      } else {
        GPUWARDEN_CHECK(set("model", {word}));
      }
    }
    line_.needless = taken_sentences(taken_);
    return std::move(line_);
  }

 private:
  Result<void> take_option(const std::string& word) {
    const std::size_t equals = word.find('=');
    const bool attached = equals != std::string::npos;
    const std::string typed = word.substr(0, equals);
    const std::string name = plan_name_of(typed);
    if (name.empty()) return take_foreign(word, typed);
    if (!has_value(name)) {
      if (attached) return fail(ErrorCode::invalid_argument, fmt::format("{} takes no value", printable(typed)));
      return set(name, {});
    }
    if (!attached && next_value() == nullptr)
      return fail(ErrorCode::invalid_argument, fmt::format("{} needs a value", printable(typed)));
    std::vector<std::string> values{attached ? word.substr(equals + 1) : words_[next_++]};
    if (!has_name(kListNames, name)) return set(name, std::move(values));
    while (next_value() != nullptr) values.push_back(words_[next_++]);
    std::vector<std::string> parts;
    for (const std::string& value : values) {
      for (const std::string_view part : split(value, ',')) parts.emplace_back(part);
    }
    return set(name, std::move(parts));
  }

  Result<void> take_foreign(const std::string& word, const std::string& typed) {
    const ForeignOption* other = find_foreign_option(kForeignOptions, typed);
    const bool attached = typed.size() < word.size();
    const std::string behind = attached ? word.substr(typed.size() + 1) : "";
    if (!is_taken(other)) return std::unexpected(refusal_of(other, typed, attached ? &behind : next_value()));
    GPUWARDEN_TRY(const bool value_follows, takes_next_word(*other, attached, next_value()));
    if (value_follows) ++next_;
    taken_.push_back(other);
    return {};
  }

  Result<void> set(const std::string& name, std::vector<std::string> values) {
    if (name == "model" && line_.words.has(name))
      return fail(ErrorCode::invalid_argument,
                  fmt::format("one model at a time: '{}' is the second", printable(values.front())));
    if (line_.words.has(name))
      return fail(ErrorCode::invalid_argument, fmt::format("--{} is given more than once", name));
    line_.words.set(name, std::move(values));
    return {};
  }

  /// The next word, where it can be an option's value.
  const std::string* next_value() const {
    return next_ < words_.size() && !looks_like_option(words_[next_]) ? &words_[next_] : nullptr;
  }

  std::vector<std::string> words_;
  std::size_t next_ = 0;
  PastedLine line_;
  std::vector<const ForeignOption*> taken_;
};

}  // namespace

Result<PastedLine> read_pasted_line(std::string_view line) {
  const auto words = split_shell_words(line);
  if (!words) return fail(ErrorCode::invalid_argument, "a quote is not closed on this line");
  GPUWARDEN_TRY(auto own, without_launcher(*words));
  return LineReader(std::move(own)).read();
}

}  // namespace gpuwarden::planning
