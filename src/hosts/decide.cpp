// SPDX-License-Identifier: Apache-2.0
#include "hosts/decide.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::hosts {

std::vector<Start> places(const Start& common, std::span<const std::uint32_t> ranks) {
  std::vector<Start> starts;
  std::uint32_t world = 0;
  for (const std::uint32_t count : ranks) {
    Start start = common;
    start.node = static_cast<std::uint32_t>(starts.size());
    start.nodes = static_cast<std::uint32_t>(ranks.size());
    start.first_rank = world;
    world += count;
    starts.push_back(std::move(start));
  }
  for (Start& start : starts) start.world_size = world;
  return starts;
}

Result<std::string> choose_address(const std::string& first, const Meeting& meeting,
                                   std::span<const NamedReach> tries) {
  const auto reached = [](const NamedReach& from, const std::string& address) {
    return std::ranges::any_of(from.tries,
                               [&](const Reach& one) { return one.address == address && one.problem.empty(); });
  };
  for (const std::string& address : meeting.addresses) {
    if (std::ranges::all_of(tries, [&](const NamedReach& from) { return reached(from, address); })) return address;
  }
  std::string whole =
      fmt::format("the other hosts do not reach {} at one of its addresses, port {}:", first, meeting.port);
  for (const NamedReach& from : tries) {
    for (const Reach& one : from.tries) {
      if (!one.problem.empty())
        whole += fmt::format("\n  from {}: {}: {}", from.host, printable(one.address), printable(one.problem));
    }
  }
  return fail(ErrorCode::unavailable, std::move(whole),
              "--master-addr ADDRESS names one; a firewall between the hosts has to let such ports through");
}

std::optional<HostFailure> first_of(std::span<const HostFailure> failures) {
  const auto first = std::ranges::min_element(failures, {}, &HostFailure::when);
  return first == failures.end() ? std::nullopt : std::optional(*first);
}

launch::Failure failure_of(const HostsTry& one) {
  launch::Failure failure{.lasted = one.wall_time};
  const auto lost = std::ranges::find_if(one.hosts, [](const HostEnd& host) { return !host.lost.empty(); });
  if (lost != one.hosts.end()) failure.final_because = lost->lost;
  const Done* done = one.failed_host && one.hosts[*one.failed_host].done ? &*one.hosts[*one.failed_host].done : nullptr;
  failure.why = done == nullptr || done->why.empty() ? fmt::format("exit code {}", one.exit_code) : done->why;
  if (done == nullptr) return failure;
  if (done->restart == "never") failure.restart = knowledge::Restart::never;
  if (done->restart == "other_gpus") failure.restart = knowledge::Restart::other_gpus;
  failure.remedy = done->remedy;
  return failure;
}

}  // namespace gpuwarden::hosts
