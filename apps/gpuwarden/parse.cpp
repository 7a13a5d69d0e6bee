// SPDX-License-Identifier: Apache-2.0
// The only file that knows the parser library.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "command.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::cli {
namespace {

/// "--wait" stands for "--wait=" this.
constexpr const char* kLeftOut = "\x01";

std::vector<std::string> option_words(const std::vector<Option>& options) {
  std::vector<std::string> words;
  for (const Option& option : options) {
    for (const auto name : split(option.names, ',')) words.emplace_back(name);
  }
  return words;
}

/// Options whose value may be left out take it only behind "=", so that they never swallow the next word.
void mark_left_out(std::vector<std::string>& words, const std::vector<Option>& options) {
  for (std::string& word : words) {
    const bool optional = std::ranges::any_of(options, [&](const Option& option) {
      return option.kind == OptionKind::optional && word == "--" + key_of(option);
    });
    if (optional) word += std::string("=") + kLeftOut;
  }
}

void declare(CLI::App& app, const Option& option, std::vector<std::string>& values, bool& given) {
  if (option.kind == OptionKind::flag) {
    app.add_flag(option.names, given);
    return;
  }
  CLI::Option* declared = app.add_option(option.names, values);
  constexpr int kMost = 4096;
  if (option.kind == OptionKind::list)
    declared->expected(1, kMost);
  else if (option.kind == OptionKind::repeated)  // one value each time: only without a limit does the parser heed that
    declared->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args(false);
  else
    declared->expected(1, 1)->allow_extra_args(false);
}

Error unknown_word(const std::string& word, const std::vector<Option>& options, const Command& command) {
  const std::string name = word.substr(0, word.find('='));
  if (!name.starts_with("-")) {
    return {ErrorCode::invalid_argument, fmt::format("unexpected argument '{}'", printable(word)),
            fmt::format("see gpuwarden {} --help", command.name)};
  }
  const std::string close = closest_match(name, option_words(options));
  return {
      ErrorCode::invalid_argument, fmt::format("unknown option '{}'", printable(name)),
      close.empty() ? fmt::format("see gpuwarden {} --help", command.name) : fmt::format("did you mean '{}'?", close)};
}

}  // namespace

Result<Args> parse_arguments(const Command& command, const std::vector<std::string>& arguments) {
  const std::vector<Option> options = options_of(command);
  const auto separator = std::ranges::find(arguments, "--");
  std::vector<std::string> words(arguments.begin(), separator);
  mark_left_out(words, options);
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  if (command.rest == Rest::command) app.prefix_command();
  std::vector<std::vector<std::string>> values(options.size());
  const auto given = std::make_unique<bool[]>(options.size());
  for (std::size_t i = 0; i < options.size(); ++i) declare(app, options[i], values[i], given[i]);
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return fail(ErrorCode::invalid_argument, printable(error.what()),
                fmt::format("see gpuwarden {} --help", command.name));
  }
  Args args;
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (given[i]) args.set(key_of(options[i]), {});
    if (values[i].empty()) continue;
    if (values[i] == std::vector<std::string>{kLeftOut}) values[i].clear();
    const bool several = options[i].kind == OptionKind::list || options[i].kind == OptionKind::repeated;
    if (values[i].size() > 1 && !several) {
      return fail(ErrorCode::invalid_argument, fmt::format("--{} is given more than once", key_of(options[i])));
    }
    args.set(key_of(options[i]), values[i]);
  }
  args.rest = app.remaining();
  const auto stray = std::ranges::find_if(args.rest, [&](const std::string& word) {
    // Behind the first word of a foreign command line its own options follow.
    const bool first = &word == &args.rest.front();
    const bool option = word.starts_with("-") && word != "-";  // "-" alone is standard input
    return command.rest == Rest::none || (option && (first || command.rest == Rest::operands));
  });
  if (stray != args.rest.end()) return std::unexpected(unknown_word(*stray, options, command));
  if (separator != arguments.end()) args.rest.insert(args.rest.end(), separator + 1, arguments.end());
  if (separator != arguments.end() && command.rest == Rest::none)
    return std::unexpected(unknown_word("--", options, command));
  return args;
}

}  // namespace gpuwarden::cli
