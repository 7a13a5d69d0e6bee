// SPDX-License-Identifier: Apache-2.0
// The alert rules of a site or a user, which `top` and `serve` judge by.
#pragma once

#include <filesystem>

#include "command.hpp"
#include "gpuwarden/telemetry/alert_rules.hpp"

namespace gpuwarden::cli {

/// The file of --rules; without it the user's ($XDG_CONFIG_HOME or ~/.config: gpuwarden/alerts.yaml), else the site's
/// (/etc/gpuwarden/alerts.yaml), where there is one; else empty.
std::filesystem::path alert_rules_file(const Context& context);
/// The file's rules and sinks; the built-in rules where `file` is empty.
Result<telemetry::AlertConfig> read_alert_rules(const std::filesystem::path& file);
/// Whether what its sinks start is there and may be started by this user; see telemetry::check_sinks.
Result<void> check_alert_sinks(const telemetry::AlertConfig& alerts, const Environment& environment);

}  // namespace gpuwarden::cli
