// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/doctor/leftovers.hpp"

#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/indices.hpp"
#include "gpuwarden/facts/use.hpp"

namespace gpuwarden::doctor {
namespace {

/// What is left of a run.
struct Left {
  std::set<Pid> processes;
  std::vector<std::uint32_t> gpus;
};

std::map<std::string, Left> left_of_runs(const facts::Snapshot& snapshot, std::span<const facts::Lease> leases) {
  std::map<std::string, Left> runs;
  for (const facts::GpuRecord& record : snapshot.gpus) {
    const facts::Lease* lease = facts::find_lease(leases, record);
    if (lease == nullptr) continue;
    for (const facts::LeaseHolder& holder : lease->holders) {
      if (!holder.orphaned) continue;
      Left& left = runs[holder.run_id];
      left.processes.insert(holder.pid);
      left.gpus.push_back(record.gpu.index.value);
    }
  }
  return runs;
}

}  // namespace

void add_leftovers(Examination& examination, const facts::Snapshot& snapshot, std::span<const facts::Lease> leases,
                   const Choice& choice) {
  std::vector<ToldFinding> told;
  for (const auto& [run_id, left] : left_of_runs(snapshot, leases)) {
    std::vector<std::string> pids;
    for (const Pid pid : left.processes) pids.push_back(std::to_string(pid.value));
    Finding finding;
    finding.id = kLeftovers;
    finding.area = Area::system;
    finding.severity = Severity::warning;
    finding.title = fmt::format("what is left of the run {} (pid {}) holds {}", run_id, join(pids, ", "),
                                facts::name_gpus(left.gpus));
    finding.why =
        "Its launcher and guardians were killed: nobody ends these processes, and who waits for the GPUs may "
        "wait for ever.";
    finding.fix = {facts::ending_command(run_id)};
    finding.source = "the kernel's locks: nobody holds that of the run's record";
    told.push_back({std::move(finding), {}});
  }
  add_told(examination, std::move(told), choice);
}

}  // namespace gpuwarden::doctor
