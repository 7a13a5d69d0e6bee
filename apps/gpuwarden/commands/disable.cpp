// SPDX-License-Identifier: Apache-2.0
// gpuwarden disable, gpuwarden enable
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/facts/use.hpp"
#include "gpuwarden/placement/names.hpp"
#include "machine.hpp"
#include "render/print_json.hpp"
#include "shared_options.hpp"

namespace gpuwarden::cli {
namespace {

constexpr auto kDisableOptions =
    std::to_array<Option>({{"--reason", OptionKind::text, "TEXT", "why: shown to whoever wants the GPU"}});

Result<Machine> open_own_machine(Context& context) {
  if (context.args.rest.empty())
    return fail(ErrorCode::invalid_argument, fmt::format("gpuwarden {}: which GPUs?", context.command->name),
                "an index, a UUID or its beginning, or a PCI bus id: gpuwarden list shows them");
  return open_machine(context);
}

/// The GPUs that the operands name, as they stand in the list.
Result<facts::Snapshot> named_gpus(const Context& context, const Machine& machine) {
  facts::Snapshot snapshot = machine.read({.processes = false});
  GPUWARDEN_CHECK(placement::keep_named(placement::expand_ranges(context.args.rest), snapshot));
  return snapshot;
}

std::vector<Uuid> uuids_of(const facts::Snapshot& snapshot) {
  std::vector<Uuid> uuids;
  for (const facts::GpuRecord& record : snapshot.gpus) uuids.push_back(facts::identity_of(record));
  return uuids;
}

std::string by_whom(const Environment& environment) {
  const auto found = environment.find("SUDO_USER");
  return found == environment.end() || found->second.empty() ? "" : printable(found->second) + " with sudo";
}

int show_disablings(const Context& context, const std::vector<facts::Disabling>& disabled) {
  nlohmann::json list = nlohmann::json::array();
  for (const facts::Disabling& one : disabled) list.push_back(facts::to_json(one));
  if (context.args.has("json")) print_json({{"schema", facts::kJsonSchema}, {"disabled", list}});
  return kFine;
}

Result<int> run_disable(Context& context) {
  const std::string reason = context.args.text("reason").value_or("");
  if (trim(reason).empty())
    return fail(ErrorCode::invalid_argument, "gpuwarden disable requires --reason",
                "--reason 'fan is loud, ticket 4711': whoever wants the GPU reads it");
  GPUWARDEN_TRY(const Machine machine, open_own_machine(context));
  GPUWARDEN_TRY(const facts::Snapshot gpus, named_gpus(context, machine));
  const auto disablings = machine.disablings();
  GPUWARDEN_CHECK(disablings.disable(uuids_of(gpus), reason, by_whom(context.environment), system_clock()));
  GPUWARDEN_TRY(const auto view, disablings.read());
  for (const facts::GpuRecord& record : gpus.gpus) {
    const auto* word = facts::find_disabling(view.disabled, facts::identity_of(record));
    if (word == nullptr || context.args.has("json")) continue;
    fmt::print("GPU {} is disabled for {}\n", record.gpu.index.value,
               word->for_everybody ? "everybody" : "your own jobs (root can disable it for everybody)");
  }
  return show_disablings(context, view.disabled);
}

/// Operands that name no GPU of this machine may still name one that is disabled: it may have been taken out.
Result<std::vector<Uuid>> named_or_gone(const Context& context, const Machine& machine,
                                        const lease::Disablings::View& view) {
  std::vector<Uuid> gone;
  Context there = context;
  std::erase_if(there.args.rest, [&](const std::string& name) {
    const auto* word = facts::find_disabling(view.disabled, Uuid(name));
    if (word != nullptr) gone.push_back(word->uuid);
    return word != nullptr;
  });
  if (there.args.rest.empty()) return gone;
  GPUWARDEN_TRY(const facts::Snapshot gpus, named_gpus(there, machine));
  for (Uuid& uuid : uuids_of(gpus)) gone.push_back(std::move(uuid));
  return gone;
}

Result<int> run_enable(Context& context) {
  GPUWARDEN_TRY(const Machine machine, open_own_machine(context));
  const auto disablings = machine.disablings();
  GPUWARDEN_TRY(const auto before, disablings.read());
  GPUWARDEN_TRY(const auto wanted, named_or_gone(context, machine, before));
  GPUWARDEN_TRY(const auto enabled, disablings.enable(wanted));
  for (const Uuid& uuid : wanted) {
    const bool done = std::ranges::find(enabled, uuid) != enabled.end();
    if (!context.args.has("json")) fmt::print("{} {}\n", uuid.value, done ? "is enabled" : "was not disabled");
  }
  GPUWARDEN_TRY(const auto view, disablings.read());
  return show_disablings(context, view.disabled);
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

constinit const Subcommand kEnableCommand{.name = "enable",
                                          .summary = "put disabled GPUs back into use",
                                          .usage = "gpuwarden enable GPU...",
                                          .groups = {},
                                          .rest = Rest::operands,
                                          .details = "Undoes `gpuwarden disable`. Only root undoes root's word.",
                                          .run = run_enable};

}  // namespace gpuwarden::cli
