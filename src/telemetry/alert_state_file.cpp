// SPDX-License-Identifier: Apache-2.0
#include "telemetry/alert_state_file.hpp"

#include <nlohmann/json.hpp>

#include "gpuwarden/base/file.hpp"

namespace gpuwarden::telemetry {
namespace {

constexpr int kAlertStateSchema = 1;

}  // namespace

std::unexpected<Error> damaged_alert_state(const std::filesystem::path& file, const std::string& why) {
  return fail(ErrorCode::corrupt, file.string() + ": " + why,
              "remove it to begin without alerts and silences: rm " + file.string());
}

Result<std::optional<nlohmann::json>> read_alert_state(const std::filesystem::path& file) {
  const auto text = read_file(file);
  if (!text && text.error().code == ErrorCode::not_found) return std::nullopt;
  if (!text) return std::unexpected(text.error());
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  // It may be somebody's who knows nothing of gpuwarden: nobody is told to remove it.
  if (!json.is_object() || !json.contains("alerts"))
    return fail(ErrorCode::corrupt, file.string() + ": not a state of alerts",
                "name another file, or move this one away");
  if (!json.contains("schema") || json["schema"] != kAlertStateSchema)
    return damaged_alert_state(file, "written by another version of gpuwarden");
  return json["alerts"];
}

Result<void> write_alert_state(const std::filesystem::path& file, const nlohmann::json& alerts) {
  const nlohmann::json json{{"schema", kAlertStateSchema}, {"alerts", alerts}};
  return write_file_atomically(file, json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n", 0600);
}

}  // namespace gpuwarden::telemetry
