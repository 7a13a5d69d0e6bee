// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/cluster/first_answers.hpp"

#include <fmt/format.h>

#include <algorithm>

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

std::optional<Error> why_none_answers(std::span<const Node> nodes) {
  if (nodes.empty()) return Error{ErrorCode::unavailable, "no machine has answered yet", ""};
  if (std::ranges::any_of(nodes, [](const Node& node) { return !node.problem; })) return std::nullopt;
  const Node& first = nodes.front();
  Error why = *first.problem;
  const std::size_t scheme = first.url.find("://");
  const std::string address = scheme == std::string::npos ? first.url : first.url.substr(scheme + 3);
  // What is said of a connection names it already.
  if (!why.message.contains(address)) why.message = fmt::format("{}: {}", first.name, why.message);
  return why;
}

}  // namespace gpuwarden::cluster
