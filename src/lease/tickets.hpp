// SPDX-License-Identifier: Apache-2.0
// The line of waiting requests: a file each, locked for as long as its owner waits. Its place is the kernel's time of
// the file's birth, which no user can set back, and its user is the file's owner.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/lease/lease_store.hpp"

namespace gpuwarden::lease {

/// Those who wait, first come first; the places that one user has are taken by his tickets in the order of their
/// priority. Tickets that nobody holds are removed where `sweep` (under the gate) permits;
/// those that another user's process holds, and more of one user than anybody needs, do not count.
std::vector<facts::LeaseTicket> live_tickets(const StoreOptions& options, Names names, bool sweep);

struct NewTicket {
  std::string id;
  std::filesystem::path path;
  UniqueFd fd;
};
/// Under the gate.
Result<NewTicket> make_ticket(const StoreOptions& options, std::uint32_t wants, const std::vector<Uuid>& candidates,
                              std::int32_t priority);

}  // namespace gpuwarden::lease
