// SPDX-License-Identifier: Apache-2.0
// The command line's own thin interface: a command is a row of a table and a function, an option a row beside it.
#pragma once

#include <fmt/core.h>

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpuwarden/base/foreign_option.hpp"
#include "gpuwarden/base/named_values.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"

namespace gpuwarden::cli {

enum class OptionKind {
  flag,      ///< --json
  text,      ///< --name TEXT
  list,      ///< --gpu-ids 0,2 or 0 2 3
  optional,  ///< --wait or --wait=5s; --wait 5s too, where the value is a DURATION
  repeated,  ///< --knowledge A --knowledge B
};

/// One option, and all that help, parser, completion and man page need to know of it.
struct Option {
  const char* names;  ///< as people write them: "-n,--num-gpus"; the last long name is its key in Args
  OptionKind kind;
  const char* value;  ///< what stands for the value in the help; FILE and DIR are completed as such
  const char* help;
  const char* choices = "";  ///< the words a shell offers for the value, with blanks between
  const char* actions = "";  ///< the actions it is for, with blanks between ("use exec"); empty: all
  const char* also = "";     ///< other programs' names for it, with blanks between: taken, not shown in the help
};

using Elsewhere = ForeignOption;

/// Options that belong together, under a title of the help.
struct OptionGroup {
  std::span<const Option> options;
  const char* title = "options";
};

/// What was given, by the options' keys ("num-gpus").
struct Args : NamedValues {
  Args() : NamedValues("--") {}
  std::vector<std::string> rest;        ///< operands, and everything after "--"
  std::vector<const Elsewhere*> taken;  ///< options of other programs that mean nothing here
};

struct Subcommand;

/// What a command runs with.
struct Context {
  Args args;
  Environment environment;
  const Subcommand* command = nullptr;
  std::vector<std::string> typed;  ///< the arguments, as they were given
  std::string_view action;         ///< of a command that has actions
};

/// One of a command's actions, which its first operand names.
struct Action {
  std::string_view name;
  Result<int> (*run)(Context&);  ///< finds in Context::args the operands behind the name alone
  std::size_t operands = 0;      ///< at most
  bool answers = true;           ///< prints something that has a form in JSON
};
inline constexpr std::size_t kManyOperands = ~std::size_t{0};

/// What may stand beside options.
enum class Rest {
  none,
  operands,  ///< words among the options; a foreign command line behind "--"
  command,   ///< a foreign command line from the first word on
};

struct Subcommand {
  const char* name;
  const char* summary;
  const char* usage;
  std::array<OptionGroup, 8> groups;
  Rest rest;
  const char* actions = "";  ///< what its first operand may be, with blanks between; empty: anything
  const char* details = "";  ///< what the man page says beyond the summary
  bool hidden = false;       ///< not in the overview: for shells and packagers
  std::span<const Elsewhere> elsewhere = {};
  Result<int> (*run)(Context&);  ///< the exit code, or the error that is printed
};

/// All commands, in the order of the overview.
std::span<const Subcommand* const> commands();
const Subcommand* find_command(std::string_view name);
/// Of the options that every command has, those that mean something to this one: all, or, where it looks at no machine,
/// those alone that do not say how to look at one.
std::vector<Option> common_options_of(const Subcommand& command);
/// All options of a command, those that every command has included.
std::vector<Option> options_of(const Subcommand& command);
/// "num-gpus" of "-n,--num-gpus".
std::string key_of(const Option& option);
/// "--num-gpus N", "--wait[=DURATION]": as it is typed, all names.
std::string synopsis_of(const Option& option);
/// Runs the action that the first operand names, or `usual` where there is no operand. Fails with invalid_argument
/// where it names none, and for options and operands that are not for this action.
Result<int> run_action(Context& context, std::span<const Action> actions, std::string_view usual = {});

/// Turns argv (without program and command names) into Args. Fails with invalid_argument.
Result<Args> parse_arguments(const Subcommand& command, const std::vector<std::string>& arguments);

/// The help of one command, or of the whole program.
std::string help_for(const Subcommand& command);
std::string overview();

/// Writes to stderr. Where that is a full disk or closed, the text is lost and nothing else: an exit code must not be.
void write_stderr(std::string_view text);
template <class... Values>
void say(fmt::format_string<Values...> format, Values&&... values) {
  write_stderr(fmt::format(format, std::forward<Values>(values)...));
}
/// Prints "gpuwarden: what" and "hint: …" to stderr; gives the exit code.
int complain(const Error& error);
/// The same of a program that cannot be started: 126 or 127, as shells have it.
int refuse_program(const Error& error);
void warn(std::string_view text);
std::string warning_line(std::string_view text);
/// Asks on stderr; whether the answer on stdin is yes.
bool ask(std::string_view question);

// The commands, each in commands/<name>.cpp with its options.
extern const Subcommand kListCommand;
extern const Subcommand kTopCommand;
extern const Subcommand kServeCommand;
extern const Subcommand kSelectCommand;
extern const Subcommand kPlanCommand;
extern const Subcommand kSnapshotCommand;
extern const Subcommand kDoctorCommand;
extern const Subcommand kDiagnoseCommand;
extern const Subcommand kDriverCommand;
extern const Subcommand kBenchCommand;
extern const Subcommand kBundleCommand;
extern const Subcommand kEnvCommand;
extern const Subcommand kRunCommand;
extern const Subcommand kRecordCommand;
extern const Subcommand kReportCommand;
extern const Subcommand kLeaseCommand;
extern const Subcommand kDisableCommand;
extern const Subcommand kEnableCommand;
extern const Subcommand kCompatCommand;
extern const Subcommand kMemoryCommand;
extern const Subcommand kSimCommand;
extern const Subcommand kSlurmCommand;
extern const Subcommand kCompletionCommand;
extern const Subcommand kManCommand;
extern const Subcommand kHostAgentCommand;

}  // namespace gpuwarden::cli
