// SPDX-License-Identifier: Apache-2.0
// GPUs of a machine, in one call: read, chosen, waited for, held.
//
//     auto gpus = reserve(*machine, {.gpus = {.count = 2}, .wait = std::chrono::minutes(5)},
//                         {.run_id = "run-1", .command = "train.py"}, system_clock(), stop);
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/machine/machine.hpp"
#include "gpuwarden/machine/reservation.hpp"

namespace gpuwarden::machine {

/// Who holds the GPUs, as others see it.
struct Holder {
  std::string run_id;
  std::string command;
};

/// As Reservation::make() on this machine, among the GPUs that its environment makes visible. The past does not change:
/// of a capture it only asks. An error's hint says what would help. Fails as make() and Machine::open_leases() do.
Result<Reservation> reserve(const Machine& machine, ReservationRequest request, const Holder& holder, Clock& clock,
                            const std::stop_token& stop = {});

/// What is to be told of it: warnings of the decision, and of what the leases do not guarantee; of this machine's own
/// GPUs also where containers that share them do not share the lease directory, unless that was named.
std::vector<std::string> warnings_of(const Reservation& reservation, const Machine& machine);

/// `environment` for a program that is to use these GPUs alone: CUDA_VISIBLE_DEVICES in CUDA's order by bus, and what
/// finds a simulated fleet.
Environment environment_of(const Reservation& reservation, const Machine& machine, Environment environment);

/// Who holds what on a machine and who waits, and the same of simulated fleets that share its lease directory.
struct Holdings {
  lease::Situation here;
  lease::Situation fleets;
};
/// Fails as Machine::open_leases().
Result<Holdings> holdings_of(const Machine& machine, const std::stop_token& stop = {});

}  // namespace gpuwarden::machine
