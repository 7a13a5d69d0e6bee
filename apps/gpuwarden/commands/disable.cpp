// SPDX-License-Identifier: Apache-2.0
// gpuwarden disable, gpuwarden enable
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/use.hpp"
#include "gpuwarden/lease/json.hpp"
#include "gpuwarden/machine/take_out.hpp"
#include "machine.hpp"
#include "render/print_json.hpp"
#include "shared_options.hpp"

namespace gpuwarden::cli {
namespace {

using facts::Disabling;

constexpr auto kDisableOptions = std::to_array<Option>({
    {"--all", OptionKind::flag, "", "all GPUs of the machine, as the operand `all`"},
    {"--reason", OptionKind::text, "TEXT", "why: shown to whoever wants the GPU"},
});
constexpr auto kEnableOptions = std::to_array<Option>({
    {"--all", OptionKind::flag, "", "all GPUs that are out of use, as the operand `all`"},
    {"--reason", OptionKind::text, "TEXT", "why GPUs that are judged unfit are used all the same: kept with the word"},
});

Result<Machine> open_own_machine(Context& context) {
  if (context.args.rest.empty() && !context.args.has("all"))
    return fail(ErrorCode::invalid_argument, fmt::format("gpuwarden {}: which GPUs?", context.command->name),
                "an index, a UUID or its beginning, or a PCI bus id: gpuwarden list shows them");
  if (context.args.has("all") && !context.args.rest.empty())
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} --all means all GPUs: '{}' is unexpected", context.command->name,
                            printable(context.args.rest[0])),
                "leave one of them out");
  return open_machine(context);
}

std::vector<std::string> names_of(const Args& args) {
  return args.has("all") ? std::vector<std::string>{"all"} : args.rest;
}

int show_disablings(const Context& context, const Machine& machine, const lease::Disablings::View& view) {
  if (context.args.has("json")) print_json(lease::to_json(view, machine.simulated()));
  return kFine;
}

Result<int> run_disable(Context& context) {
  const std::string reason = context.args.text("reason").value_or("");
  if (trim(reason).empty())
    return fail(ErrorCode::invalid_argument, "gpuwarden disable requires --reason",
                "--reason 'fan is loud, ticket 4711': whoever wants the GPU reads it");
  GPUWARDEN_TRY(const Machine machine, open_own_machine(context));
  GPUWARDEN_TRY(const auto taken, machine::take_out(machine, names_of(context.args), reason, system_clock()));
  for (const facts::GpuRecord& record : taken.gpus.gpus) {
    const auto* word = facts::find_disabling(taken.now.disabled, facts::identity_of(record));
    if (word == nullptr || context.args.has("json")) continue;
    fmt::print("GPU {} is disabled for {}\n", record.gpu.index.value,
               word->for_everybody ? "everybody" : "your own jobs (root can disable it for everybody)");
  }
  return show_disablings(context, machine, taken.now);
}

/// How a GPU is called: one that was taken out has no index.
std::string name_of(const facts::Snapshot& snapshot, const Uuid& uuid) {
  for (const facts::GpuRecord& record : snapshot.gpus) {
    if (facts::identity_of(record) == uuid) return fmt::format("GPU {}", record.gpu.index.value);
  }
  return uuid.value;
}

std::string causes_of(const lease::Acceptance& accepted) {
  std::string causes;
  for (const facts::HealthCause& cause : accepted.causes) {
    if (causes.find(cause.reason) == std::string::npos) causes += (causes.empty() ? "" : "; ") + cause.reason;
  }
  return causes;
}

/// What became of one GPU.
std::string line_of(const Uuid& gpu, const machine::PutBack& back) {
  const std::string name = name_of(back.machine, gpu);
  const auto accepted = std::ranges::find(back.enabled.accepted, gpu, &lease::Acceptance::uuid);
  std::string line;
  if (std::ranges::find(back.enabled.disabled, gpu) != back.enabled.disabled.end()) {
    const auto* word = facts::find_disabling(back.before, gpu);
    line += fmt::format("{} is enabled{}\n", name,
                        word == nullptr ? "" : fmt::format(" (it was disabled by {}: {})", word->by, word->reason));
  }
  if (accepted != back.enabled.accepted.end())
    line += fmt::format(
        "{} is enabled although it is unfit: {}\n  that counts until the GPU is reset or the driver is loaded anew; "
        "what else is found takes it out of use again\n",
        name, causes_of(*accepted));
  return line.empty() ? name + " was not disabled\n" : line;
}

Result<int> run_enable(Context& context) {
  const Args& args = context.args;
  GPUWARDEN_TRY(const Machine machine, open_own_machine(context));
  GPUWARDEN_TRY(const auto back,
                machine::put_back(machine, names_of(args), args.text("reason").value_or(""), system_clock()));
  if (!args.has("json")) {
    for (const Uuid& gpu : back.gpus) fmt::print("{}", line_of(gpu, back));
    if (back.gpus.empty()) fmt::print("no GPU is out of use\n");
  }
  return show_disablings(context, machine, back.now);
}

}  // namespace

constinit const Subcommand kDisableCommand{
    .name = "disable",
    .summary = "take GPUs out of use: select, run and lease leave them alone",
    .usage = "gpuwarden disable GPU...|all --reason TEXT",
    .groups = {OptionGroup{kDisableOptions}},
    .rest = Rest::operands,
    .details =
        "By root for everybody, by any other user for his own jobs. It is kept over "
        "restarts of the machine, until `gpuwarden enable`. What runs on the GPU goes on.",
    .run = run_disable};

constinit const Subcommand kEnableCommand{
    .name = "enable",
    .summary = "put GPUs back into use that are disabled or judged unfit",
    .usage = "gpuwarden enable GPU...|all [--reason TEXT]",
    .groups = {OptionGroup{kEnableOptions}},
    .rest = Rest::operands,
    .details =
        "Undoes `gpuwarden disable`. A GPU that is judged unfit is used all the same until it is reset, the driver is "
        "loaded "
        "anew, or something else is found wrong with it. Only root undoes what root, or a monitor of root's, said.",
    .run = run_enable};

}  // namespace gpuwarden::cli
