// SPDX-License-Identifier: Apache-2.0
// For what shows nodes once and ends: waits until a source that has just been opened knows something.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/cluster/node.hpp"

namespace gpuwarden::cluster {

/// The nodes of a source once `asked_all` says yes, or after `patience`, or at `stop`: those that have neither answered
/// nor been lost by then have a problem, timed_out.
std::vector<Node> first_answers(const NodeSource& source, const std::function<bool()>& asked_all,
                                std::chrono::milliseconds patience, Clock& clock, const std::stop_token& stop = {});

/// Whether a node has answered, or is known not to.
bool was_asked(const Node& node);

/// Why none of them answers, by the first one's problem, named after it; nothing where one answers: the others are
/// shown as lost.
std::optional<Error> why_none_answers(std::span<const Node> nodes);

}  // namespace gpuwarden::cluster
