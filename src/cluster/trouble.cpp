// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/cluster/trouble.hpp"

#include <algorithm>

#include "gpuwarden/facts/use.hpp"

namespace gpuwarden::cluster {

bool has_gpu_in_trouble(const Node& node) {
  const bool unfit =
      std::ranges::any_of(node.health, [](const facts::Health& one) { return one.state == facts::HealthState::error; });
  return unfit || (node.reading && std::ranges::any_of(node.reading->snapshot.gpus, facts::is_in_trouble));
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
