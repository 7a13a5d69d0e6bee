// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/hosts/choose.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::hosts {
namespace {

/// What keeps a host's GPUs out of use there, as the selector takes it.
std::vector<facts::Disabling> out_of_use(const cluster::Node& node) {
  std::vector<facts::Disabling> list;
  for (const facts::Health& one : node.health) {
    if (one.state == facts::HealthState::error || one.state == facts::HealthState::disabled)
      list.push_back({.uuid = one.uuid, .reason = std::string(facts::to_string(one.state))});
  }
  return list;
}

std::string why_not(const cluster::Node& node) {
  if (node.problem) return node.problem->message;
  if (!node.reading) return "it tells nothing of its GPUs";
  // Whose GPUs they are is not known: none of them counts as free.
  if (node.leases_problem) return node.leases_problem->message;
  return "";
}

}  // namespace

Result<ChosenHosts> choose_hosts(const std::vector<Host>& named, const std::vector<cluster::Node>& nodes,
                                 const placement::NodesRequest& request) {
  static const std::vector<Uuid> kNobodyWaits;
  ChosenHosts chosen;
  std::vector<std::vector<facts::Disabling>> disabled;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::string why = why_not(nodes[i]);
    if (!why.empty()) {
      chosen.left_out.push_back(fmt::format("{}: {}", named[i].name, printable(why)));
      continue;
    }
    disabled.push_back(out_of_use(nodes[i]));
    places.push_back(i);
  }
  std::vector<placement::Inputs> inputs;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const telemetry::Reading& reading = *nodes[places[i]].reading;
    inputs.push_back({reading.snapshot, reading.leases, kNobodyWaits, {}, disabled[i]});
  }
  GPUWARDEN_TRY(const auto decision, placement::select_on_nodes(request, inputs));
  for (const auto& [place, why] : decision.left_out)
    chosen.left_out.push_back(fmt::format("{}: {}", named[places[place]].name, printable(why)));
  if (!decision.satisfied) {
    std::string whole = decision.missing;
    for (const std::string& one : chosen.left_out) whole += "\n  " + one;
    return fail(ErrorCode::unsatisfied, std::move(whole),
                "gpuwarden list --hosts shows them; --wait waits for hosts with numbers of their own (a:4,b:4)");
  }
  for (const placement::NodeShare& share : decision.shares) {
    Host host = named[places[share.node]];
    host.gpus = static_cast<std::uint32_t>(share.decision.selected.size());
    chosen.hosts.push_back(std::move(host));
  }
  return chosen;
}

}  // namespace gpuwarden::hosts
