// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/facts/lease.hpp"

#include <algorithm>

namespace gpuwarden::facts {

std::string describe_unseen_holder(const Lease& lease) {
  if (!lease.holders.empty()) return "";
  return "the holder is not visible here: another user's where /proc hides them, or another container's";
}

std::string ending_command(const std::string& run_id) { return "gpuwarden run --end-leftovers " + run_id; }

std::string describe_orphan(const LeaseHolder& holder) {
  if (!holder.orphaned) return "";
  return "left over of the run " + holder.run_id +
         ", whose launcher was killed; to end: " + ending_command(holder.run_id);
}

const LeaseHolder* find_orphan(const Lease& lease) {
  const auto found = std::ranges::find(lease.holders, true, &LeaseHolder::orphaned);
  return found == lease.holders.end() ? nullptr : &*found;
}

}  // namespace gpuwarden::facts
