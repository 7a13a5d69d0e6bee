// SPDX-License-Identifier: Apache-2.0
// Which of the named hosts take part in a job that wants so many GPUs in all. Pure.
#pragma once

#include <string>
#include <vector>

#include "gpuwarden/cluster/node.hpp"
#include "gpuwarden/hosts/host.hpp"
#include "gpuwarden/placement/nodes.hpp"

namespace gpuwarden::hosts {

struct ChosenHosts {
  std::vector<Host> hosts;            ///< with their numbers of GPUs, in the order in which they were named
  std::vector<std::string> left_out;  ///< "b: why", of those that could not be chosen from
};

/// As placement::select_on_nodes() among what look() saw, one node for each host; GPUs that are disabled or judged
/// unfit there are left out. Fails with unsatisfied, saying what is lacking.
Result<ChosenHosts> choose_hosts(const std::vector<Host>& named, const std::vector<cluster::Node>& nodes,
                                 const placement::NodesRequest& request);

}  // namespace gpuwarden::hosts
