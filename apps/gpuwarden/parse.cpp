// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "command.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::cli {
namespace {

std::vector<std::string> option_words(const std::vector<Option>& options) {
  std::vector<std::string> words;
  for (const Option& option : options) {
    for (const auto name : split(option.names, ',')) words.emplace_back(name);
    for (const auto name : split_words(option.also)) words.emplace_back(name);
  }
  return words;
}

/// One command line on its way into Args.
class Parser {
 public:
  Parser(const Subcommand& command, std::span<const std::string> words)
      : command_(command), options_(options_of(command)), words_(words) {}

  Result<Args> parse() {
    while (next_ < words_.size()) {
      const std::string& word = words_[next_];
      if (looks_like_option(word)) {
        ++next_;
        GPUWARDEN_CHECK(word.starts_with("--") ? take_long(word) : take_short(word));
      } else if (command_.rest == Rest::none) {
        return std::unexpected(unknown(word));
      } else if (command_.rest == Rest::command) {  // its own options follow
        args_.rest.assign(words_.begin() + static_cast<std::ptrdiff_t>(next_), words_.end());
        break;
      } else {
        args_.rest.push_back(word);
        ++next_;
      }
    }
    return std::move(args_);
  }

  Error unknown(std::string_view word) const {
    const std::string name(word.substr(0, word.find('=')));
    const std::string see = fmt::format("see gpuwarden {} --help", command_.name);
    if (!name.starts_with('-'))
      return {ErrorCode::invalid_argument, fmt::format("unexpected argument '{}'", printable(word)), see};
    const Elsewhere* other = elsewhere(name);
    // "-N2", as srun takes it.
    if (other == nullptr && !name.starts_with("--")) other = elsewhere(name.substr(0, 2));
    if (other != nullptr) {
      const bool attached = name.size() < word.size();
      const std::string behind(attached ? word.substr(name.size() + 1) : "");
      return refusal_of(other, name, attached ? &behind : is_value() ? &words_[next_] : nullptr);
    }
    const std::string close = closest_match(name, option_words(options_));
    return {ErrorCode::invalid_argument, fmt::format("unknown option '{}'", printable(name)),
            close.empty() ? see : fmt::format("did you mean '{}'?", close)};
  }

 private:
  const Elsewhere* elsewhere(std::string_view name) const { return find_foreign_option(command_.elsewhere, name); }

  /// Whether the word is an option of another program that means nothing here and does no harm.
  Result<bool> take_needless(std::string_view word) {
    const std::size_t equals = word.find('=');
    const Elsewhere* other = elsewhere(word.substr(0, equals));
    if (!is_taken(other)) return false;
    GPUWARDEN_TRY(const bool next,
                  takes_next_word(*other, equals != std::string_view::npos, is_value() ? &words_[next_] : nullptr));
    if (next) ++next_;
    args_.taken.push_back(other);
    return true;
  }

  /// What is an option of another program, or of none.
  Result<void> take_elsewhere(std::string_view word) {
    GPUWARDEN_TRY(const bool needless, take_needless(word));
    return needless ? Result<void>{} : std::unexpected(unknown(word));
  }

  const Option* find(std::string_view name) const {
    const auto is_in = [&](const std::vector<std::string_view>& names) {
      return std::ranges::find(names, name) != names.end();
    };
    auto found = std::ranges::find_if(options_, [&](const Option& option) { return is_in(split(option.names, ',')); });
    // Another option's own name goes before other programs' names for one.
    if (found == options_.end())
      found = std::ranges::find_if(options_, [&](const Option& option) { return is_in(split_words(option.also)); });
    return found == options_.end() ? nullptr : &*found;
  }

  Result<void> take_long(std::string_view word) {
    const std::size_t equals = word.find('=');
    const Option* option = find(word.substr(0, equals));
    // torchrun's "--nproc_per_node", too.
    if (option == nullptr) option = find(hyphenated(word.substr(0, equals)));
    if (option == nullptr) return take_elsewhere(word);
    if (equals == std::string_view::npos) return take(*option, std::nullopt);
    return take(*option, std::string(word.substr(equals + 1)));
  }

  /// "-n", "-n2", "-n=2", "-pi0": flags may stand together, and a value end them. "-tp 2" is vLLM's.
  Result<void> take_short(std::string_view word) {
    if (word.size() > 2) {
      const std::string_view name = word.substr(0, word.find('='));
      const Option* option = find(name);
      if (option != nullptr && name == word) return take(*option, std::nullopt);
      if (option != nullptr) return take(*option, std::string(word.substr(name.size() + 1)));
      // mpirun's "-np 4" is not "-n p".
      if (elsewhere(name) != nullptr) return take_elsewhere(word);
    }
    if (word.size() == 2 && find(word) == nullptr) return take_elsewhere(word);
    for (std::size_t i = 1; i < word.size(); ++i) {
      const Option* option = find(fmt::format("-{}", word[i]));
      if (option == nullptr) return std::unexpected(unknown(i == 1 ? word : fmt::format("-{}", word[i])));
      std::string_view behind = word.substr(i + 1);
      if (option->kind != OptionKind::flag) {
        if (behind.starts_with('=')) behind.remove_prefix(1);
        return take(*option, behind.empty() ? std::nullopt : std::optional(std::string(behind)));
      }
      GPUWARDEN_CHECK(take(*option, std::nullopt));
    }
    return {};
  }

  Result<void> take(const Option& option, std::optional<std::string> value) {
    const std::string key = key_of(option);
    const bool several = option.kind == OptionKind::list || option.kind == OptionKind::repeated;
    if (option.kind == OptionKind::flag && value)
      return fail(ErrorCode::invalid_argument, fmt::format("--{} takes no value", key));
    if (option.kind != OptionKind::flag && !several && args_.has(key))
      return fail(ErrorCode::invalid_argument, fmt::format("--{} is given more than once", key));
    auto values = args_.all(key);
    if (value) values.push_back(std::move(*value));
    if (!value) GPUWARDEN_CHECK(take_first(option, key, values));
    while (option.kind == OptionKind::list && is_value()) values.push_back(words_[next_++]);
    args_.set(key, values);
    return {};
  }

  bool is_value() const { return next_ < words_.size() && !looks_like_option(words_[next_]); }

  /// The value that stands in a word of its own.
  Result<void> take_first(const Option& option, const std::string& key, std::vector<std::string>& values) {
    if (option.kind == OptionKind::flag) return {};
    if (option.kind == OptionKind::optional) {
      // Any other word may be the command to run.
      const bool duration = std::string_view(option.value) == "DURATION";
      if (duration && is_value() && parse_duration(words_[next_])) values.push_back(words_[next_++]);
      return {};
    }
    if (!is_value())
      return fail(ErrorCode::invalid_argument, fmt::format("--{} needs a value", key),
                  fmt::format("write {}; a value that begins with '-' goes behind '='", synopsis_of(option)));
    values.push_back(words_[next_++]);
    return {};
  }

  const Subcommand& command_;
  std::vector<Option> options_;
  std::span<const std::string> words_;
  std::size_t next_ = 0;
  Args args_;
};

}  // namespace

Result<Args> parse_arguments(const Subcommand& command, const std::vector<std::string>& arguments) {
  const auto separator = std::ranges::find(arguments, "--");
  Parser parser(command, std::span(arguments.begin(), separator));
  GPUWARDEN_TRY(Args args, parser.parse());
  if (separator == arguments.end()) return args;
  if (command.rest == Rest::none) return std::unexpected(parser.unknown("--"));
  args.rest.insert(args.rest.end(), separator + 1, arguments.end());
  return args;
}

}  // namespace gpuwarden::cli
