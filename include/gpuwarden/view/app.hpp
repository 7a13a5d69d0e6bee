// SPDX-License-Identifier: Apache-2.0
// The loop that joins a screen, a source of nodes and a state.
#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>
#include <string>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/cluster/node.hpp"
#include "gpuwarden/view/host_processes.hpp"
#include "gpuwarden/view/screen.hpp"
#include "gpuwarden/view/state.hpp"

namespace gpuwarden::view {

/// What a view may change in the world.
class Actions {
 public:
  Actions() = default;
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;
  virtual ~Actions() = default;
  /// As send_signal().
  virtual Result<void> signal(const Target& target, int signal) = 0;
  /// Fails where the node does not take it.
  virtual Result<void> acknowledge(const std::string& node, std::uint64_t alert) = 0;
};

/// What a view works with. `host` may be nullptr.
struct Parts {
  Screen& screen;
  const cluster::NodeSource& nodes;
  Actions& actions;
  HostProcesses* host = nullptr;
  Clock& clock = system_clock();
};

struct RunOptions {
  std::chrono::milliseconds interval = std::chrono::seconds(1);
  bool captured = false;
};

/// Shows until the user or `stop` ends it. What the source tells is drawn at most four times a second, what a key
/// changes at once.
void run(const Parts& parts, ViewState state, const RunOptions& options, const std::stop_token& stop);

/// One frame.
Canvas draw_once(std::vector<cluster::Node> nodes, ViewState state, Extent extent, bool captured, Clock& clock);

}  // namespace gpuwarden::view
