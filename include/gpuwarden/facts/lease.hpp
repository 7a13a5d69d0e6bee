// SPDX-License-Identifier: Apache-2.0
// Who has reserved a GPU through gpuwarden.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "gpuwarden/base/ids.hpp"

namespace gpuwarden::facts {

/// One holder of a lease, as it described itself when it took it.
struct LeaseHolder {
  Pid pid;
  std::string user;
  std::string run_id;
  std::string command;
  std::chrono::system_clock::time_point since{};

  bool operator==(const LeaseHolder&) const = default;
};

/// A leased GPU or MIG instance. Several holders only when shared. holders may be empty where a lock is held by
/// somebody who left no readable record.
struct Lease {
  Uuid uuid;
  bool shared = false;
  std::vector<LeaseHolder> holders;

  bool operator==(const Lease&) const = default;
};

/// A request that waits in line: how many it wants out of which candidates.
struct LeaseTicket {
  std::uint64_t number = 0;  ///< smaller came first
  LeaseHolder owner;
  std::uint32_t wants = 0;
  std::vector<Uuid> candidates;

  bool operator==(const LeaseTicket&) const = default;
};

}  // namespace gpuwarden::facts
