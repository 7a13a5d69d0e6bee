// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/view/show.hpp"

#include <memory>
#include <utility>

#include "gpuwarden/machine/use_watch.hpp"
#include "gpuwarden/view/app.hpp"
#include "gpuwarden/view/host_processes.hpp"
#include "gpuwarden/view/sources.hpp"

namespace gpuwarden::view {

Result<void> show_machine(const machine::Machine& machine, Screen& screen, ViewState state, ShowOptions options,
                          const std::stop_token& stop) {
  if (machine.captured()) {
    const FixedNode node(read_node(machine));
    LocalActions nothing({}, nullptr);
    run({.screen = screen, .nodes = node, .actions = nothing}, std::move(state),
        {.interval = options.interval, .captured = true}, stop);
    return {};
  }
  const auto use = std::make_shared<machine::UseWatch>(machine);
  telemetry::MonitorOptions monitor = monitor_options(machine, options.interval, use);
  monitor.alerts = std::move(options.alerts);
  WatchedMachine watched(std::move(monitor), use);
  GPUWARDEN_CHECK(watched.start([&screen] { screen.wake(); }));
  HostProcesses host(machine.reader().proc_roots,
                     [&machine] { return pools::published_pools_of(machine.options().environment); });
  LocalActions actions(machine.reader().proc_roots, &watched.monitor());
  run({.screen = screen, .nodes = watched, .actions = actions, .host = &host}, std::move(state),
      {.interval = options.interval}, stop);
  return {};
}

void show_nodes(const cluster::NodeSource& nodes, Screen& screen, ViewState state, std::chrono::milliseconds interval,
                const std::stop_token& stop) {
  LocalActions nothing({}, nullptr);
  run({.screen = screen, .nodes = nodes, .actions = nothing}, std::move(state), {.interval = interval}, stop);
}

}  // namespace gpuwarden::view
