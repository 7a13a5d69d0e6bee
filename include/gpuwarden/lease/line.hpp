// SPDX-License-Identifier: Apache-2.0
// Whom a request lets go first: those who came before it, as long as they use their turn.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/lease/lease_store.hpp"

namespace gpuwarden::lease {

/// How long a waiting request may leave idle what it could take, before others take it.
inline constexpr std::chrono::seconds kTurn(20);

/// One request's view of the line, kept for as long as it waits. A ticket holds its candidates back from those behind
/// it, but not one whose user let a turn pass (a ticket could go and did not for kTurn), nor one that waits for its own
/// user's leases only: nobody can block the line by waiting and never going.
class Line {
 public:
  struct View {
    std::vector<Uuid> spoken_for;  ///< devices to leave to those before
    std::size_t ahead = 0;         ///< how many are before
    bool someone_can_go = false;   ///< one of those has its turn just now
  };
  /// `own`: the id of the request's own ticket (empty: behind all); `idle`: devices that nobody leases or uses.
  View look(const Situation& situation, const std::string& own, const std::set<Uuid>& idle, Clock::SteadyTime now);

 private:
  std::map<std::string, Clock::SteadyTime> turns_;  ///< since when a ticket could have gone
  std::set<std::string> late_;                      ///< users who let a turn pass
};

}  // namespace gpuwarden::lease
