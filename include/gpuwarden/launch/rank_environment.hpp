// SPDX-License-Identifier: Apache-2.0
// What the processes of a job are told of each other: torchrun's variables, for those who start them otherwise too.
#pragma once

#include <cstdint>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/launch/job.hpp"

namespace gpuwarden::launch {

/// A port that nobody has bound, drawn at random from [15000, start of the ephemeral range) so that no outgoing
/// connection takes it and two launchers hardly ever meet. Rank 0 binds it itself, so it cannot be held for it.
Result<std::uint16_t> find_free_port();

/// The variables of one rank: torchrun's (source: torch.distributed.elastic's local agent), CUDA's and gpuwarden's.
Environment rank_environment(const JobSpec& spec, std::uint32_t local_rank, std::uint16_t port);

}  // namespace gpuwarden::launch
