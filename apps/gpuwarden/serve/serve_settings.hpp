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

/// Rights of root's that a helper keeps where root is given up.
struct KeptRights {
  bool power = false;
  bool signals = false;
  bool disable = false;
  bool any() const { return power || signals || disable; }
};

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
  KeptRights keep;
  std::filesystem::path peers_token_file;
  std::string peers_token;
};

Result<serve::Dialect> read_dialect(const Args& args);
/// Fails with invalid_argument naming the option, and as serve::check() does.
Result<ServeSettings> read_serve_settings(const Context& context);
/// This machine's name, and how others may call it.
std::string own_host_name();

}  // namespace gpuwarden::cli
