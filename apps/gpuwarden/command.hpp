// SPDX-License-Identifier: Apache-2.0
// The command line's own thin interface: a command is a row of a table and a function.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"

namespace gpuwarden::cli {

enum class OptionKind {
  flag,      ///< --json
  text,      ///< --name TEXT
  list,      ///< --gpu-ids 0,2 or 0 2 3
  optional,  ///< --wait or --wait=DURATION
  repeated,  ///< --knowledge A --knowledge B
};

/// One option. `names` as people write them: "-n,--num-gpus". The last long name is its key in Args.
struct Option {
  const char* names;
  OptionKind kind;
  const char* value;  ///< what stands for the value in the help
  const char* help;
};

/// What was given, by the options' keys ("num-gpus").
class Args {
 public:
  bool has(const std::string& key) const { return values_.contains(key); }
  /// The value; empty for a flag, or an optional value that was left out.
  std::optional<std::string> text(const std::string& key) const;
  /// Values of a list, split at commas.
  std::vector<std::string> list(const std::string& key) const;
  /// All values of an option that may be repeated, as they are.
  std::vector<std::string> all(const std::string& key) const;
  void set(const std::string& key, const std::vector<std::string>& values) { values_[key] = values; }
  /// Sets what is not set yet: how the environment and files stand behind the command line.
  void fall_back(const std::string& key, const std::vector<std::string>& values) { values_.try_emplace(key, values); }
  std::vector<std::string> rest;  ///< operands, and everything after "--"

 private:
  std::map<std::string, std::vector<std::string>> values_;
};

struct Command;

/// What a command runs with.
struct Context {
  Args args;
  Environment environment;
  const Command* command = nullptr;
};

/// What may stand beside options.
enum class Rest {
  none,
  operands,  ///< words among the options; a foreign command line behind "--"
  command,   ///< a foreign command line from the first word on
};

struct Command {
  const char* name;
  const char* summary;
  const char* usage;
  std::vector<std::span<const Option>> options;
  Rest rest;
  int (*run)(Context&);
};

const std::vector<Command>& commands();
const Command* find_command(std::string_view name);
/// All options of a command, those that every command has included.
std::vector<Option> options_of(const Command& command);
/// "num-gpus" of "-n,--num-gpus".
std::string key_of(const Option& option);

/// Turns argv (without program and command names) into Args. Fails with invalid_argument.
Result<Args> parse_arguments(const Command& command, const std::vector<std::string>& arguments);

/// The help of one command, or of the whole program.
std::string help_for(const Command& command);
std::string overview();

/// Prints "gpuwarden: what" and "hint: …" to stderr; gives the exit code.
int complain(const Error& error);
/// The same of a program that cannot be started: 126 or 127, as shells have it.
int refuse_program(const Error& error);
void warn(std::string_view text);

// The commands.
int run_list(Context& context);
int run_snapshot(Context& context);
int run_select(Context& context);
int run_doctor(Context& context);
int run_diagnose(Context& context);
int run_driver(Context& context);
int run_bundle(Context& context);
int run_env(Context& context);
int run_run(Context& context);
int run_lease(Context& context);
int run_sim(Context& context);
int run_compat(Context& context);
int run_memory(Context& context);
int run_plan(Context& context);

}  // namespace gpuwarden::cli
