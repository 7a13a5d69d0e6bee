// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/hosts/look.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/cluster/json.hpp"
#include "hosts/crowd.hpp"
#include "hosts/protocol.hpp"

namespace gpuwarden::hosts {
namespace {

cluster::Node node_of(const Session& session) {
  cluster::Node node;
  if (session.node) {
    auto read = cluster::node_from_json(*session.node);
    if (read)
      node = std::move(*read);
    else
      node.problem = std::move(read).error();
  } else {
    node.problem = session.problem.value_or(Error{
        ErrorCode::timed_out, fmt::format("{} did not answer in time", session.host.name), "try a longer --timeout"});
  }
  node.name = session.host.name;
  node.url = "ssh://" + session.host.name;
  return node;
}

}  // namespace

Result<std::vector<cluster::Node>> look(const LookRequest& request, Links& links, Clock& clock) {
  Crowd crowd(request.hosts, {.version = request.version, .ssh = request.ssh, .ears = {}, .slow = {}, .moved = {}},
              links, clock);
  std::vector<bool> asked(request.hosts.size());
  const auto all_answered = [&] {
    bool all = true;
    for (Session& session : crowd.sessions) {
      if (session.is_well() && !asked[session.link]) {
        asked[session.link] = true;
        crowd.send(session, kLook, {{"options", request.options}});
      }
      all = all && (session.node || session.problem);
    }
    return all;
  };
  crowd.until(all_answered, request.patience);
  if (crowd.signal) return fail(ErrorCode::interrupted, "interrupted");
  std::vector<cluster::Node> nodes;
  for (const Session& session : crowd.sessions) nodes.push_back(node_of(session));
  // Who did not answer in time is not waited for any more.
  for (Session& session : crowd.sessions) {
    if (!session.node && !session.gone) crowd.cut_off(session, {});
  }
  crowd.leave();
  return nodes;
}

}  // namespace gpuwarden::hosts
