// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/healing/supply.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace gpuwarden::healing {

void supply(const machine::ReservationRequest& first, const Reserving& reserving, Options& options) {
  if (!first.gpus.gpu_ids.empty() || first.gpus.force_cpu) return;
  options.other_gpus = [first, reserve = reserving.between_tries](const std::vector<Uuid>& without) {
    machine::ReservationRequest others = first;
    others.without = without;
    return reserve(others);
  };
  options.one_more = [first, reserve = reserving.while_ranks_run](const std::vector<Uuid>& without,
                                                                  std::optional<Bytes> memory) {
    machine::ReservationRequest one = first;
    one.gpus.count = 1;
    one.gpus.all = false;
    // A model is for all of the job's GPUs together: one that is as large as the other will do.
    if (one.gpus.work || one.gpus.model_size) one.gpus.min_memory = memory;
    one.gpus.work.reset();
    one.gpus.model_size.reset();
    one.least.reset();
    one.without = without;
    one.wait.reset();
    one.looks_again = false;
    one.refused = nullptr;
    return reserve(one);
  };
  if (!first.least) return;
  Elastic elastic{.least = *first.least, .most = first.gpus.count.value_or(1)};
  elastic.more = [first, reserving](std::uint32_t least, std::uint32_t most, const std::vector<Uuid>& without) {
    machine::ReservationRequest more = first;
    more.gpus.count = most;
    more.least = std::max(least, 1U);
    more.without = without;
    if (least > 0) return reserving.between_tries(more);
    more.wait.reset();
    more.looks_again = false;
    more.refused = nullptr;
    return reserving.while_ranks_run(more);
  };
  options.elastic = std::move(elastic);
}

std::optional<MeetingPlace> meeting_of(const launch::RunPlan& plan, const RestartPolicy& policy, bool elastic) {
  const launch::JobSpec& job = plan.job;
  const std::uint32_t least = plan.least_nodes.value_or(job.nodes);
  if (job.nodes < 2 || (policy.max_restarts == 0 && least == job.nodes && !elastic)) return std::nullopt;
  MeetingPlace place{.node = job.node_rank, .least = least, .most = job.nodes};
  place.address = job.master_address;
  place.key = job.rendezvous_id.empty() ? fmt::format("{}:{}", job.master_address, job.master_port.value_or(0))
                                        : job.rendezvous_id;
  return place;
}

}  // namespace gpuwarden::healing
