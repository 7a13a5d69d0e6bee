// SPDX-License-Identifier: Apache-2.0
// Where the GPUs of a job's later tries come from, and where its nodes meet: from what the first try asked for.
#pragma once

#include <functional>
#include <optional>

#include "gpuwarden/healing/run.hpp"
#include "gpuwarden/launch/run.hpp"
#include "gpuwarden/machine/reservation.hpp"

namespace gpuwarden::healing {

using Reserve = std::function<Result<machine::Reservation>(const machine::ReservationRequest&)>;

/// How GPUs are reserved while no ranks run, and while some do: nobody waits then, and the launcher has the signals.
struct Reserving {
  Reserve between_tries;
  Reserve while_ranks_run;
};

/// Options::other_gpus, Options::one_more and Options::elastic: chosen as the first GPUs were. GPUs that were named are
/// those, and no others; a job on the CPU has none.
void supply(const machine::ReservationRequest& first, const Reserving& reserving, Options& options);

/// Where several nodes agree about starting, if there is anything to agree on: restarts, a range of nodes or of GPUs.
std::optional<MeetingPlace> meeting_of(const launch::RunPlan& plan, const RestartPolicy& policy, bool elastic);

}  // namespace gpuwarden::healing
