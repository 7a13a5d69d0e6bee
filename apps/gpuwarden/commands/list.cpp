// SPDX-License-Identifier: Apache-2.0
// gpuwarden list
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "acquire.hpp"
#include "exit_codes.hpp"
#include "gpu_names.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json.hpp"
#include "leftovers.hpp"
#include "machine.hpp"
#include "render/gpu_table.hpp"
#include "render/print_json.hpp"

namespace gpuwarden::cli {
namespace {

using facts::GpuRecord;

/// A listing does without leases where nothing can be known of them.
std::vector<facts::Lease> read_leases(const Machine& machine, const facts::Snapshot& snapshot) {
  if (machine.captured()) return {};
  const auto store = machine.open_leases("", "");
  if (!store) return {};
  lease::Situation situation = store->inspect(machine.lease_devices(snapshot));
  if (situation.problem && situation.problem->code == ErrorCode::timed_out) warn(situation.problem->message);
  return std::move(situation.leases);
}

nlohmann::json as_json(const facts::Snapshot& snapshot, const std::vector<facts::Lease>& leases) {
  auto json = facts::to_json(snapshot);
  for (std::size_t i = 0; i < snapshot.gpus.size(); ++i) {
    const facts::Lease* lease = find_lease(leases, snapshot.gpus[i]);
    json["gpus"][i]["lease"] = lease != nullptr ? facts::to_json(*lease) : nlohmann::json();
    if (lease != nullptr) json["gpus"][i]["lease"]["idle"] = is_idle_lease(snapshot.gpus[i], lease);
  }
  return json;
}

}  // namespace

int run_list(Context& context) {
  const auto style = style_of(context);
  if (!style) return complain(style.error());
  auto machine = open_machine(context);
  if (!machine) return complain(machine.error());
  facts::Snapshot snapshot = machine->read({.holders = true});
  if (machine->captured() && snapshot.origin.empty()) snapshot.origin = machine->capture_name();
  if (auto kept = keep_named(context.args.list("gpu"), snapshot); !kept) return complain(kept.error());
  const auto leases = read_leases(*machine, snapshot);
  if (!machine->captured()) show_leftovers(context, true);
  if (context.args.has("json")) {
    print_json(as_json(snapshot, leases));
  } else if (!snapshot.gpus.empty() || !snapshot.problem) {
    fmt::print("{}",
               context.args.has("processes") ? process_table(snapshot, *style) : gpu_table(snapshot, leases, *style));
  }
  for (const facts::ReadingGap& gap : snapshot.gaps) warn(gap.problem.message);
  if (snapshot.problem) {
    complain(*snapshot.problem);
    return kUnavailable;
  }
  if (machine->captured() && snapshot.gpus.empty()) {
    warn(fmt::format("there is no GPU in {}", printable(snapshot.origin)));
    return kNo;
  }
  const bool trouble = std::ranges::any_of(snapshot.gpus, [](const GpuRecord& record) {
    // Other makers' GPUs are told of; what state they are in is no trouble of this program's users.
    if (record.gpu.vendor != "NVIDIA") return false;
    return !facts::is_usable(record) && record.state != facts::GpuState::suspended;
  });
  return trouble ? kNo : kFine;
}

}  // namespace gpuwarden::cli
