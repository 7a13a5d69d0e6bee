// SPDX-License-Identifier: Apache-2.0
// Which GPUs, and how long they are waited for, from what people say.
//
//     NamedValues values;
//     values.set("num-gpus", {"2:4"});
//     values.set("wait", {"10m"});
//     auto gpus = jobs::gpus_from(values, {});
//     auto held = machine::reserve(*machine, *gpus, holder, system_clock(), stop);
#pragma once

#include <span>

#include "gpuwarden/base/named_values.hpp"
#include "gpuwarden/base/value_names.hpp"
#include "gpuwarden/machine/reservation.hpp"
#include "gpuwarden/placement/request.hpp"

namespace gpuwarden::jobs {

/// The names that gpus_from() knows beside placement::selection_names(): "wait", "priority".
std::span<const ValueName> waiting_names();

/// Fails with invalid_argument where "all" and "num-gpus" are both said.
Result<void> check_which_gpus(const NamedValues& values);

/// The request with what the values say of it; its model's work is known already. How many, which and all replace what
/// the request says about any of them. "num-gpus", or a range of "nproc-per-node", may be a range; without a word about
/// how many there is a GPU for each of several ranks. "wait" without a value is without end. Fails with
/// invalid_argument, naming the value, for what is none and for values that contradict each other.
Result<machine::ReservationRequest> gpus_from(const NamedValues& values, placement::Request request);

}  // namespace gpuwarden::jobs
