// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>

#include "command.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/planning/pasted_line.hpp"

namespace gpuwarden::cli {
namespace {

int unknown_command(const std::string& name) {
  std::vector<std::string> names{"help", "version"};
  for (const Subcommand* command : commands()) names.emplace_back(command->name);
  const std::string close = closest_match(name, names);
  return complain({ErrorCode::invalid_argument, fmt::format("unknown command '{}'", printable(name)),
                   close.empty() ? "see gpuwarden --help" : fmt::format("did you mean '{}'?", close)});
}

int show_help(const std::vector<std::string>& words) {
  if (words.empty()) {
    fmt::print("{}", overview());
    return kFine;
  }
  const Subcommand* command = find_command(words[0]);
  if (command == nullptr) return unknown_command(words[0]);
  fmt::print("{}", help_for(*command));
  return kFine;
}

/// The names of a command's options with a value.
std::vector<std::string> valued_options_of(const Subcommand& command) {
  std::vector<std::string> names;
  for (const Option& option : options_of(command)) {
    if (option.kind == OptionKind::flag || option.kind == OptionKind::optional) continue;
    for (const std::string_view name : split(option.names, ',')) names.emplace_back(name);
  }
  return names;
}

int dispatch(const std::vector<std::string>& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h") return show_help({});
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  if (words[0] == "help") return show_help(rest);
  if (words[0] == "--version" || words[0] == "version" || words[0] == "-V") {
    fmt::print("gpuwarden {}\n", GPUWARDEN_VERSION);
    return kFine;
  }
  const Subcommand* command = find_command(words[0]);
  if (command == nullptr) return unknown_command(words[0]);
  auto own = command == &kPlanCommand ? planning::without_launcher(rest, valued_options_of(*command)) : rest;
  if (!own) return complain(own.error());
  auto args = parse_arguments(*command, *own);
  if (!args) return complain(args.error());
  if (args->has("help")) return show_help({command->name});
  if (!args->has("quiet")) {
    for (const std::string& sentence : taken_sentences(args->taken)) warn(sentence);
  }
  Context context{std::move(*args), current_environment(), command, rest};
  const auto code = command->run(context);
  return code ? *code : complain(code.error());
}

/// What was printed may not have been written: a full disk must not look like success.
int written(int exit_code) {
  const bool lost = std::ferror(stdout) != 0;
  errno = 0;
  if (std::fflush(stdout) == 0 && !lost) return exit_code;
  // Of an earlier loss it can still be asked whether there is anything to write to.
  const bool closed = (::fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) == O_RDONLY;
  const int why = closed ? EBADF : (errno != 0 ? errno : ENOSPC);
  if (why == EPIPE) return exit_code;  // nobody reads any more, and SIGPIPE is ignored
  complain(error_from_errno(why, "cannot write to standard output"));
  return exit_code == kFine ? kUnavailable : exit_code;
}

}  // namespace
}  // namespace gpuwarden::cli

int main(int argc, char** argv) {
  using namespace gpuwarden;
  // Started without standard streams, the next file opened would take their numbers.
  for (int fd = 0; fd < 3; ++fd) {
    // What is printed into a standard output that was closed must still be lost with an error.
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR);
  }
  try {
    return cli::written(cli::dispatch({argv + 1, argv + argc}));
  } catch (const std::exception& exception) {
    // The formatting library throws where the buffer of standard output cannot be emptied.
    if (std::ferror(stdout) != 0) return cli::written(cli::kFine);
    return cli::complain(
        {ErrorCode::failed, fmt::format("unexpected: {}", exception.what()), "this is a bug: please report it"});
  }
}
