// SPDX-License-Identifier: Apache-2.0
// Where a view gets this machine from: a monitor that watches it, or the facts of a capture.
#pragma once

#include <signal.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "gpuwarden/cluster/node.hpp"
#include "gpuwarden/machine/machine.hpp"
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
  /// The machine must outlive it.
  WatchedMachine(const machine::Machine& machine, telemetry::MonitorOptions options);
  ~WatchedMachine() override;

  /// `heard` is called from other threads with each reading, first with a quick one that leaves out what takes GPUs
  /// long to tell. Fails as PerformanceMonitor::start().
  Result<void> start(std::function<void()> heard);
  std::vector<cluster::Node> nodes() const override;
  telemetry::PerformanceMonitor& monitor() { return monitor_; }

 private:
  const machine::Machine& machine_;
  telemetry::PerformanceMonitor monitor_;
  mutable std::mutex mutex_;
  std::optional<cluster::Node> first_;  ///< until the monitor has read
  std::jthread first_look_;
};

/// What a monitor of a machine works with: its reader, and who has leased its GPUs.
telemetry::MonitorOptions monitor_options(const machine::Machine& machine, std::chrono::milliseconds interval);

/// A node that does not change.
class FixedNode final : public cluster::NodeSource {
 public:
  explicit FixedNode(cluster::Node node) : nodes_{std::move(node)} {}
  std::vector<cluster::Node> nodes() const override { return nodes_; }

 private:
  std::vector<cluster::Node> nodes_;
};
/// A snapshot as a node.
cluster::Node node_of(facts::Snapshot snapshot, std::vector<facts::Lease> leases = {});

/// Signals to this machine's processes; alerts of a monitor, which may be nullptr. Processes that a simulated fleet
/// merely tells of get no signal.
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
