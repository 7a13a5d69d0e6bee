// SPDX-License-Identifier: Apache-2.0
// The note of a run in the lease directory, which its launcher and guardians hold locked for as long as they live.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace gpuwarden::lease {

inline constexpr std::string_view kRunRecordPrefix = "run-";
inline constexpr std::string_view kRunRecordEnding = ".job";

/// Where the run is noted down; empty for an id that can be none.
std::filesystem::path run_record(const std::filesystem::path& directory, const std::string& run_id);

/// Whether the user's run is noted down and nobody supervises it any more: its record's lock is held by nobody. False
/// where there is no record, or another user's.
bool is_unsupervised(const std::filesystem::path& directory, const std::string& run_id, std::uint32_t user);

}  // namespace gpuwarden::lease
