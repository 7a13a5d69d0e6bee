// SPDX-License-Identifier: Apache-2.0
// gpuwarden env: toolkits side by side.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "commands/env_parts.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/knowledge/compatibility.hpp"
#include "gpuwarden/launch/run.hpp"
#include "gpuwarden/toolkits/activation.hpp"
#include "gpuwarden/toolkits/modulefile.hpp"
#include "gpuwarden/toolkits/start_file.hpp"
#include "gpuwarden/toolkits/toolkits.hpp"
#include "machine.hpp"
#include "programs.hpp"
#include "render/print_json.hpp"
#include "shared_options.hpp"

namespace gpuwarden::cli {
namespace {

constexpr auto kEnvOptions = std::to_array<Option>({
    {"--for", OptionKind::text, "ARCH", "use, exec: the newest toolkit that builds for sm_89, \"NVIDIA L4\", native",
     "", "use exec module persist"},
    {"--none", OptionKind::flag, "", "use: take back what an earlier use has set", "", "use"},
    {"--shell", OptionKind::text, "SHELL", "use, persist, generate: bash, zsh or fish (the shell around this)",
     "bash zsh fish", "use persist generate"},
    {"--file", OptionKind::text, "FILE", "persist: this start file", "", "persist"},
    {"--remove", OptionKind::flag, "", "persist: take the block out again", "", "persist"},
    {"-o,--output", OptionKind::text, "FILE", "module: write there instead of to standard output", "", "module"},
    {"--lmod", OptionKind::flag, "", "module: in Lua, for Lmod (a FILE that ends with .lua is so by itself)", "",
     "module"},
    {"--cuda", OptionKind::text, "VERSION", "create: the CUDA version", "", "create"},
    {"--python", OptionKind::text, "VERSION", "create: the Python version", "", "create"},
    {"--with", OptionKind::list, "PACKAGE...", "create: packages, for example torch", "", "create"},
    {"--tool", OptionKind::text, "TOOL", "create: mamba, conda, micromamba, uv or venv (the first that is installed)",
     "mamba conda micromamba uv venv", "create"},
    {"--yes", OptionKind::flag, "", "create: run the commands instead of showing them", "", "create"},
    {"--root", OptionKind::text, "DIR", "look at the software below this folder: an image, a chroot", "",
     "list use module check create generate"},
    {"--from", OptionKind::list, "FILE...", "list, check, generate: of a captured machine instead of this one", "",
     "list check generate"},
});

using knowledge::Knowledge;
using nlohmann::json;

struct Action {
  std::string_view name;
  int (*run)(Context&);
};

constexpr auto kActions = std::to_array<Action>({
    {"list", env_list},
    {"use", env_use},
    {"exec", env_exec},
    {"module", env_module},
    {"persist", env_persist},
    {"check", env_check},
    {"create", env_create},
    {"explain", env_explain},
    {"generate", env_generate},
});

/// An operand too many, where an action has taken what it needs.
std::optional<int> left_over(const Context& context, std::string_view action) {
  if (context.args.rest.empty()) return std::nullopt;
  return complain({ErrorCode::invalid_argument,
                   fmt::format("env {}: unexpected argument '{}'", action, printable(context.args.rest.front())),
                   "see gpuwarden env --help"});
}

json as_json(const facts::Toolkit& toolkit, std::optional<knowledge::Version> driver, const std::string& chosen,
             const Knowledge& knowledge) {
  return {{"version", toolkit.version},
          {"path", toolkit.path},
          {"origin", toolkit.origin},
          {"nvcc", toolkit.nvcc ? json(*toolkit.nvcc) : json()},
          {"libraries", toolkit.libraries ? json(*toolkit.libraries) : json()},
          {"active", toolkit.active},
          {"reasons", toolkits::reasons_in_use(toolkit)},
          {"chosen_by_env_use", toolkit.path == chosen},
          {"targets", toolkits::targets_of(toolkit, knowledge)},
          {"on_driver", toolkits::on_driver(toolkit, driver, knowledge)}};
}

std::string list_text(const facts::Snapshot& snapshot, const std::string& chosen, const Knowledge& knowledge) {
  const auto driver = driver_of(snapshot);
  const auto sorted = toolkits::newest_first(software_of(snapshot).toolkits);
  std::string text = snapshot.simulated ? fmt::format("SIMULATED {}  ", printable(snapshot.fleet)) : "";
  text += driver ? fmt::format("driver {}\n", to_string(*driver)) : "driver: not known\n";
  if (sorted.empty()) return text + "no CUDA toolkit was found\n";
  std::size_t version = 0;
  std::size_t path = 0;
  for (const auto* toolkit : sorted) {
    version = std::max(version, toolkit->version.size());
    path = std::max(path, toolkit->path.size());
  }
  for (const auto* toolkit : sorted) {
    const std::string runs = toolkits::on_driver(*toolkit, driver, knowledge);
    std::vector<std::string> notes = toolkits::reasons_in_use(*toolkit);
    if (toolkit->path == chosen) notes.emplace_back("chosen by env use");
    if (!toolkit->nvcc) notes.emplace_back("has no nvcc");
    text += fmt::format("{} {:<{}}  {:<{}}  {}\n", toolkit->active ? '*' : ' ', printable(toolkit->version), version,
                        printable(toolkit->path), path, toolkits::targets_of(*toolkit, knowledge));
    if (!notes.empty()) text += fmt::format("    {}\n", join(notes, "; "));
    if (!runs.empty() && runs != "as they are") text += fmt::format("    its programs run {}\n", runs);
  }
  return text;
}

/// Prints the changes for the shell to evaluate; on a terminal nobody does, so it is said. `what` was asked for.
int hand_out(const Context& context, const std::vector<toolkits::Change>& changes, const std::string& what) {
  const auto shell = shell_of(context);
  if (!shell) return complain(shell.error());
  if (context.args.has("json")) {
    json values = json::object();
    for (const auto& change : changes) values[change.name] = change.value ? json(*change.value) : json();
    print_json({{"schema", facts::kJsonSchema}, {"variables", values}});
    return kFine;
  }
  fmt::print("{}", toolkits::commands_for(*shell, changes));
  if (::isatty(STDOUT_FILENO) != 0)
    fmt::print(stderr, "hint: these are commands for the shell: {}\n",
               *shell == toolkits::Shell::fish ? fmt::format("gpuwarden env use {} | source", what)
                                               : fmt::format("eval \"$(gpuwarden env use {})\"", what));
  return kFine;
}

int unknown_action(const std::string& name) {
  std::vector<std::string> names;
  for (const Action& action : kActions) names.emplace_back(action.name);
  const std::string close = closest_match(name, names);
  return complain({ErrorCode::invalid_argument,
                   name.empty() ? "env: no action was given"
                                : fmt::format("unknown action '{}' for `gpuwarden env`", printable(name)),
                   close.empty() ? "one of " + join(names, ", ") : fmt::format("did you mean '{}'?", close)});
}

}  // namespace

int env_list(Context& context) {
  if (const auto wrong = left_over(context, "list")) return *wrong;
  const auto snapshot = look_around(context, false);
  if (!snapshot) return complain(snapshot.error());
  const auto knowledge = open_knowledge(context);
  if (!knowledge) return complain(knowledge.error());
  const std::string chosen = toolkits::activated(context.environment);
  if (!context.args.has("json")) {
    fmt::print("{}", list_text(*snapshot, chosen, *knowledge));
    return kFine;
  }
  const auto driver = driver_of(*snapshot);
  json toolkits = json::array();
  for (const auto* toolkit : toolkits::newest_first(software_of(*snapshot).toolkits))
    toolkits.push_back(as_json(*toolkit, driver, chosen, *knowledge));
  print_json({{"schema", facts::kJsonSchema},
              {"simulated", snapshot->simulated},
              {"driver", driver ? json(to_string(*driver)) : json()},
              {"toolkits", toolkits}});
  return kFine;
}

int env_use(Context& context) {
  if (context.args.has("none")) {
    if (const auto wrong = left_over(context, "use --none")) return *wrong;
    const auto changes = toolkits::deactivate(context.environment);
    if (changes.empty()) fmt::print(stderr, "gpuwarden: no toolkit was chosen in this shell; nothing is taken back\n");
    return hand_out(context, changes, "--none");
  }
  const auto snapshot = look_around(context, context.args.text("for") == "native");
  if (!snapshot) return complain(snapshot.error());
  const auto toolkit = take_toolkit(context, *snapshot);
  if (!toolkit) return complain(toolkit.error());
  if (const auto wrong = left_over(context, "use")) return *wrong;
  return hand_out(context, toolkits::activate(*toolkit, software_of(*snapshot).toolkits, context.environment),
                  toolkit->version);
}

int env_exec(Context& context) {
  const auto snapshot = look_around(context, context.args.text("for") == "native");
  if (!snapshot) return complain(snapshot.error());
  const auto toolkit = take_toolkit(context, *snapshot);
  if (!toolkit) return complain(toolkit.error());
  const auto& words = context.args.rest;
  if (words.empty())
    return complain({ErrorCode::invalid_argument, "env exec: no command to run", "gpuwarden env exec 12.4 -- make"});
  const Environment environment = toolkits::with_changes(
      context.environment, toolkits::activate(*toolkit, software_of(*snapshot).toolkits, context.environment));
  if (const auto found = launch::check_program(words.front(), environment); !found)
    return refuse_program(found.error());
  return exec_program(words, environment);
}

int env_module(Context& context) {
  const auto snapshot = look_around(context, context.args.text("for") == "native");
  if (!snapshot) return complain(snapshot.error());
  const auto toolkit = take_toolkit(context, *snapshot);
  if (!toolkit) return complain(toolkit.error());
  if (const auto wrong = left_over(context, "module")) return *wrong;
  const auto file = context.args.text("output");
  const bool lua = context.args.has("lmod") || (file && file->ends_with(".lua"));
  const std::string text =
      toolkits::modulefile(*toolkit, lua ? toolkits::ModuleSyntax::lua : toolkits::ModuleSyntax::tcl);
  if (!file) {
    fmt::print("{}", text);
    return kFine;
  }
  if (const auto written = write_file_atomically(*file, text); !written) return complain(written.error());
  return kFine;
}

int env_persist(Context& context) {
  const auto shell = shell_of(context, true);
  if (!shell) return complain(shell.error());
  const auto given = context.args.text("file");
  const auto file =
      given ? Result<std::filesystem::path>(*given) : toolkits::start_file_of(*shell, context.environment);
  if (!file) return complain(file.error());
  if (context.args.has("remove")) {
    if (const auto wrong = left_over(context, "persist --remove")) return *wrong;
    const auto removed = toolkits::unpersist(*file);
    if (!removed) return complain(removed.error());
    fmt::print("{}: the block was taken out; backup: {}\n", removed->file.string(), removed->backup->string());
    return kFine;
  }
  const auto snapshot = look_around(context, context.args.text("for") == "native");
  if (!snapshot) return complain(snapshot.error());
  const auto toolkit = take_toolkit(context, *snapshot);
  if (!toolkit) return complain(toolkit.error());
  if (const auto wrong = left_over(context, "persist")) return *wrong;
  const auto done = toolkits::persist(*file, toolkits::lasting_commands(*shell, *toolkit));
  if (!done) return complain(done.error());
  fmt::print("{}: new shells {} CUDA {} ({}){}\n", done->file.string(), done->changed ? "use" : "use already",
             toolkit->version, toolkit->path, done->backup ? "; as it was before: " + done->backup->string() : "");
  return kFine;
}

namespace {

int run_env(Context& context) {
  auto& rest = context.args.rest;
  const std::string name = rest.empty() ? "" : rest.front();
  const auto* const action = std::ranges::find(kActions, name, &Action::name);
  if (action == kActions.end()) return unknown_action(name);
  rest.erase(rest.begin());
  if (const auto fitting = check_action_options(context, action->name); !fitting) return complain(fitting.error());
  return action->run(context);
}

}  // namespace

constinit const Subcommand kEnvCommand{
    .name = "env",
    .summary = "CUDA toolkits side by side: choose one for a shell, a command, or for good",
    .usage =
        "gpuwarden env list | check\n"
        "       eval \"$(gpuwarden env use 12.4 | --for sm_89 | --none)\"\n"
        "       gpuwarden env exec 12.4 -- COMMAND...\n"
        "       gpuwarden env module 12.4 [-o FILE] | persist 12.4 | persist --remove\n"
        "       gpuwarden env create NAME --cuda 12.4 [--python 3.11] [--with torch] [--yes]\n"
        "       gpuwarden env explain [NCCL_SOCKET_IFNAME | nccl | vllm ...] | generate nccl | vllm | pytorch",
    .groups = {OptionGroup{kEnvOptions}, OptionGroup{kKnowledgeOptions}},
    .rest = Rest::operands,
    .actions = "list use exec module persist check create explain generate",
    .run = run_env};

}  // namespace gpuwarden::cli
