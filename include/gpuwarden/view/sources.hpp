// SPDX-License-Identifier: Apache-2.0
// Where a view gets this machine from: a monitor that watches it, or the facts of a capture.
#pragma once

#include <signal.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/cluster/node.hpp"
#include "gpuwarden/facts/health.hpp"
#include "gpuwarden/machine/machine.hpp"
#include "gpuwarden/machine/use_watch.hpp"
#include "gpuwarden/telemetry/monitor.hpp"
#include "gpuwarden/view/app.hpp"

namespace gpuwarden::view {

/// While it lives, threads that are started leave the terminal's signals (its size, Ctrl-Z) to the thread that draws.
class LeaveTerminalSignals {
 public:
  LeaveTerminalSignals();
  LeaveTerminalSignals(const LeaveTerminalSignals&) = delete;
  LeaveTerminalSignals& operator=(const LeaveTerminalSignals&) = delete;
  ~LeaveTerminalSignals();

 private:
  sigset_t before_{};
};

/// This machine (or a simulated one), watched in the background.
class WatchedMachine final : public cluster::NodeSource {
 public:
  /// `use` is that of monitor_options(); nullptr: everything is known.
  explicit WatchedMachine(telemetry::MonitorOptions options, std::shared_ptr<machine::UseWatch> use = nullptr);
  ~WatchedMachine() override;

  /// `heard` is called from the monitor's threads with each reading. Fails as PerformanceMonitor::start().
  Result<void> start(std::function<void()> heard);
  std::vector<cluster::Node> nodes() const override;
  telemetry::PerformanceMonitor& monitor() { return monitor_; }

 private:
  std::shared_ptr<machine::UseWatch> use_;
  telemetry::PerformanceMonitor monitor_;
};

/// What a monitor of a machine works with: its reader, who has leased and who has disabled its GPUs, and that its first
/// reading is a quick one, which leaves out what takes GPUs long to tell. The machine must outlive it.
telemetry::MonitorOptions monitor_options(const machine::Machine& machine, std::chrono::milliseconds interval,
                                          const std::shared_ptr<machine::UseWatch>& use);

/// The machine as it is at one look, with who has leased its GPUs and what is out of use; of a capture what it says.
/// What cannot be told of leases and health stands in the node.
cluster::Node read_node(const machine::Machine& machine);

/// A node that does not change.
class FixedNode final : public cluster::NodeSource {
 public:
  explicit FixedNode(cluster::Node node) : nodes_{std::move(node)} {}
  std::vector<cluster::Node> nodes() const override { return nodes_; }

 private:
  std::vector<cluster::Node> nodes_;
};
/// A snapshot as a node; what is out of use makes its health.
cluster::Node node_of(facts::Snapshot snapshot, std::vector<facts::Lease> leases = {},
                      std::span<const facts::Disabling> out_of_use = {});

/// Signals to this machine's processes; alerts of a monitor, which may be nullptr. Processes that a simulated fleet
/// merely tells of get no signal (invalid_argument): theirs may be the pid of a real one. Beside a simulated fleet only
/// a process that was looked up, and still is the one that was, gets one.
class LocalActions final : public Actions {
 public:
  LocalActions(std::vector<std::filesystem::path> proc_roots, telemetry::PerformanceMonitor* monitor);
  Result<void> signal(const Target& target, int signal) override;
  Result<void> acknowledge(const std::string& node, std::uint64_t alert) override;

 private:
  std::vector<std::filesystem::path> proc_roots_;
  telemetry::PerformanceMonitor* monitor_;
};

}  // namespace gpuwarden::view
