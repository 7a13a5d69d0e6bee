// SPDX-License-Identifier: Apache-2.0
// What holders and waiters write about themselves, for others to read. The kernel says who holds and who waits; a
// record only adds to that, where its file belongs to the same user.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/facts/lease.hpp"
#include "lease/kernel_locks.hpp"

namespace gpuwarden::lease {

/// A record and the user to whom its file belongs.
struct Record {
  std::uint32_t owner = 0;
  facts::LeaseHolder holder;
};

/// Writes a record file (0644) whole or not at all; failure is no failure of the lease.
void write_record(const std::filesystem::path& path, const facts::LeaseHolder& holder);
/// The records whose names begin with `prefix`.
std::vector<Record> read_records(const std::filesystem::path& directory, std::string_view prefix);
/// Removes records that begin with `prefix`, as far as they are ours.
void remove_records(const std::filesystem::path& directory, std::string_view prefix);
/// The same of a directory whose files were listed; under the gate nobody else writes a record.
void remove_records(const std::vector<std::filesystem::path>& files, std::string_view prefix);

/// A process that holds a lease, with what its user wrote about it: its own record, or for one that inherited the lock
/// the run of the one that took it.
facts::LeaseHolder describe(const Process& process, const std::vector<Record>& records);

/// `priority` orders the tickets of one user among themselves, highest first.
std::string encode_ticket(const facts::LeaseTicket& ticket, std::int32_t priority);
std::optional<facts::LeaseTicket> decode_ticket(std::string_view text);
/// 0 where the text tells none.
std::int32_t priority_of_ticket(std::string_view text);

}  // namespace gpuwarden::lease
