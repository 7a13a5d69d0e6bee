// SPDX-License-Identifier: Apache-2.0
// The alert rules of a site or a user, in the files where they are looked for.
#pragma once

#include <filesystem>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/telemetry/alert_rules.hpp"

namespace gpuwarden::telemetry {

/// The user's ($XDG_CONFIG_HOME or ~/.config: gpuwarden/alerts.yaml), else the site's (/etc/gpuwarden/alerts.yaml),
/// where there is one; else empty.
std::filesystem::path find_alert_rules(const Environment& environment);

/// The file's rules and sinks, at most a MiB; the built-in rules where `file` is empty. Fails as reading a file and
/// parse_alert_rules() do.
Result<AlertConfig> read_alert_rules(const std::filesystem::path& file);

/// As check_sinks() (sinks.hpp), with the PATH of these variables.
Result<void> check_sinks(const AlertConfig& alerts, const Environment& environment);

}  // namespace gpuwarden::telemetry
