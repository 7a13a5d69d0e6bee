// SPDX-License-Identifier: Apache-2.0
// gpuwarden disable, gpuwarden enable
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/facts/use.hpp"
#include "gpuwarden/lease/json.hpp"
#include "gpuwarden/machine/at_sight.hpp"
#include "gpuwarden/machine/enable_names.hpp"
#include "gpuwarden/machine/out_of_use.hpp"
#include "gpuwarden/placement/names.hpp"
#include "machine.hpp"
#include "render/print_json.hpp"
#include "shared_options.hpp"

namespace gpuwarden::cli {
namespace {

using facts::Disabling;

constexpr auto kDisableOptions =
    std::to_array<Option>({{"--reason", OptionKind::text, "TEXT", "why: shown to whoever wants the GPU"}});
constexpr auto kEnableOptions = std::to_array<Option>({
    {"--all", OptionKind::flag, "", "all GPUs that are out of use, as the operand `all`"},
    {"--reason", OptionKind::text, "TEXT", "why GPUs that are judged unfit are used all the same: kept with the word"},
});

Result<Machine> open_own_machine(Context& context) {
  if (context.args.rest.empty() && !context.args.has("all"))
    return fail(ErrorCode::invalid_argument, fmt::format("gpuwarden {}: which GPUs?", context.command->name),
                "an index, a UUID or its beginning, or a PCI bus id: gpuwarden list shows them");
  return open_machine(context);
}

std::string by_whom(const Environment& environment) {
  const auto found = environment.find("SUDO_USER");
  return found == environment.end() || found->second.empty() ? "" : printable(found->second) + " with sudo";
}

int show_disablings(const Context& context, const lease::Disablings::View& view) {
  nlohmann::json list = nlohmann::json::array();
  for (const Disabling& one : view.disabled) list.push_back(facts::to_json(one));
  nlohmann::json accepted = nlohmann::json::array();
  for (const lease::Acceptance& one : view.accepted) accepted.push_back(lease::to_json(one));
  if (context.args.has("json"))
    print_json({{"schema", facts::kJsonSchema}, {"disabled", list}, {"accepted", accepted}});
  return kFine;
}

Result<int> run_disable(Context& context) {
  const std::string reason = context.args.text("reason").value_or("");
  if (trim(reason).empty())
    return fail(ErrorCode::invalid_argument, "gpuwarden disable requires --reason",
                "--reason 'fan is loud, ticket 4711': whoever wants the GPU reads it");
  GPUWARDEN_TRY(const Machine machine, open_own_machine(context));
  facts::Snapshot gpus = machine.read({.processes = false, .every = std::chrono::seconds(1)});
  GPUWARDEN_CHECK(placement::keep_named(placement::expand_ranges(context.args.rest), gpus));
  std::vector<Uuid> uuids;
  for (const facts::GpuRecord& record : gpus.gpus) uuids.push_back(facts::identity_of(record));
  const auto disablings = machine.disablings();
  GPUWARDEN_CHECK(disablings.disable(uuids, reason, by_whom(context.environment), system_clock()));
  GPUWARDEN_TRY(const auto view, machine::out_of_use_in(machine, gpus, system_clock().wall_now()));
  for (const facts::GpuRecord& record : gpus.gpus) {
    const auto* word = facts::find_disabling(view.disabled, facts::identity_of(record));
    if (word == nullptr || context.args.has("json")) continue;
    fmt::print("GPU {} is disabled for {}\n", record.gpu.index.value,
               word->for_everybody ? "everybody" : "your own jobs (root can disable it for everybody)");
  }
  return show_disablings(context, view);
}

/// How a GPU is called: one that was taken out has no index.
std::string name_of(const facts::Snapshot& snapshot, const Uuid& uuid) {
  for (const facts::GpuRecord& record : snapshot.gpus) {
    if (facts::identity_of(record) == uuid) return fmt::format("GPU {}", record.gpu.index.value);
  }
  return uuid.value;
}

Result<std::vector<Uuid>> wanted_gpus(const Args& args, const facts::Snapshot& snapshot,
                                      const std::vector<Disabling>& out_of_use) {
  const bool all = args.has("all") || args.rest == std::vector<std::string>{"all"};
  if (all) return machine::all_to_enable(out_of_use, ::geteuid() == 0);
  return machine::gpus_to_enable(args.rest, snapshot, out_of_use);
}

std::string causes_of(const lease::Acceptance& accepted) {
  std::string causes;
  for (const facts::HealthCause& cause : accepted.causes) {
    if (causes.find(cause.reason) == std::string::npos) causes += (causes.empty() ? "" : "; ") + cause.reason;
  }
  return causes;
}

/// What became of one GPU.
std::string line_of(const Uuid& gpu, const std::string& name, const machine::EnabledGpus& enabled,
                    const std::vector<Disabling>& before) {
  const auto accepted = std::ranges::find(enabled.accepted, gpu, &lease::Acceptance::uuid);
  const bool was_disabled = std::ranges::find(enabled.disabled, gpu) != enabled.disabled.end();
  std::string line;
  if (was_disabled) {
    const auto* word = facts::find_disabling(before, gpu);
    line += fmt::format("{} is enabled{}\n", name,
                        word == nullptr ? "" : fmt::format(" (it was disabled by {}: {})", word->by, word->reason));
  }
  if (accepted != enabled.accepted.end())
    line += fmt::format(
        "{} is enabled although it is unfit: {}\n  that counts until the GPU is reset or the driver is loaded anew; "
        "what "
        "else is found takes it out of use again\n",
        name, causes_of(*accepted));
  return line.empty() ? name + " was not disabled\n" : line;
}

Result<int> run_enable(Context& context) {
  GPUWARDEN_TRY(const Machine machine, open_own_machine(context));
  const facts::Snapshot snapshot = machine.read({.processes = false, .every = std::chrono::seconds(1)});
  GPUWARDEN_TRY(const auto before, machine::out_of_use_in(machine, snapshot, system_clock().wall_now()));
  GPUWARDEN_TRY(const auto wanted, wanted_gpus(context.args, snapshot, before.disabled));
  const auto request =
      machine::enable_request(snapshot, wanted, context.args.text("reason").value_or(""), by_whom(context.environment));
  GPUWARDEN_TRY(const auto enabled,
                machine::enable(machine.options().environment, machine.reader(), request, system_clock()));
  for (const Uuid& gpu : wanted) {
    if (!context.args.has("json")) fmt::print("{}", line_of(gpu, name_of(snapshot, gpu), enabled, before.disabled));
  }
  if (wanted.empty() && !context.args.has("json")) fmt::print("no GPU is out of use\n");
  GPUWARDEN_TRY(const auto view, machine::out_of_use_in(machine, snapshot, system_clock().wall_now()));
  return show_disablings(context, view);
}

}  // namespace

constinit const Subcommand kDisableCommand{
    .name = "disable",
    .summary = "take GPUs out of use: select, run and lease leave them alone",
    .usage = "gpuwarden disable GPU... --reason TEXT",
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
