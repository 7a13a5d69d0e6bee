// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/view/sources.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <signal.h>
#include <unistd.h>

#include "gpuwarden/lease/lease_store.hpp"

namespace gpuwarden::view {
namespace {

namespace fs = std::filesystem;

/// Who has leased what; nobody where nothing can be known of it.
std::vector<facts::Lease> leases_of(const machine::Machine& machine, const facts::Snapshot& snapshot) {
  const auto store = machine.open_leases("", "");
  if (!store) return {};
  return store->inspect(machine.lease_devices(snapshot)).leases;
}

std::string own_name() {
  const passwd* entry = ::getpwuid(::geteuid());
  return entry == nullptr ? fmt::format("uid {}", ::geteuid()) : entry->pw_name;
}

}  // namespace

LeaveTerminalSignals::LeaveTerminalSignals() {
  sigset_t terminal;
  ::sigemptyset(&terminal);
  for (const int signal : {SIGWINCH, SIGTSTP, SIGCONT}) ::sigaddset(&terminal, signal);
  ::pthread_sigmask(SIG_BLOCK, &terminal, &before_);
}

LeaveTerminalSignals::~LeaveTerminalSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

telemetry::MonitorOptions monitor_options(const machine::Machine& machine, std::chrono::milliseconds interval) {
  telemetry::MonitorOptions options;
  options.reader = machine.reader();
  options.sampler.interval = interval;
  options.sampler.detail = probe::Detail::slow;
  options.leases = [&machine](const facts::Snapshot& snapshot) { return leases_of(machine, snapshot); };
  // The view keeps what it shows itself.
  options.remember = std::chrono::minutes(2);
  return options;
}

WatchedMachine::WatchedMachine(const machine::Machine& machine, telemetry::MonitorOptions options)
    : machine_(machine), monitor_(std::move(options)) {}

WatchedMachine::~WatchedMachine() {
  first_look_.request_stop();
  monitor_.stop();
}

Result<void> WatchedMachine::start(std::function<void()> heard) {
  monitor_.add_reading_callback([heard](const telemetry::Reading& /*reading*/) { heard(); });
  const LeaveTerminalSignals leave;
  first_look_ = std::jthread([this, heard = std::move(heard)](const std::stop_token& stop) {
    facts::Snapshot snapshot = machine_.read({.detail = probe::Detail::basic, .stop = stop});
    if (stop.stop_requested()) return;
    {
      const std::scoped_lock lock(mutex_);
      first_ = node_of(std::move(snapshot));
    }
    heard();
  });
  return monitor_.start();
}

std::vector<cluster::Node> WatchedMachine::nodes() const {
  cluster::Node node;
  node.reading = monitor_.latest();
  node.health = monitor_.health();
  node.alerts = monitor_.alerts();
  if (node.reading == nullptr) {
    const std::scoped_lock lock(mutex_);
    if (first_) return {*first_};
  }
  if (node.reading != nullptr) {
    node.name = node.reading->snapshot.host;
    node.seen = node.reading->snapshot.taken_at;
    node.problem = node.reading->snapshot.problem;
  }
  if (node.name.empty()) node.name = "this machine";
  return {std::move(node)};
}

cluster::Node node_of(facts::Snapshot snapshot, std::vector<facts::Lease> leases) {
  cluster::Node node;
  node.name = snapshot.host.empty() ? "this machine" : snapshot.host;
  node.seen = snapshot.taken_at;
  node.problem = snapshot.problem;
  auto reading = std::make_shared<telemetry::Reading>();
  reading->snapshot = std::move(snapshot);
  reading->leases = std::move(leases);
  node.reading = std::move(reading);
  return node;
}

LocalActions::LocalActions(std::vector<fs::path> proc_roots, telemetry::PerformanceMonitor* monitor)
    : proc_roots_(std::move(proc_roots)), monitor_(monitor) {}

Result<void> LocalActions::signal(const Target& target, int signal) {
  for (const fs::path& root : proc_roots_) {
    std::error_code ignored;
    // A scripted process has a pid that may be another's here.
    if (root != "/proc" && fs::exists(root / std::to_string(target.pid.value), ignored))
      return fail(ErrorCode::invalid_argument,
                  fmt::format("process {} is simulated: it gets no signals", target.pid.value));
  }
  return send_signal(target.pid, target.start_ticks, signal);
}

Result<void> LocalActions::acknowledge(const std::string& /*node*/, std::uint64_t alert) {
  if (monitor_ == nullptr) return fail(ErrorCode::unavailable, "alerts can be acknowledged only where they are raised");
  return monitor_->acknowledge(alert, own_name());
}

}  // namespace gpuwarden::view
