// SPDX-License-Identifier: Apache-2.0
// What the processes of a job are told of each other: torchrun's variables, for those who start them otherwise too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/launch/job.hpp"

namespace gpuwarden::launch {

/// A port that nobody has bound, drawn at random from [15000, start of the ephemeral range) so that no outgoing
/// connection takes it. run_job() holds such a port against other launchers for as long as the job lasts.
Result<std::uint16_t> find_free_port();

/// The port on which the nodes of a job meet who know nothing of each other but its id: the same for the same id and
/// attempt, in the range of find_free_port().
std::uint16_t port_of_job(std::string_view id, std::uint32_t attempt);

/// The directory's file in which a rank's program may note down its error, as torchrun's do (TORCHELASTIC_ERROR_FILE).
std::filesystem::path error_file(const std::filesystem::path& folder, std::uint32_t rank);

/// RANK of the job's first rank on this node.
std::uint32_t first_rank_of(const JobSpec& spec);

/// The variables of one rank: torchrun's (source: torch.distributed.elastic's local agent), CUDA's and gpuwarden's.
Environment rank_environment(const JobSpec& spec, std::uint32_t local_rank, std::uint16_t port);

}  // namespace gpuwarden::launch
