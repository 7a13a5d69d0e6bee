// SPDX-License-Identifier: Apache-2.0
// gpuwarden select
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "acquire.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/placement/json.hpp"
#include "gpuwarden/placement/ways_to_fit.hpp"
#include "plan/workload_options.hpp"
#include "render/print_json.hpp"
#include "shared_options.hpp"

namespace gpuwarden::cli {
namespace {

constexpr auto kSelectOptions = std::to_array<Option>({
    {"--export", OptionKind::optional, "SHELL", "print commands to eval: sh (default), csh, fish, powershell, cmd",
     "sh csh fish powershell cmd"},
    {"--uuid", OptionKind::flag, "", "print UUIDs (the default: right in every CUDA_DEVICE_ORDER)"},
    {"--index", OptionKind::flag, "", "print indices (right only with CUDA_DEVICE_ORDER=PCI_BUS_ID)"},
    {"--explain", OptionKind::flag, "", "say for every GPU why it was chosen or not"},
    {"--interactive", OptionKind::flag, "", "pick from a list"},
});

using placement::Decision;

std::string value_of(const Decision& decision, bool as_index) {
  if (!as_index) return placement::cuda_visible_devices(decision);
  std::vector<std::string> indices;
  for (const auto& device : decision.selected) indices.push_back(std::to_string(device.index.value));
  return join(indices, ",");
}

/// Commands that set both variables; the values hold nothing that a shell could misread.
Result<std::string> export_commands(const std::string& shell, const std::string& value) {
  if (shell.empty() || shell == "sh" || shell == "bash" || shell == "zsh") {
    return fmt::format("export CUDA_DEVICE_ORDER='PCI_BUS_ID'\nexport CUDA_VISIBLE_DEVICES='{}'\n", value);
  }
  if (shell == "fish")
    return fmt::format("set -gx CUDA_DEVICE_ORDER 'PCI_BUS_ID'\nset -gx CUDA_VISIBLE_DEVICES '{}'\n", value);
  if (shell == "powershell")
    return fmt::format("$env:CUDA_DEVICE_ORDER = 'PCI_BUS_ID'\n$env:CUDA_VISIBLE_DEVICES = '{}'\n", value);
  if (shell == "csh" || shell == "tcsh")
    return fmt::format("setenv CUDA_DEVICE_ORDER 'PCI_BUS_ID';\nsetenv CUDA_VISIBLE_DEVICES '{}';\n", value);
  if (shell == "cmd") return fmt::format("set CUDA_DEVICE_ORDER=PCI_BUS_ID\nset CUDA_VISIBLE_DEVICES={}\n", value);
  return fail(ErrorCode::invalid_argument, fmt::format("unknown shell '{}'", printable(shell)),
              "sh, csh, fish, powershell or cmd");
}

/// Shows the GPUs that would do and reads which are wanted.
Result<std::vector<placement::GpuName>> ask_user(const Decision& decision) {
  for (const auto& verdict : decision.verdicts) {
    fmt::print(stderr, "  {:>3}  {}  {}\n", verdict.device.index.value, verdict.device.name,
               verdict.kind == placement::Verdict::Kind::fits ? "free" : verdict.reason);
  }
  fmt::print(stderr, "which GPUs (for example 0,2)? ");
  std::string line;
  if (!std::getline(std::cin, line) || trim(line).empty()) return fail(ErrorCode::interrupted, "nothing was selected");
  std::vector<placement::GpuName> names;
  std::ranges::replace(line, ',', ' ');
  for (const auto word : split_words(line)) names.push_back({std::string(word)});
  return names;
}

Result<machine::Reservation> choose(Context& context, Selection& selection) {
  const bool interactive = context.args.has("interactive");
  if (interactive && context.args.text("from") == "-")
    return fail(ErrorCode::invalid_argument, "--interactive and --from - cannot be given together",
                "standard input cannot be the capture and the answer: name the capture's file");
  GPUWARDEN_TRY(const Machine machine, open_machine(context));
  const machine::Holder holder{.run_id = "", .command = "gpuwarden select"};
  if (interactive) {
    selection.request.all = true;
    GPUWARDEN_TRY(const machine::Reservation shown, acquire(machine, selection, false, holder));
    GPUWARDEN_TRY(selection.request.gpu_ids, ask_user(shown.decision()));
    selection.request.all = false;
    selection.request.count.reset();
  }
  return acquire(machine, selection, false, holder);
}

int run_select(Context& context) {
  auto selection = read_selection(context);
  if (!selection) return complain(selection.error());
  if (context.args.has("uuid") && context.args.has("index")) {
    return complain({ErrorCode::invalid_argument, "--uuid and --index cannot be given together", ""});
  }
  const auto acquired = choose(context, *selection);
  if (!acquired) return complain(acquired.error());
  const Decision& decision = acquired->decision();
  if (!acquired->snapshot().origin.empty())
    fmt::print(stderr, "gpuwarden: judged from {}\n", printable(acquired->snapshot().origin));
  if (context.args.has("explain")) fmt::print(stderr, "{}", explain(decision));
  const bool captured = !acquired->snapshot().origin.empty();
  const placement::Inputs inputs{acquired->snapshot(),
                                 {},
                                 {},
                                 captured ? placement::Visibility{} : placement::visibility_from(context.environment)};
  if (context.args.has("json")) {
    print_json(placement::to_json(decision, selection->request, inputs));
    return decision.satisfied ? kFine : kNo;
  }
  for (const std::string& warning : decision.warnings) warn(warning);
  if (!decision.satisfied)
    return complain({ErrorCode::unsatisfied, decision.missing,
                     decision.may_come_true ? "--wait waits for them"
                                            : placement::ways_to_fit(selection->request, inputs, decision)});
  show_model_fit(decision);
  const std::string value = value_of(decision, context.args.has("index"));
  if (!context.args.has("export")) {
    fmt::print("{}\n", value);
    return kFine;
  }
  const auto commands = export_commands(context.args.text("export").value_or(""), value);
  if (!commands) return complain(commands.error());
  fmt::print("{}", *commands);
  return kFine;
}

}  // namespace

constinit const Subcommand kSelectCommand{
    .name = "select",
    .summary = "choose GPUs and print a value for CUDA_VISIBLE_DEVICES",
    .usage = "gpuwarden select [options]",
    .groups = {kSelectionGroup, OptionGroup{kSelectOptions}, OptionGroup{kFromOptions}, kWorkloadGroup},
    .rest = Rest::none,
    .details =
        "Prefers healthy, unleased GPUs with much free memory and little load that are "
        "well connected, and prints them as a value for CUDA_VISIBLE_DEVICES. Nothing "
        "is reserved: run and lease do that.",
    .run = run_select};

}  // namespace gpuwarden::cli
