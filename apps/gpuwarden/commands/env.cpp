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
#include "gpuwarden/doctor/doctor.hpp"
#include "gpuwarden/doctor/json.hpp"
#include "gpuwarden/launch/foreground.hpp"
#include "gpuwarden/launch/run.hpp"
#include "gpuwarden/toolkits/activation.hpp"
#include "gpuwarden/toolkits/json.hpp"
#include "gpuwarden/toolkits/modulefile.hpp"
#include "gpuwarden/toolkits/start_file.hpp"
#include "machine.hpp"
#include "render/doctor_text.hpp"
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

std::string list_text(const toolkits::ToolkitListing& listing) {
  std::string text = listing.simulated ? fmt::format("SIMULATED {}  ", printable(listing.fleet)) : "";
  text += listing.driver ? fmt::format("driver {}\n", to_string(*listing.driver)) : "driver: not known\n";
  if (listing.toolkits.empty()) return text + "no CUDA toolkit was found\n";
  std::size_t version = 0;
  std::size_t path = 0;
  for (const auto& one : listing.toolkits) {
    version = std::max(version, one.toolkit.version.size());
    path = std::max(path, one.toolkit.path.size());
  }
  for (const auto& one : listing.toolkits) {
    std::vector<std::string> notes = one.reasons;
    if (one.chosen) notes.emplace_back("chosen by env use");
    if (!one.toolkit.nvcc) notes.emplace_back("has no nvcc");
    text += fmt::format("{} {:<{}}  {:<{}}  {}\n", one.toolkit.active ? '*' : ' ', printable(one.toolkit.version),
                        version, printable(one.toolkit.path), path, one.targets);
    if (!notes.empty()) text += fmt::format("    {}\n", join(notes, "; "));
    if (!one.on_driver.empty() && one.on_driver != "as they are")
      text += fmt::format("    its programs run {}\n", one.on_driver);
  }
  return text;
}

/// What is in use, in a line each.
std::string in_use_text(const facts::Environment& software) {
  std::string text;
  for (const auto& toolkit : software.toolkits) {
    const auto reasons = toolkits::reasons_in_use(toolkit);
    if (reasons.empty()) continue;
    text += fmt::format("CUDA {} ({}): {}\n", printable(toolkit.version), printable(toolkit.path), join(reasons, "; "));
  }
  for (const auto& python : software.pythons) {
    if (!python.active || !python.torch_cuda) continue;
    const auto* torch = facts::find_package(python, "torch");
    text += fmt::format("PyTorch {} in {}: built {}\n", torch == nullptr ? "" : printable(torch->version),
                        printable(python.path),
                        python.torch_cuda->empty() ? "without CUDA" : "with CUDA " + printable(*python.torch_cuda));
  }
  return text.empty() ? "no CUDA toolkit and no PyTorch is in use\n" : text;
}

/// A toolkit among those that are installed.
struct ChosenToolkit {
  facts::Toolkit toolkit;
  facts::Snapshot snapshot;
};

/// The toolkit of --for (the reason then goes to stderr), else of the first operand, which is taken away.
Result<ChosenToolkit> take_toolkit(Context& context) {
  const auto wanted = context.args.text("for");
  ChosenToolkit chosen;
  GPUWARDEN_TRY(chosen.snapshot, look_around(context, wanted == "native"));
  auto& rest = context.args.rest;
  if (wanted) {
    GPUWARDEN_TRY(const auto knowledge, open_knowledge(context));
    GPUWARDEN_TRY(const auto choice, toolkits::choose_toolkit_for(*wanted, chosen.snapshot, knowledge));
    say("gpuwarden: {}\n", printable(choice.why));
    for (const std::string& other : choice.passed_over) say("  not {}\n", printable(other));
    chosen.toolkit = *choice.toolkit;
    return chosen;
  }
  if (rest.empty())
    return fail(ErrorCode::invalid_argument, "no CUDA version was given", "for example 12.4; gpuwarden env list");
  GPUWARDEN_TRY(const auto* found,
                toolkits::find_toolkit(toolkits::software_of(chosen.snapshot).toolkits, rest.front()));
  chosen.toolkit = *found;
  rest.erase(rest.begin());
  return chosen;
}

std::vector<toolkits::Change> changes_for(const Context& context, const ChosenToolkit& chosen) {
  return toolkits::activate(chosen.toolkit, toolkits::software_of(chosen.snapshot).toolkits, context.environment);
}

