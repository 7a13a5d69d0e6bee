// SPDX-License-Identifier: Apache-2.0
// gpuwarden lease: GPUs for a shell, without ranks or prefixes.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "acquire.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/stop_on_signals.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/launch/foreground.hpp"
#include "gpuwarden/launch/job.hpp"
#include "gpuwarden/launch/run.hpp"
#include "gpuwarden/lease/grounds.hpp"
#include "gpuwarden/lease/json.hpp"
#include "plan/workload_options.hpp"
#include "render/print_json.hpp"
#include "shared_options.hpp"

namespace gpuwarden::cli {
namespace {

constexpr auto kLeaseOptions = std::to_array<Option>({
    {"--list", OptionKind::flag, "", "show who holds what and who waits"},
    {"--hold", OptionKind::flag, "", "print the value and hold the GPUs until interrupted"},
});

void print_lease(const facts::Lease& lease, const char* mark) {
  fmt::print("{}{}{}\n", mark, lease.uuid.value, lease.shared ? " (shared)" : "");
  if (lease.holders.empty()) fmt::print("  held; {}\n", facts::describe_unseen_holder(lease));
  for (const auto& holder : lease.holders) {
    fmt::print("  {} pid {}{}: {}\n", holder.user, holder.pid.value,
               holder.since ? " since " + format_utc(*holder.since) : "", holder.command);
    if (holder.orphaned) fmt::print("    {}\n", facts::describe_orphan(holder));
  }
}

void print_situation(const lease::Situation& situation, const char* mark) {
  for (const auto& lease : situation.leases) print_lease(lease, mark);
  for (const auto& ticket : situation.waiting) {
    const std::string pid = ticket.owner.pid.value == 0 ? "" : fmt::format(" pid {}", ticket.owner.pid.value);
    fmt::print("{}waiting: {}{} for {} GPUs: {}\n", mark, ticket.owner.user, pid, ticket.wants, ticket.owner.command);
  }
}

/// What means nothing together: told, not left out in silence.
Result<void> check_what_is_asked(const Args& args) {
  static constexpr auto kClashes =
      std::to_array<Clash>({{"list", "hold", "--list shows who holds what; --hold holds GPUs"}});
  GPUWARDEN_CHECK(check_clashes(args, kClashes));
  for (const char* alone : {"list", "hold"}) {
    if (args.has(alone))
      GPUWARDEN_CHECK(refuse_operands(args, fmt::format("lease --{}", alone),
                                      "gpuwarden lease -- COMMAND reserves GPUs for a command"));
  }
  if (args.has("list")) return {};
  return refuse_json(args, "lease without --list", "gpuwarden lease --list --json tells who holds what");
}

Result<int> list_leases(const Context& context, const Machine& machine) {
  GPUWARDEN_TRY(const auto holdings, machine::holdings_of(machine));
  const auto& [here, fleets] = holdings;
  if (here.problem) warn(here.problem->message);
  if (context.args.has("json")) {
    print_json(lease::to_json({here, fleets, machine.simulated()}));
    return kFine;
  }
  if (here.leases.empty() && fleets.leases.empty()) fmt::print("nothing is leased\n");
  print_situation(here, "");
  print_situation(fleets, "[simulated] ");
  return kFine;
}

/// Holds the GPUs until a signal comes.
int hold(machine::Reservation& acquired) {
  const StopOnSignals signals;
  fmt::print("{}\n", placement::cuda_visible_devices(acquired.decision()));
  std::fflush(stdout);
  say("gpuwarden: held until interrupted (Ctrl-C)\n");
  acquired.keep(system_clock(), signals.token(), [](const std::string& text) { warn(text); });
  return kFine;
}

Result<int> run_lease(Context& context) {
  GPUWARDEN_CHECK(check_what_is_asked(context.args));
  GPUWARDEN_TRY(const auto selection, read_selection(context));
  GPUWARDEN_TRY(const auto machine, open_machine(context));
  std::vector<std::string> argv = context.args.rest;
  if (argv.empty()) argv = {shell_of(context.environment)};
  if (context.args.has("list")) return list_leases(context, machine);
  if (!context.args.has("hold")) {
    if (const auto found = launch::check_program(argv[0], context.environment); !found)
      return refuse_program(found.error());
  }
  GPUWARDEN_TRY(auto acquired,
                reserve_heeding_signals(machine, reservation_of(selection), {launch::make_run_id(), join(argv, " ")}));
  show_warnings(acquired, machine);
  show_model_fit(acquired.decision());
  if (context.args.has("hold")) return hold(acquired);
  say("gpuwarden: {}leased {} for {}; leave it to give them back\n", machine.simulated() ? "[simulated] " : "",
      placement::cuda_visible_devices(acquired.decision()), argv[0]);
  GPUWARDEN_CHECK(machine.bequeath_fleet());
  if (!acquired.devices().empty()) lease::leave_outer_leases();
  // The shell becomes this process: the locks go along, and it is the user's own from here on.
  return refuse_program(launch::become_program(argv, machine::environment_of(acquired, machine, context.environment)));
}

}  // namespace

constinit const Subcommand kLeaseCommand{.name = "lease",
                                         .summary = "reserve GPUs for a shell",
                                         .usage = "gpuwarden lease [options] [-- COMMAND...]",
                                         .groups = {kSelectionGroup, OptionGroup{kLeaseOptions}, kWorkloadGroup},
                                         .rest = Rest::command,
                                         .run = run_lease};

}  // namespace gpuwarden::cli
