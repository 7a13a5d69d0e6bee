// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/telemetry/rules_file.hpp"

#include <system_error>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/telemetry/sinks.hpp"

namespace gpuwarden::telemetry {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestRules = std::size_t{1} << 20U;

fs::path users_file(const Environment& environment) {
  const auto value = [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  if (const std::string folder = value("XDG_CONFIG_HOME"); !folder.empty())
    return fs::path(folder) / "gpuwarden/alerts.yaml";
  const std::string home = value("HOME");
  return home.empty() ? fs::path() : fs::path(home) / ".config/gpuwarden/alerts.yaml";
}

}  // namespace

fs::path find_alert_rules(const Environment& environment) {
  for (const fs::path& file : {users_file(environment), fs::path("/etc/gpuwarden/alerts.yaml")}) {
    std::error_code ignored;
    if (!file.empty() && fs::exists(file, ignored)) return file;
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
