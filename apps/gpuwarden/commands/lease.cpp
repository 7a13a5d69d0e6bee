// SPDX-License-Identifier: Apache-2.0
// gpuwarden lease: GPUs for a shell, without ranks or prefixes.
#include <fmt/format.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "acquire.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/launch/job.hpp"
#include "gpuwarden/launch/run.hpp"
#include "programs.hpp"
#include "render/print_json.hpp"

namespace gpuwarden::cli {
namespace {

using nlohmann::json;

int list_leases(const Context& context, const lease::LeaseStore& store, bool simulated) {
  const auto situation = store.inspect();
  if (!situation) return complain(situation.error());
  if (context.args.has("json")) {
    json leases = json::array();
    json waiting = json::array();
    for (const auto& lease : situation->leases) leases.push_back(facts::to_json(lease));
    for (const auto& ticket : situation->waiting) {
      waiting.push_back({{"number", ticket.number},
                         {"user", ticket.owner.user},
                         {"pid", ticket.owner.pid.value},
                         {"wants", ticket.wants},
                         {"command", ticket.owner.command}});
    }
    print_json({{"schema", facts::kJsonSchema}, {"simulated", simulated}, {"leases", leases}, {"waiting", waiting}});
    return kFine;
  }
  if (situation->leases.empty()) fmt::print("nothing is leased\n");
  for (const auto& lease : situation->leases) {
    fmt::print("{}{}\n", lease.uuid.value, lease.shared ? " (shared)" : "");
    for (const auto& holder : lease.holders)
      fmt::print("  {} pid {} since {}: {}\n", holder.user, holder.pid.value, format_utc(holder.since), holder.command);
  }
  for (const auto& ticket : situation->waiting) {
    fmt::print("waiting: {} pid {} for {} GPUs: {}\n", ticket.owner.user, ticket.owner.pid.value, ticket.wants,
               ticket.owner.command);
  }
  return kFine;
}

/// Holds the GPUs until a signal comes.
int hold(const Acquired& acquired) {
  fmt::print("{}\n", placement::cuda_visible_devices(acquired.decision));
  std::fflush(stdout);
  fmt::print(stderr, "gpuwarden: held until interrupted (Ctrl-C)\n");
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  int signal = 0;
  ::sigwait(&set, &signal);
  return kFine;
}

/// The shell becomes this process: the locks go along, and it is the user's own from here on.
int become_shell(const Acquired& acquired, const Machine& machine, Environment environment,
                 const std::vector<std::string>& argv) {
  const Environment simulated = machine.simulated_environment(environment);
  environment["CUDA_VISIBLE_DEVICES"] = placement::cuda_visible_devices(acquired.decision);
  environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
  for (const auto& [name, value] : simulated) environment[name] = value;
  return exec_program(argv, environment);
}

}  // namespace

int run_lease(Context& context) {
  auto selection = read_selection(context);
  if (!selection) return complain(selection.error());
  const auto machine = open_machine(context);
  if (!machine) return complain(machine.error());
  std::vector<std::string> argv = context.args.rest;
  const auto shell = context.environment.find("SHELL");
  if (argv.empty()) argv = {shell == context.environment.end() ? "/bin/sh" : shell->second};
  const auto store = machine->open_leases(launch::make_run_id(), join(argv, " "));
  if (!store) return complain(store.error());
  if (context.args.has("list")) return list_leases(context, *store, machine->simulated());
  if (!context.args.has("hold")) {
    if (const auto found = launch::check_program(argv[0], context.environment); !found)
      return refuse_program(found.error());
  }
  auto acquired = acquire(context, *machine, *selection, &*store, true);
  if (!acquired) return complain(acquired.error());
  show_warnings(acquired->decision);
  show_model_fit(acquired->decision);
  if (context.args.has("hold")) return hold(*acquired);
  fmt::print(stderr, "gpuwarden: {}leased {} for {}; leave it to give them back\n",
             machine->simulated() ? "[simulated] " : "", placement::cuda_visible_devices(acquired->decision), argv[0]);
  return become_shell(*acquired, *machine, context.environment, argv);
}

}  // namespace gpuwarden::cli
