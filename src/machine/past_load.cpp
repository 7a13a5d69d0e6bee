// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/machine/past_load.hpp"

#include <algorithm>
#include <utility>

#include "gpuwarden/facts/use.hpp"

namespace gpuwarden::machine {

facts::Snapshot without_past_load(facts::Snapshot snapshot, const std::optional<std::vector<Uuid>>& devices) {
  for (facts::GpuRecord& record : snapshot.gpus) {
    const bool is_meant = !devices || std::ranges::find(*devices, facts::identity_of(record)) != devices->end();
    if (is_meant && facts::has_load_alone(record)) record.sample.utilization_gpu = Percent(0);
  }
  return snapshot;
}

bool past_load_counts(const placement::Decision& decision, const placement::Inputs& inputs,
                      const std::function<Result<placement::Decision>(const placement::Inputs&)>& select) {
  if (std::ranges::none_of(inputs.snapshot.gpus, facts::has_load_alone)) return false;
  const facts::Snapshot calm = without_past_load(inputs.snapshot);
  const auto then = select({calm, inputs.leases, inputs.spoken_for, inputs.visibility, inputs.disabled});
  return then && then->selected.size() > decision.selected.size();
}

}  // namespace gpuwarden::machine
