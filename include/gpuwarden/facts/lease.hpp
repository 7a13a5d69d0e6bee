// SPDX-License-Identifier: Apache-2.0
// Who has reserved a GPU through gpuwarden.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/ids.hpp"

namespace gpuwarden::facts {

/// One holder of a lease. Process and user are the kernel's word; run, command and time are its own, as it described
/// itself when it took the lease, and empty where it left no description.
struct LeaseHolder {
  Pid pid;
  std::string user;
  std::string run_id;
  std::string command;
  std::optional<std::chrono::system_clock::time_point> since;
  /// Left over of a run whose launcher and guardians were all killed: nobody ends it, and it may hold the GPU for ever.
  /// The kernel's word (nobody holds the lock of the run's record).
  bool orphaned = false;

  bool operator==(const LeaseHolder&) const = default;
};

/// A leased GPU or MIG instance. Several holders where it is shared, or where the ranks of a launcher that has ended
/// hold it. None: held, but the holder is not visible to the caller (another user's where /proc hides them, another
/// container's).
struct Lease {
  Uuid uuid;
  bool shared = false;
  std::vector<LeaseHolder> holders;

  bool operator==(const Lease&) const = default;
};

/// Where nobody is seen to hold it that says so, for people: "the holder is not visible here: ..."; else empty.
std::string describe_unseen_holder(const Lease& lease);

/// How to end what is left of a run: "gpuwarden run --end-leftovers ID".
std::string ending_command(const std::string& run_id);
/// Of an orphaned holder what it is and the command that ends it, for people; else empty.
std::string describe_orphan(const LeaseHolder& holder);
/// The orphaned holder of a lease; nullptr where there is none.
const LeaseHolder* find_orphan(const Lease& lease);

/// A request that waits in line: how many it wants out of which candidates. The owner's pid is 0 where it is not
/// visible.
struct LeaseTicket {
  std::uint64_t number = 0;  ///< its place in the line, from 1
  std::string id;            ///< tells it from others for as long as it waits
  LeaseHolder owner;
  std::uint32_t wants = 0;
  std::vector<Uuid> candidates;

  bool operator==(const LeaseTicket&) const = default;
};

}  // namespace gpuwarden::facts
