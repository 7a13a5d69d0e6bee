// SPDX-License-Identifier: Apache-2.0
// A whole server: a machine that is watched, and what answers about it, for a program that embeds it.
//
//     auto server = serve::Server::listen({.address = *serve::parse_address("127.0.0.1:0")});
//     serve::ServiceOptions options;
//     options.access.address = (*server)->address();
//     serve::Service service(machine, std::move(options));
//     if (auto started = service.start(); !started) return started.error();
//     service.run(**server, stop);
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/subprocess.hpp"
#include "gpuwarden/cluster/node.hpp"
#include "gpuwarden/machine/machine.hpp"
#include "gpuwarden/serve/server.hpp"
#include "gpuwarden/telemetry/monitor.hpp"

namespace gpuwarden::serve {

/// This machine's name, by which others may call it; "localhost" where it has none.
std::string name_for_others();

struct ServiceOptions {
  Access access;  ///< its address as the server is bound
  MetricsOptions metrics;
  std::chrono::milliseconds interval = std::chrono::seconds(1);  ///< between readings
  std::chrono::milliseconds remember = std::chrono::hours(1);    ///< history in memory
  std::filesystem::path store;                                   ///< history on disk; empty: none
  std::filesystem::path state;  ///< alerts and silences that survive a restart; empty: none
  telemetry::AlertConfig alerts{.rules = telemetry::built_in_rules(), .sinks = {}};
  std::optional<std::size_t> expected;  ///< how many GPUs there should be; empty: as many as were ever seen
  std::filesystem::path job_mapping;    ///< as Tally's
  Actions actions;                      ///< actions_of(), or none
  /// Of the system that runs it: systemd's socket (sd_notify(3)), and the secrets that are kept out of answers.
  Environment environment;
  const cluster::NodeSource* peers = nullptr;  ///< other machines; must outlive the service
  /// The rules that reload() takes; empty: it changes nothing.
  std::function<Result<telemetry::AlertConfig>()> read_rules;
  /// Lines for the program's log; may be empty. Called from the service's threads.
  std::function<void(const std::string&)> log;
};

class Service {
 public:
  /// `machine` must outlive it.
  Service(const machine::Machine& machine, ServiceOptions options);
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  ~Service();

  /// Begins to watch. Fails as PerformanceMonitor::start() does.
  Result<void> start();
  /// Answers until `stop`; systemd is told when that begins and ends.
  void run(Server& server, const std::stop_token& stop);
  /// To be called about every second while it runs (ServerOptions::tick): systemd's watchdog wants to hear of it.
  void tick();
  /// Takes the rules that ServiceOptions::read_rules gives now; where it fails they stay as they were, and the log says
  /// why. From the thread that answers: another would be between two of its answers.
  void reload();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpuwarden::serve
