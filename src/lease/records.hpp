// SPDX-License-Identifier: Apache-2.0
// What holders and waiters write about themselves, for others to read. The locks are the truth; records only explain.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/facts/lease.hpp"

namespace gpuwarden::lease {

/// Writes a record file (0644) whole or not at all; failure is no failure of the lease.
void write_record(const std::filesystem::path& path, const facts::LeaseHolder& holder);
/// The holders whose record names begin with `prefix`.
std::vector<facts::LeaseHolder> read_records(const std::filesystem::path& directory, std::string_view prefix);
/// Removes records that begin with `prefix`, as far as they are ours.
void remove_records(const std::filesystem::path& directory, std::string_view prefix);

std::string encode_ticket(const facts::LeaseTicket& ticket);
std::optional<facts::LeaseTicket> decode_ticket(std::string_view text);

}  // namespace gpuwarden::lease
