// SPDX-License-Identifier: Apache-2.0
// Adds up uses. Who has several processes on a GPU at once holds it once.
#include <algorithm>
#include <tuple>

#include "gpuwarden/telemetry/usage.hpp"

namespace gpuwarden::telemetry {
namespace {

using UsePointers = std::vector<const Use*>;

/// Seconds for which at least one of the uses, all of one GPU, held it: the length of the union of their stretches. A
/// use that was summed up over a longer time did not hold the GPU for the whole of its stretch: no more counts than all
/// of the stretch's uses held it together.
double held_seconds(UsePointers uses) {
  std::ranges::sort(uses, {}, &Use::from);
  double held = 0;
  for (std::size_t i = 0; i < uses.size();) {
    const WallTime from = uses[i]->from;
    WallTime to = uses[i]->to;
    double together = 0;
    // What only touches is a stretch of its own, so that gaps within one do not lend time to another.
    for (const std::size_t first = i; i < uses.size() && (i == first || uses[i]->from < to); ++i) {
      to = std::max(to, uses[i]->to);
      together += uses[i]->gpu_seconds;
    }
    held += std::min(together, std::chrono::duration<double>(to - from).count());
  }
  return held;
}

double held_on_all(const UsePointers& uses, bool known_only) {
  std::map<Uuid, UsePointers> by_gpu;
  for (const Use* const use : uses) {
    if (!known_only || use->mean_utilization) by_gpu[use->gpu].push_back(use);
  }
  double held = 0;
  for (auto& [gpu, on_it] : by_gpu) held += held_seconds(std::move(on_it));
  return held;
}

/// What a field is in all of them; else nothing.
template <class Field>
Field common(const UsePointers& uses, Field Use::* field) {
  const bool same = std::ranges::all_of(uses, [&](const Use* use) { return use->*field == uses.front()->*field; });
  return same ? uses.front()->*field : Field{};
}

Use summed_up(const UsePointers& uses) {
  Use sum;
  sum.user = common(uses, &Use::user);
  sum.job = common(uses, &Use::job);
  sum.pid = common(uses, &Use::pid);
  sum.command = common(uses, &Use::command);
  sum.gpu = common(uses, &Use::gpu);
  sum.index = common(uses, &Use::index);
  sum.from = (*std::ranges::min_element(uses, {}, &Use::from))->from;
  sum.to = (*std::ranges::max_element(uses, {}, &Use::to))->to;
  sum.gpu_seconds = held_on_all(uses, false);
  for (const Use* const use : uses) {
    sum.busy_seconds += use->busy_seconds;
    if (use->peak_memory) sum.peak_memory = std::max(sum.peak_memory.value_or(Bytes(0)), *use->peak_memory);
  }
  // Several processes share a GPU: together they compute for no longer than they hold it.
  sum.busy_seconds = std::min(sum.busy_seconds, sum.gpu_seconds);
  const double known = held_on_all(uses, true);
  if (known > 0) sum.mean_utilization = std::min(100.0, 100 * sum.busy_seconds / known);
  return sum;
}

/// A user's jobs have names of their own (slurm's numbers are unique, runs' ids too); work outside of jobs is the
/// user's.
std::tuple<std::string, std::string, std::int32_t, std::string> group_of(const Use& use, UseBy by) {
  switch (by) {
    case UseBy::user:
      return {use.user, "", 0, ""};
    case UseBy::job:
      return {use.job.empty() ? use.user : "", use.job, 0, ""};
    case UseBy::process:
      break;
  }
  return {use.user, use.job, use.pid ? use.pid->value : 0, use.command};
}

}  // namespace

std::vector<Use> sum_up(const std::vector<Use>& uses, UseBy by) {
  std::map<std::tuple<std::string, std::string, std::int32_t, std::string>, UsePointers> groups;
  for (const Use& use : uses) groups[group_of(use, by)].push_back(&use);
  std::vector<Use> result;
  for (const auto& [key, group] : groups) result.push_back(summed_up(group));
  std::ranges::stable_sort(result, std::greater<>{}, &Use::gpu_seconds);
  return result;
}

}  // namespace gpuwarden::telemetry
