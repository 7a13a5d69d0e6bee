// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/cluster/trouble.hpp"

#include <algorithm>
#include <set>

#include "gpuwarden/facts/use.hpp"

namespace gpuwarden::cluster {

bool has_gpu_in_trouble(const Node& node) {
  std::set<Uuid> unfit;
  for (const facts::Health& one : node.health) {
    if (one.state == facts::HealthState::error) unfit.insert(one.uuid);
  }
  if (!node.reading) return !unfit.empty();
  bool trouble = false;
  for (const facts::GpuRecord& record : node.reading->snapshot.gpus)
    trouble = facts::is_in_trouble(record, unfit.erase(facts::identity_of(record)) > 0) || trouble;
  return trouble || !unfit.empty();  // what is left is a GPU that is not there any more
}

std::optional<facts::Disabling> out_of_use(const Node& node, const Uuid& gpu) {
  const auto health = std::ranges::find(node.health, gpu, &facts::Health::uuid);
  if (health == node.health.end()) return std::nullopt;
  const bool judged = health->state == facts::HealthState::error;
  if (!judged && health->state != facts::HealthState::disabled) return std::nullopt;
  facts::Disabling word;
  word.uuid = gpu;
  word.reason = health->reason;
  word.judged = judged;
  word.next_step = health->next_step;
  return word;
}

}  // namespace gpuwarden::cluster
