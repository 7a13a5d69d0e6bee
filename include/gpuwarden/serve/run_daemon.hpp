// SPDX-License-Identifier: Apache-2.0
// A server that is a program of its own: it binds, keeps what rights it must, gives up root, and answers until a
// signal.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/cluster/peers.hpp"
#include "gpuwarden/machine/machine.hpp"
#include "gpuwarden/serve/local_actions.hpp"
#include "gpuwarden/serve/service.hpp"

namespace gpuwarden::serve {

struct DaemonOptions {
  /// Its access.address, alerts, actions, peers and read_rules are set by run_daemon().
  ServiceOptions service;
  ServerOptions server;         ///< its tick is set by run_daemon()
  std::filesystem::path rules;  ///< of alerts, read anew at SIGHUP; empty: the built-in ones
  /// Whom to become where root started it; empty: as drop_root(), and of a simulated fleet, which is its maker's,
  /// nobody else.
  std::string user;
  KeptRights keep;
  std::optional<cluster::PeersOptions> peers;  ///< other machines to show with this one
  /// Opens the machine for a user with these variables; asked anew when the process has become another user.
  std::function<Result<machine::Machine>(const Environment&)> open;
  /// Told when the first question can be answered; may be empty. `in_the_clear`: other machines reach it without TLS.
  std::function<void(const std::string& url, bool simulated, bool in_the_clear)> listening;
};

/// Answers until SIGINT or SIGTERM; SIGHUP reads the rules anew. For a program that does nothing else and has started
/// no thread: it forks the helper, takes signals (SIGPIPE is ignored), and gives up root's rights for good. Fails
/// before it answers, with what a part fails with: rules, machine, Server::listen(), start_helper() (named --keep),
/// drop_root(), check_sinks(), PeersSource::open(), Service::start().
Result<void> run_daemon(DaemonOptions options);

}  // namespace gpuwarden::serve
