// SPDX-License-Identifier: Apache-2.0
// Who was started within a claim. Everything that was has the claim's ground open (docs/internals/lease.md, "Within a
// lease"), a file in memory that has no name: no variable is asked, and no record of a lease.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/ids.hpp"

namespace gpuwarden::lease {

struct Ground {
  std::uint64_t inode = 0;  ///< the kernel's number of the file, given to no other while one of them is open
  std::string name;
  bool operator==(const Ground&) const = default;
};

/// The grounds of claims of this process's own among the descriptors; those of claims within which it was started are
/// none.
std::vector<Ground> own_grounds(std::span<const int> descriptors);
/// "1234 gpuwarden:GPU-a" for a file, and back: lines that are none are left out.
std::string to_lines(std::span<const Ground> grounds);
std::vector<Ground> grounds_in(std::string_view lines);

/// Who has one of them open, as far as the caller may look.
std::vector<Pid> processes_on(std::span<const Ground> grounds, const std::filesystem::path& proc_root = "/proc");

/// The descriptors with which this process was started within leases, as far as a LeaseStore has looked at their
/// devices since: their locks and their grounds, and no lock of any other file. A claim of its own has copies of those
/// that it needs.
std::vector<int> inherited_descriptors();
/// Closes them: what is not claimed anew is left to others from here on.
void leave_outer_leases();

}  // namespace gpuwarden::lease