/// Prints the changes for the shell to evaluate; on a terminal nobody does, so it is said. `what` was asked for.
Result<int> hand_out(const Context& context, const std::vector<toolkits::Change>& changes, const std::string& what) {
  GPUWARDEN_TRY(const auto shell, shell_of(context));
  print_answer(context, toolkits::to_json(changes), toolkits::commands_for(shell, changes));
  if (!context.args.has("json") && ::isatty(STDOUT_FILENO) != 0)
    say("hint: these are commands for the shell: {}\n", shell == toolkits::Shell::fish
                                                            ? fmt::format("gpuwarden env use {} | source", what)
                                                            : fmt::format("eval \"$(gpuwarden env use {})\"", what));
  return kFine;
}

Result<int> env_list(Context& context) {
  GPUWARDEN_TRY(const auto snapshot, look_around(context, false));
  GPUWARDEN_TRY(const auto knowledge, open_knowledge(context));
  const auto listing = toolkits::list_toolkits(snapshot, context.environment, knowledge);
  print_answer(context, toolkits::to_json(listing), list_text(listing));
  return kFine;
}

/// The doctor's checks of what chooses a toolkit, and nothing else.
Result<int> env_check(Context& context) {
  GPUWARDEN_TRY(const auto style, style_of(context));
  GPUWARDEN_TRY(const auto snapshot, look_around(context, true));
  GPUWARDEN_TRY(const auto knowledge, open_knowledge(context));
  const auto examination = doctor::examine(snapshot, knowledge, {}, doctor::toolkit_choice());
  print_answer(
      context, doctor::to_json(examination),
      in_use_text(toolkits::software_of(snapshot)) + doctor_text(examination, "what chooses CUDA", false, style));
  return examination.worst >= doctor::Severity::warning ? kNo : kFine;
}

Result<int> env_use(Context& context) {
  if (context.args.has("none")) {
    const auto changes = toolkits::deactivate(context.environment);
    if (changes.empty()) say("gpuwarden: no toolkit was chosen in this shell; nothing is taken back\n");
    return hand_out(context, changes, "--none");
  }
  GPUWARDEN_TRY(const auto chosen, take_toolkit(context));
  return hand_out(context, changes_for(context, chosen), chosen.toolkit.version);
}

Result<int> env_exec(Context& context) {
  GPUWARDEN_TRY(const auto chosen, take_toolkit(context));
  const auto& words = context.args.rest;
  if (words.empty())
    return fail(ErrorCode::invalid_argument, "env exec: no command to run", "gpuwarden env exec 12.4 -- make");
  const Environment environment = toolkits::with_changes(context.environment, changes_for(context, chosen));
  if (const auto found = launch::check_program(words.front(), environment); !found)
    return refuse_program(found.error());
  return refuse_program(launch::become_program(words, environment));
}

Result<int> env_module(Context& context) {
  GPUWARDEN_TRY(const auto chosen, take_toolkit(context));
  const std::string file = context.args.text("output").value_or("-");
  const bool lua = context.args.has("lmod") || file.ends_with(".lua");
  GPUWARDEN_CHECK(write_output(
      file, toolkits::modulefile(chosen.toolkit, lua ? toolkits::ModuleSyntax::lua : toolkits::ModuleSyntax::tcl)));
  return kFine;
}

Result<int> env_persist(Context& context) {
  GPUWARDEN_TRY(const auto shell, shell_of(context, true));
  const auto given = context.args.text("file");
  GPUWARDEN_TRY(const auto file,
                given ? Result<std::filesystem::path>(*given) : toolkits::start_file_of(shell, context.environment));
  if (context.args.has("remove")) {
    GPUWARDEN_TRY(const auto removed, toolkits::unpersist(file));
    fmt::print("{}: the block was taken out; backup: {}\n", removed.file.string(), removed.backup->string());
    return kFine;
  }
  GPUWARDEN_TRY(const auto chosen, take_toolkit(context));
  GPUWARDEN_TRY(const auto done, toolkits::persist(file, toolkits::lasting_commands(shell, chosen.toolkit)));
  fmt::print("{}: new shells {} CUDA {} ({}){}\n", done.file.string(), done.changed ? "use" : "use already",
             chosen.toolkit.version, chosen.toolkit.path,
             done.backup ? "; as it was before: " + done.backup->string() : "");
  return kFine;
}

constexpr auto kActions = std::to_array<Action>({
    {"list", env_list},
    {"use", env_use, 1},
    {"exec", env_exec, kManyOperands},
    {"module", env_module, 1},
    {"persist", env_persist, 1},
    {"check", env_check},
    {"create", env_create, 1},
    {"explain", env_explain, kManyOperands},
    {"generate", env_generate, 1},
});

Result<int> run_env(Context& context) {
  const Args& args = context.args;
  auto actions = kActions;
  // These say in its place what the operand does.
  if (args.has("for") || args.has("none") || args.has("remove")) {
    for (Action& action : actions) action.operands = action.operands == 1 ? 0 : action.operands;
  }
  return run_action(context, actions);
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
