// SPDX-License-Identifier: Apache-2.0
// What the options of `gpuwarden serve` mean.
#pragma once

#include <filesystem>
#include <string>

#include "command.hpp"
#include "gpuwarden/serve/local_actions.hpp"
#include "gpuwarden/serve/service.hpp"

namespace gpuwarden::cli {

struct ServeSettings {
  serve::ServiceOptions service;
  serve::ServerOptions server;
  std::filesystem::path rules;
  std::string user;
  serve::KeptRights keep;
  std::filesystem::path peers_token_file;
  std::string peers_token;
};

Result<serve::Dialect> read_dialect(const Args& args);
/// Fails with invalid_argument naming the option, and as serve::check() does.
Result<ServeSettings> read_serve_settings(const Context& context);
}  // namespace gpuwarden::cli
