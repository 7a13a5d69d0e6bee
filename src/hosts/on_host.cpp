// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/hosts/on_host.hpp"

#include <memory>
#include <utility>

#include "gpuwarden/machine/at_sight.hpp"
#include "gpuwarden/telemetry/health.hpp"

namespace gpuwarden::hosts {

void place_ranks(const Start& start, launch::JobSpec& job) {
  job.nodes = start.nodes;
  job.node_rank = start.node;
  job.first_rank = start.first_rank;
  job.world_size = start.world_size;
  job.master_address = start.address;
  job.master_port = start.port;
  job.rendezvous_id = start.job;
  job.restart_count = start.restart_count;
  job.max_restarts = start.max_restarts;
  job.argv.insert(job.argv.end(), start.arguments.begin(), start.arguments.end());
}

launch::TimeLimit time_limit_of(const Start& start, Clock::SteadyTime now) {
  launch::TimeLimit limit;
  if (start.time_left) limit.end = now + *start.time_left;
  limit.ends_job = start.time_ends_job;
  limit.signal = start.time_signal;
  limit.before = start.time_signal_before;
  return limit;
}

cluster::Node this_node(const machine::Machine& machine, const Clock& clock) {
  telemetry::Reading reading;
  reading.snapshot = machine.read();
  cluster::Node node;
  node.name = reading.snapshot.host;
  node.seen = clock.wall_now();
  if (const auto store = machine.open_leases("", "")) {
    lease::Situation situation = store->inspect(machine.lease_devices(reading.snapshot));
    reading.leases = std::move(situation.leases);
    node.leases_problem = std::move(situation.problem);
  } else {
    node.leases_problem = store.error();
  }
  const auto view = machine::out_of_use_in(machine, reading.snapshot, node.seen);
  telemetry::HealthBook book;
  book.judge(reading, view ? view->disabled : std::vector<facts::Disabling>{},
             view ? view->accepted : std::vector<lease::Acceptance>{});
  node.health = book.all();
  if (!view) node.health_problem = view.error();
  // What could not be read at all is the host's answer, too.
  if (reading.snapshot.problem) node.problem = reading.snapshot.problem;
  node.reading = std::make_shared<const telemetry::Reading>(std::move(reading));
  return node;
}

}  // namespace gpuwarden::hosts
