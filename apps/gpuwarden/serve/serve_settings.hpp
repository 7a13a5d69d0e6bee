// SPDX-License-Identifier: Apache-2.0
// What the options of `gpuwarden serve` mean.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "command.hpp"
#include "gpuwarden/serve/routes.hpp"
#include "gpuwarden/serve/server.hpp"
#include "gpuwarden/telemetry/monitor.hpp"

namespace gpuwarden::cli {

struct ServeSettings {
  serve::Access access;
  serve::ServerOptions server;
  serve::MetricsOptions metrics;
  std::chrono::milliseconds interval = std::chrono::seconds(1);
  std::chrono::milliseconds remember = std::chrono::hours(1);
  std::filesystem::path store;
  std::filesystem::path state;
  std::filesystem::path rules;
  std::filesystem::path job_mapping;
  std::optional<std::size_t> expected;
  std::string user;
};

Result<serve::Dialect> read_dialect(const Args& args);
/// Fails with invalid_argument naming the option, and as serve::check() does.
Result<ServeSettings> read_serve_settings(const Context& context);
/// The file's rules and sinks; the built-in rules where `file` is empty.
Result<telemetry::AlertConfig> read_rules(const std::filesystem::path& file);
/// This machine's name, and how others may call it.
std::string own_host_name();

}  // namespace gpuwarden::cli
