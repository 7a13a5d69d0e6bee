// SPDX-License-Identifier: Apache-2.0
// `gpuwarden select --model`: how many GPUs a model needs, and how much of each.
#pragma once

#include "command.hpp"
#include "gpuwarden/facts/snapshot.hpp"
#include "gpuwarden/placement/request.hpp"

namespace gpuwarden::cli {

/// Fills count and free memory of `request` with what --model (a catalogue name, a config.json, its folder) needs for
/// --task on the GPUs of the snapshot: the smallest number of them, from 1 in powers of two, on which a strategy fits.
/// What was asked for beside it stays. Says on standard error what was concluded. Fails with unsatisfied where not
/// even all of them do, with invalid_argument on a model or task that cannot be read.
Result<void> request_for_model(const Context& context, const facts::Snapshot& snapshot, placement::Request& request);

}  // namespace gpuwarden::cli
