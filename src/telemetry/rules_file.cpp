// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/rules_file.hpp"

#include <system_error>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/users.hpp"
#include "gpuwarden/telemetry/sinks.hpp"

namespace gpuwarden::telemetry {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestRules = std::size_t{1} << 20U;

}  // namespace

fs::path find_alert_rules(const Environment& environment) {
  for (const fs::path& folder : {settings_folder(environment), fs::path("/etc/gpuwarden")}) {
    std::error_code ignored;
    if (!folder.empty() && fs::exists(folder / "alerts.yaml", ignored)) return folder / "alerts.yaml";
  }
  return {};
}

Result<AlertConfig> read_alert_rules(const fs::path& file) {
  if (file.empty()) return AlertConfig{built_in_rules(), {}};
  GPUWARDEN_TRY(const std::string text, read_file(file, kLargestRules));
  return parse_alert_rules(text, file.string());
}

Result<void> check_sinks(const AlertConfig& alerts, const Environment& environment) {
  const auto path = environment.find("PATH");
  return check_sinks(alerts.sinks, path == environment.end() ? "/bin:/usr/bin" : path->second);
}

}  // namespace gpuwarden::telemetry
