// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/view/sources.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "gpuwarden/base/process.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/base/users.hpp"
#include "gpuwarden/facts/use.hpp"
#include "gpuwarden/machine/out_of_use.hpp"

namespace gpuwarden::view {
namespace {

namespace fs = std::filesystem;

std::string own_name() {
  const auto user = find_user(::geteuid());
  return user ? printable(user->name) : fmt::format("uid {}", ::geteuid());
}

/// What could not be found out beside the readings, and why.
void tell_unknowns(const machine::UseWatch& use, cluster::Node& node) {
  node.leases_problem = use.leases_problem();
  node.health_problem = use.disablings_problem();
}

}  // namespace

LeaveTerminalSignals::LeaveTerminalSignals() {
  sigset_t terminal;
  ::sigemptyset(&terminal);
  for (const int signal : {SIGWINCH, SIGTSTP, SIGCONT}) ::sigaddset(&terminal, signal);
  ::pthread_sigmask(SIG_BLOCK, &terminal, &before_);
}

LeaveTerminalSignals::~LeaveTerminalSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

telemetry::MonitorOptions monitor_options(const machine::Machine& machine, std::chrono::milliseconds interval,
                                          const std::shared_ptr<machine::UseWatch>& use) {
  telemetry::MonitorOptions options;
  options.reader = machine.reader();
  options.sampler.interval = interval;
  options.sampler.detail = probe::Detail::slow;
  options.sampler.quick_first = true;
  options.leases = [use](const facts::Snapshot& snapshot) { return use->leases(snapshot); };
  options.disabled = [use] { return use->disabled(); };
  options.publish_health = machine::health_places(machine.options().environment, machine.reader());
  options.publish_as = "gpuwarden top";
  // The view keeps what it shows itself.
  options.remember = std::chrono::minutes(2);
  return options;
}

WatchedMachine::WatchedMachine(telemetry::MonitorOptions options, std::shared_ptr<machine::UseWatch> use)
    : use_(std::move(use)), monitor_(std::move(options)) {}
WatchedMachine::~WatchedMachine() { monitor_.stop(); }

Result<void> WatchedMachine::start(std::function<void()> heard) {
  monitor_.add_reading_callback([heard = std::move(heard)](const telemetry::Reading& /*reading*/) { heard(); });
  const LeaveTerminalSignals leave;
  return monitor_.start();
}

std::vector<cluster::Node> WatchedMachine::nodes() const {
  cluster::Node node;
  node.reading = monitor_.latest();
  node.health = monitor_.health();
  node.alerts = monitor_.alerts();
  if (use_) tell_unknowns(*use_, node);
  if (node.reading != nullptr) {
    node.name = node.reading->snapshot.host;
    node.seen = node.reading->snapshot.taken_at;
    node.problem = node.reading->snapshot.problem;
  }
  if (node.name.empty()) node.name = "this machine";
  return {std::move(node)};
}

cluster::Node node_of(facts::Snapshot snapshot, std::vector<facts::Lease> leases,
                      std::span<const facts::Disabling> out_of_use) {
  cluster::Node node;
  for (const facts::GpuRecord& record : snapshot.gpus) {
    const auto* word = facts::find_disabling(out_of_use, facts::identity_of(record));
    if (word == nullptr) continue;
    facts::Health health;
    health.uuid = record.gpu.uuid;
    health.index = record.gpu.index;
    health.state = word->judged ? facts::HealthState::error : facts::HealthState::disabled;
    health.reason = facts::describe_disabling(*word, snapshot.taken_at);
    health.next_step = word->next_step;
    health.since = word->since;
    node.health.push_back(std::move(health));
  }
  // What somebody captured is of a machine elsewhere.
  const std::string unnamed = snapshot.origin.empty() ? "this machine" : snapshot.origin;
  node.name = snapshot.host.empty() ? unnamed : snapshot.host;
  node.seen = snapshot.taken_at;
  node.problem = snapshot.problem;
  auto reading = std::make_shared<telemetry::Reading>();
  reading->snapshot = std::move(snapshot);
  reading->leases = std::move(leases);
  node.reading = std::move(reading);
  return node;
}

cluster::Node read_node(const machine::Machine& machine) {
  facts::Snapshot snapshot = machine.read({.detail = probe::Detail::slow});
  if (machine.captured() && snapshot.origin.empty()) snapshot.origin = machine.capture_name();
  const auto read_at = system_clock().wall_now();
  machine::UseNow use = machine::use_now(machine, snapshot, read_at);
  cluster::Node node = node_of(std::move(snapshot), std::move(use.leases), use.out_of_use.disabled);
  // One GPU that keeps the reading waiting does not make the others' figures old.
  if (!machine.captured()) node.seen = read_at;
  node.leases_problem = std::move(use.leases_problem);
  node.health_problem = std::move(use.out_of_use_problem);
  return node;
}

LocalActions::LocalActions(std::vector<fs::path> proc_roots, telemetry::PerformanceMonitor* monitor)
    : proc_roots_(std::move(proc_roots)), monitor_(monitor) {}

Result<void> LocalActions::signal(const Target& target, int signal) {
  const auto stands_in = [](const fs::path& root) { return root != "/proc"; };
  const auto tells_of_it = [&](const fs::path& root) {
    std::error_code ignored;
    return stands_in(root) && fs::exists(root / std::to_string(target.pid.value), ignored);
  };
  if (target.stand_in || std::ranges::any_of(proc_roots_, tells_of_it))
    return fail(ErrorCode::invalid_argument,
                fmt::format("process {} is simulated: it gets no signals", target.pid.value));
  // What was not looked up yet may be simulated, too.
  if (!target.start_ticks && std::ranges::any_of(proc_roots_, stands_in))
    return fail(ErrorCode::unavailable,
                fmt::format("process {} got no signal: it may be a simulated one", target.pid.value),
                "it has not been looked up yet: try again in a second");
  return send_signal(target.pid, target.start_ticks, signal);
}

Result<void> LocalActions::acknowledge(const std::string& /*node*/, std::uint64_t alert) {
  if (monitor_ == nullptr) return fail(ErrorCode::unavailable, "alerts can be acknowledged only where they are raised");
  return monitor_->acknowledge(alert, own_name());
}

}  // namespace gpuwarden::view
