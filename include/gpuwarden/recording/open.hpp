// SPDX-License-Identifier: Apache-2.0
// Opens what `report` is given, by its content.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/recording/html.hpp"

namespace gpuwarden::recording {

/// "2026-11-20T14:03:07Z" or "14:03" and "14:03:07" of the day of `begin`, in UTC. Fails with invalid_argument.
Result<telemetry::WallTime> moment_from(std::string_view text, telemetry::WallTime begin);

/// A stretch as a user gives it: each end a moment (as above), or a duration after the beginning ("10m").
struct Within {
  std::string from;  ///< empty: the beginning
  std::string to;    ///< empty: the end
};

/// A recording (SQLite), or the JSON of a run's report or of a summary. Fails with not_found where there is no such
/// file or no reading in it, permission_denied, invalid_argument for an empty file or another kind, corrupt.
Result<Told> open_report(const std::filesystem::path& file, const Within& within = {});

}  // namespace gpuwarden::recording
