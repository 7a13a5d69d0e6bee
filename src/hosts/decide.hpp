// SPDX-License-Identifier: Apache-2.0
// What follows from what the hosts told. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/hosts/run.hpp"

namespace gpuwarden::hosts {

/// Where each host's ranks stand in the job, from how many each has; the rest is as in `common`.
std::vector<Start> places(const Start& common, std::span<const std::uint32_t> ranks);

/// Of one host: what became of trying to reach the first.
struct NamedReach {
  std::string host;
  std::vector<Reach> tries;
};
/// The first address at which all of them reached it. Fails with unavailable: who could not, and why.
Result<std::string> choose_address(const std::string& first, const Meeting& meeting, std::span<const NamedReach> tries);

struct HostFailure {
  std::size_t host = 0;
  std::optional<std::uint32_t> rank;
  int exit_code = 1;
  Clock::SteadyTime when{};  ///< of a lost host: when it was heard last
};
/// The one that came first.
std::optional<HostFailure> first_of(std::span<const HostFailure> failures);

/// A try that failed, for launch::Restarts.
launch::Failure failure_of(const HostsTry& one);

}  // namespace gpuwarden::hosts
