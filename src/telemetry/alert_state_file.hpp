// SPDX-License-Identifier: Apache-2.0
// The file in which alerts and silences survive a restart.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::telemetry {

/// What AlertBook::state() gave; nothing where there is no file. Fails with corrupt where it is none of ours.
Result<std::optional<nlohmann::json>> read_alert_state(const std::filesystem::path& file);
Result<void> write_alert_state(const std::filesystem::path& file, const nlohmann::json& alerts);
/// A state that cannot be used: why, and what to do.
std::unexpected<Error> damaged_alert_state(const std::filesystem::path& file, const std::string& why);

}  // namespace gpuwarden::telemetry
