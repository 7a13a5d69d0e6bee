// SPDX-License-Identifier: Apache-2.0
// A whole view: what it needs is put together here, for a program that has a screen and a machine.
//
//     auto screen = view::open_curses_screen(true);
//     auto shown = view::show_machine(machine, **screen, {}, {}, stop);
#pragma once

#include <chrono>
#include <stop_token>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/cluster/node.hpp"
#include "gpuwarden/machine/machine.hpp"
#include "gpuwarden/telemetry/alert_rules.hpp"
#include "gpuwarden/view/screen.hpp"
#include "gpuwarden/view/state.hpp"

namespace gpuwarden::view {

struct ShowOptions {
  std::chrono::milliseconds interval = std::chrono::seconds(1);  ///< between readings
  telemetry::AlertConfig alerts;                                 ///< what is raised while the machine is watched
};

/// Shows a machine until the user or `stop` ends it: a capture as it is; any other is watched, signals go to its
/// processes, and what turns out unfit is told to other programs. Fails as PerformanceMonitor::start() does.
Result<void> show_machine(const machine::Machine& machine, Screen& screen, ViewState state, ShowOptions options,
                          const std::stop_token& stop);

/// Shows other machines, to which nothing is done.
void show_nodes(const cluster::NodeSource& nodes, Screen& screen, ViewState state, std::chrono::milliseconds interval,
                const std::stop_token& stop);

}  // namespace gpuwarden::view
