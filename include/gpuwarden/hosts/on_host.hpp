// SPDX-License-Identifier: Apache-2.0
// What a host does with what its launcher tells: for those that write an AgentWork.
#pragma once

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/cluster/node.hpp"
#include "gpuwarden/hosts/values.hpp"
#include "gpuwarden/launch/job.hpp"
#include "gpuwarden/machine/machine.hpp"

namespace gpuwarden::hosts {

/// Gives a job's ranks the place that the launcher has for them: which node, which ranks, where they meet, what is
/// added to the command. Start::changes are left to who knows what they stand for (healing::fill_in).
void place_ranks(const Start& start, launch::JobSpec& job);
/// The ranks' time, from `now`.
launch::TimeLimit time_limit_of(const Start& start, Clock::SteadyTime now);

/// This machine, read once: its GPUs, who has reserved them, and their health, with what cannot be told of these.
cluster::Node this_node(const machine::Machine& machine, const Clock& clock = system_clock());

}  // namespace gpuwarden::hosts
