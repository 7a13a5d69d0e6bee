// SPDX-License-Identifier: Apache-2.0
// The GPUs of many hosts, asked once over OpenSSH.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/cluster/node.hpp"
#include "gpuwarden/hosts/host.hpp"
#include "gpuwarden/hosts/links.hpp"
#include "gpuwarden/hosts/ssh.hpp"

namespace gpuwarden::hosts {

struct LookRequest {
  std::vector<Host> hosts;
  std::string version;  ///< this program's
  SshOptions ssh;
  std::vector<std::string> options;  ///< of `gpuwarden list`
  std::chrono::milliseconds patience = std::chrono::seconds(30);
};

/// A node for each host, in their order, named as the host was. One that does not answer in time, has another version
/// or none has its reason in `problem` and no reading. Fails with interrupted alone.
Result<std::vector<cluster::Node>> look(const LookRequest& request, Links& links, Clock& clock);

}  // namespace gpuwarden::hosts
