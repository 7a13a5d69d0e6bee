// SPDX-License-Identifier: Apache-2.0
// gpuwarden completion and gpuwarden man: for shells and for packagers, made from the command table.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "exit_codes.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "options.hpp"
#include "render/completion.hpp"
#include "render/man_page.hpp"

namespace gpuwarden::cli {
namespace {

struct Shell {
  std::string_view name;
  std::string (*script)();
};
constexpr auto kShells =
    std::to_array<Shell>({{"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}});

Result<int> run_completion(Context& context) {
  GPUWARDEN_CHECK(refuse_json(context.args, "completion"));
  const std::string name = context.args.rest.size() == 1 ? context.args.rest[0] : "";
  const auto* const shell = std::ranges::find(kShells, name, &Shell::name);
  if (shell == kShells.end())
    return fail(ErrorCode::invalid_argument,
                name.empty() ? "completion: name one shell" : fmt::format("unknown shell '{}'", printable(name)),
                "bash, zsh or fish");
  fmt::print("{}", shell->script());
  return kFine;
}

/// Every page as DIR/gpuwarden.1, DIR/gpuwarden-list.1 ...
Result<void> write_pages(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  GPUWARDEN_CHECK(write_file_atomically(folder / "gpuwarden.1", program_man_page()));
  for (const Subcommand* command : commands()) {
    if (!command->hidden)
      GPUWARDEN_CHECK(
          write_file_atomically(folder / fmt::format("gpuwarden-{}.1", command->name), command_man_page(*command)));
  }
  return {};
}

Result<int> run_man(Context& context) {
  GPUWARDEN_CHECK(refuse_json(context.args, "man"));
  if (const auto folder = context.args.text("output")) {
    GPUWARDEN_CHECK(write_pages(*folder));
    return kFine;
  }
  if (context.args.rest.empty()) {
    fmt::print("{}", program_man_page());
    return kFine;
  }
  const Subcommand* command = find_command(context.args.rest[0]);
  if (command == nullptr)
    return fail(ErrorCode::invalid_argument, fmt::format("unknown command '{}'", printable(context.args.rest[0])),
                "see gpuwarden --help");
  fmt::print("{}", command_man_page(*command));
  return kFine;
}

constexpr auto kManOptions = std::to_array<Option>({
    {"-o,--output", OptionKind::text, "DIR", "write every page there"},
});

}  // namespace

constinit const Subcommand kCompletionCommand{.name = "completion",
                                              .summary = "print what a shell needs to complete gpuwarden's options",
                                              .usage = "gpuwarden completion bash | zsh | fish",
                                              .groups = {},
                                              .rest = Rest::operands,
                                              .actions = "bash zsh fish",
                                              .hidden = true,
                                              .run = run_completion};

constinit const Subcommand kManCommand{.name = "man",
                                       .summary = "print a command's man page",
                                       .usage = "gpuwarden man [COMMAND] | -o DIR",
                                       .groups = {OptionGroup{kManOptions}},
                                       .rest = Rest::operands,
                                       .hidden = true,
                                       .run = run_man};

}  // namespace gpuwarden::cli
