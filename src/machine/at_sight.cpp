// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/at_sight.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gpuwarden/facts/use.hpp"
#include "gpuwarden/fitness/symptoms.hpp"
#include "gpuwarden/lease/verdicts.hpp"

namespace gpuwarden::machine {

void add_unfit_at_sight(lease::Disablings::View& view, const facts::Snapshot& snapshot) {
  for (const facts::GpuRecord& record : snapshot.gpus) {
    const Uuid uuid = facts::identity_of(record);
    if (facts::find_disabling(view.disabled, uuid) != nullptr) continue;
    std::vector<facts::HealthCause> causes = fitness::unfit_at_sight(record, snapshot);
    if (const lease::Acceptance* accepted = lease::find_acceptance(view.accepted, record); accepted != nullptr)
      std::erase_if(causes, [&](const facts::HealthCause& cause) { return lease::accepts(*accepted, cause); });
    if (causes.empty()) continue;
    facts::Disabling unfit;
    unfit.uuid = uuid;
    unfit.reason = "unfit: " + causes.front().reason;
    unfit.since = snapshot.taken_at;
    unfit.judged = true;
    unfit.next_step = std::move(causes.front().next_step);
    view.disabled.push_back(std::move(unfit));
  }
}

std::vector<facts::Health> unfit_in(const facts::Snapshot& snapshot) {
  std::vector<facts::Health> unfit;
  for (const facts::GpuRecord& record : snapshot.gpus) {
    facts::Health health;
    health.causes = fitness::unfit_at_sight(record, snapshot);
    if (health.causes.empty()) continue;
    health.uuid = facts::identity_of(record);
    health.index = record.gpu.index;
    health.state = facts::HealthState::error;
    health.reason = health.causes.front().reason;
    health.next_step = health.causes.front().next_step;
    health.since = snapshot.taken_at;
    unfit.push_back(std::move(health));
  }
  return unfit;
}

EnableRequest enable_request(const facts::Snapshot& snapshot, std::vector<Uuid> gpus, std::string reason,
                             std::string by) {
  EnableRequest request{
      .gpus = std::move(gpus), .reason = std::move(reason), .by = std::move(by), .seen = unfit_in(snapshot)};
  for (const facts::GpuRecord& record : snapshot.gpus) request.marks.push_back(lease::reset_mark_of(record));
  return request;
}

Result<lease::Disablings::View> out_of_use_in(const Machine& machine, const facts::Snapshot& snapshot,
                                              std::chrono::system_clock::time_point now) {
  lease::Disablings::View view;
  if (!machine.captured()) {
    GPUWARDEN_TRY(view, out_of_use(machine.options().environment, machine.reader(), now));
  }
  add_unfit_at_sight(view, snapshot);
  return view;
}

}  // namespace gpuwarden::machine
