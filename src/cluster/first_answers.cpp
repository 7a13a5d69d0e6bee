// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/cluster/first_answers.hpp"

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::cluster {

bool was_asked(const Node& node) {
  // A server that has read nothing yet answers too.
  return node.reading != nullptr || node.problem || node.seen != Clock::WallTime{};
}

std::vector<Node> first_answers(const NodeSource& source, const std::function<bool()>& asked_all,
                                std::chrono::milliseconds patience, Clock& clock, const std::stop_token& stop) {
  constexpr std::chrono::milliseconds kBetweenLooks(10);
  const auto end = clock.now() + patience;
  while (!asked_all() && clock.now() < end) {
    if (!clock.sleep_for(kBetweenLooks, stop)) break;
  }
  std::vector<Node> nodes = source.nodes();
  for (Node& node : nodes) {
    if (!was_asked(node))
      node.problem = Error{ErrorCode::timed_out, "timed out after " + format_duration(patience), ""};
  }
  return nodes;
}

}  // namespace gpuwarden::cluster
