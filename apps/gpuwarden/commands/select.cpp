// SPDX-License-Identifier: Apache-2.0
// gpuwarden select
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <nlohmann/json.hpp>

#include "acquire.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/placement/export.hpp"
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

/// Shows the GPUs that would do and reads which are wanted.
Result<std::vector<placement::GpuName>> ask_user(const Decision& decision) {
  for (const auto& verdict : decision.verdicts) {
    say("  {:>3}  {}  {}\n", verdict.device.index.value, verdict.device.name,
        verdict.kind == placement::Verdict::Kind::fits ? "free" : verdict.reason);
  }
  say("which GPUs (for example 0,2)? ");
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
    GPUWARDEN_TRY(const machine::Reservation shown,
                  reserve_heeding_signals(machine, reservation_of(selection, false), holder));
    GPUWARDEN_TRY(selection.request.gpu_ids, ask_user(shown.decision()));
    selection.request.all = false;
    selection.request.count.reset();
  }
  return reserve_heeding_signals(machine, reservation_of(selection, false), holder);
}

Result<int> run_select(Context& context) {
  GPUWARDEN_TRY(auto selection, read_selection(context));
  if (context.args.has("uuid") && context.args.has("index")) {
    return fail(ErrorCode::invalid_argument, "--uuid and --index cannot be given together", "");
  }
  GPUWARDEN_TRY(const auto acquired, choose(context, selection));
  const Decision& decision = acquired.decision();
  if (!acquired.snapshot().origin.empty()) say("gpuwarden: judged from {}\n", printable(acquired.snapshot().origin));
  if (context.args.has("explain")) say("{}", placement::explain(decision));
  if (context.args.has("json")) {
    print_json(placement::to_json(decision, selection.request, acquired.inputs()));
    return decision.satisfied ? kFine : kNo;
  }
  for (const std::string& warning : decision.warnings) warn(warning);
  if (!decision.satisfied)
    return fail(ErrorCode::unsatisfied, decision.missing,
                decision.may_come_true ? placement::ways_to_wait(decision, "--wait waits for them")
                                       : placement::ways_to_fit(selection.request, acquired.inputs(), decision));
  show_model_fit(decision);
  const std::string value =
      context.args.has("index") ? placement::visible_indices(decision) : placement::cuda_visible_devices(decision);
  if (!context.args.has("export")) {
    fmt::print("{}\n", value);
    return kFine;
  }
  const std::string shell = context.args.text("export").value_or("");
  GPUWARDEN_TRY(const auto commands, placement::export_commands(shell.empty() ? "sh" : shell, value));
  fmt::print("{}", commands);
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
