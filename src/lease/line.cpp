// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/lease/line.hpp"

#include <algorithm>

namespace gpuwarden::lease {
namespace {

/// Whether a lease is the waiting user's own: no reason to keep others waiting.
bool is_held_by(const Situation& situation, const Uuid& uuid, const std::string& user) {
  const auto found = std::ranges::find(situation.leases, uuid, &facts::Lease::uuid);
  return found != situation.leases.end() && !found->holders.empty() &&
         std::ranges::all_of(found->holders, [&](const facts::LeaseHolder& holder) { return holder.user == user; });
}

}  // namespace

Line::View Line::look(const Situation& situation, const std::string& own, const std::set<Uuid>& idle,
                      Clock::SteadyTime now) {
  View view;
  std::set<Uuid> spoken_for;
  for (const facts::LeaseTicket& ticket : situation.waiting) {
    if (ticket.id == own) break;
    ++view.ahead;
    const auto count = [&](const auto& test) {
      return static_cast<std::size_t>(std::ranges::count_if(
          ticket.candidates, [&](const Uuid& uuid) { return !spoken_for.contains(uuid) && test(uuid); }));
    };
    const std::size_t wants = std::max<std::size_t>(1, ticket.wants);
    const bool can_go = count([&](const Uuid& uuid) { return idle.contains(uuid); }) >= wants;
    const bool waits_for_others =
        count([&](const Uuid& uuid) { return !is_held_by(situation, uuid, ticket.owner.user); }) >= wants;
    if (!can_go)
      turns_.erase(ticket.id);
    else if (now - turns_.try_emplace(ticket.id, now).first->second >= kTurn)
      late_.insert(ticket.owner.user);  // by user: many tickets are not many turns
    if (late_.contains(ticket.owner.user) || !waits_for_others) continue;
    view.someone_can_go = view.someone_can_go || can_go;
    spoken_for.insert(ticket.candidates.begin(), ticket.candidates.end());
  }
  view.spoken_for.assign(spoken_for.begin(), spoken_for.end());
  return view;
}

}  // namespace gpuwarden::lease
