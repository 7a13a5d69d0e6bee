// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/serve/run_daemon.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <utility>

#include "gpuwarden/base/stop_on_signals.hpp"
#include "gpuwarden/base/unique_fd.hpp"
#include "gpuwarden/serve/daemon.hpp"
#include "gpuwarden/telemetry/rules_file.hpp"

namespace gpuwarden::serve {
namespace {

/// SIGHUP, which asks for the rules to be read anew, as a descriptor. It is blocked in all threads that come later.
class ReloadSignal {
 public:
  ReloadSignal() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    // StopOnSignals leaves alone what is ignored.
    std::signal(SIGHUP, SIG_IGN);
    descriptor_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  /// From here on it counts.
  void arm() const { std::signal(SIGHUP, SIG_DFL); }
  bool came() const {
    signalfd_siginfo info{};
    bool any = false;
    while (::read(descriptor_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) any = true;
    return any;
  }

 private:
  UniqueFd descriptor_;
};

Result<telemetry::AlertConfig> read_usable_rules(const std::filesystem::path& file, const Environment& environment) {
  GPUWARDEN_TRY(auto alerts, telemetry::read_alert_rules(file));
  GPUWARDEN_CHECK(telemetry::check_sinks(alerts, environment));
  return alerts;
}

Result<std::unique_ptr<Helper>> keep_rights(const machine::Machine& machine, const KeptRights& rights) {
  auto helper = start_helper(machine, rights);
  if (!helper && helper.error().code == ErrorCode::permission_denied) helper.error().message.insert(0, "--keep: ");
  return helper;
}

/// A server on its way from root's process to one that answers.
class Daemon {
 public:
  explicit Daemon(DaemonOptions options)
      : options_(std::move(options)),
        becomes_named_(::geteuid() == 0 && !options_.user.empty()),
        environment_(options_.service.environment) {}

  Result<void> run() {
    GPUWARDEN_TRY(options_.service.alerts, telemetry::read_alert_rules(options_.rules));
    if (becomes_named_) settle_in(options_.user);
    GPUWARDEN_TRY(machine::Machine machine, options_.open(environment_));
    std::signal(SIGPIPE, SIG_IGN);
    options_.server.tick = [this] { tick(); };
    GPUWARDEN_TRY(const auto server, Server::listen(options_.server));
    options_.service.access.address = server->address();
    GPUWARDEN_TRY(const auto helper, keep_rights(machine, options_.keep));
    GPUWARDEN_TRY(const bool moved, give_up_root(machine));
    if (moved) {
      GPUWARDEN_TRY(machine, options_.open(environment_));
    }
    // As the user who will start them.
    GPUWARDEN_CHECK(telemetry::check_sinks(options_.service.alerts, environment_));
    const ReloadSignal reload;
    const StopOnSignals stop;
    reload.arm();
    std::unique_ptr<cluster::PeersSource> peers;
    if (options_.peers) {
      GPUWARDEN_TRY(peers, cluster::PeersSource::open(*options_.peers));
    }
    options_.service.peers = peers.get();
    Service service(machine, service_options(machine, helper.get()));
    service_ = &service;
    reload_ = &reload;
    GPUWARDEN_CHECK(service.start());
    const bool in_the_clear = !server->address().loopback && options_.server.certificate.empty();
    if (options_.listening) options_.listening(server->url(), machine.simulated(), in_the_clear);
    service.run(*server, stop.token());
    return {};
  }

 private:
  void tick() {
    service_->tick();
    if (reload_->came()) service_->reload();
  }

  /// The user whom root has become has files of his own: root's home is neither his nor open to him.
  void settle_in(const std::string& user) {
    environment_["HOME"] = home_of(user);
    environment_.erase("XDG_STATE_HOME");
    environment_.erase("XDG_CONFIG_HOME");
  }

  /// Whether the process has become a user for whom it was not settled yet.
  Result<bool> give_up_root(const machine::Machine& machine) {
    if (machine.simulated() && options_.user.empty()) return false;
    GPUWARDEN_TRY(const std::string user, drop_root(options_.user));
    if (user.empty()) return false;
    if (options_.service.log) options_.service.log(fmt::format("runs as user {}", user));
    if (becomes_named_) return false;
    settle_in(user);
    return true;
  }

  ServiceOptions service_options(const machine::Machine& machine, Helper* helper) const {
    ServiceOptions options = options_.service;
    options.actions = actions_of(machine, options_.keep, helper);
    options.environment = environment_;
    options.read_rules = [this] { return read_usable_rules(options_.rules, environment_); };
    return options;
  }

  DaemonOptions options_;
  bool becomes_named_;
  Environment environment_;
  Service* service_ = nullptr;
  const ReloadSignal* reload_ = nullptr;
};

}  // namespace

Result<void> run_daemon(DaemonOptions options) { return Daemon(std::move(options)).run(); }

}  // namespace gpuwarden::serve
