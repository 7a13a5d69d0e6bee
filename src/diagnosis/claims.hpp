// SPDX-License-Identifier: Apache-2.0
// What single events say: which cause each names, how believably, and what the numbers make of it.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "gpuwarden/diagnosis/event.hpp"
#include "gpuwarden/knowledge/diagnosis.hpp"

namespace gpuwarden::diagnosis {

/// What one event says about one cause.
struct Claim {
  const Event* event = nullptr;
  std::string cause;
  knowledge::Role role = knowledge::Role::weak;
  double strength = 0;
  std::string reason;   ///< why it is this cause and not its neighbour
  std::string summary;  ///< a sentence with the numbers that decided; empty: the cause's own words
};

/// The stronger a role, the higher.
int tier(knowledge::Role role);

/// The claims of all events that count where `tags` are set, in the order of the events.
std::vector<Claim> claims_of(const Reading& reading, const std::set<std::string>& tags);

}  // namespace gpuwarden::diagnosis
