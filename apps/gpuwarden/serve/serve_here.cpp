// SPDX-License-Identifier: Apache-2.0
// Of gpuwarden-serve: watches the GPUs and answers.
#include <fmt/format.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

#include "alert_rules.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/stop_on_signals.hpp"
#include "gpuwarden/cluster/peers.hpp"
#include "gpuwarden/serve/daemon.hpp"
#include "gpuwarden/serve/local_actions.hpp"
#include "gpuwarden/serve/service.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "serve/run_server.hpp"
#include "serve/serve_print.hpp"
#include "serve/serve_settings.hpp"

namespace gpuwarden::cli {
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

void log_line(const std::string& line) { say("gpuwarden: {}\n", line); }

Result<std::unique_ptr<cluster::PeersSource>> open_peers(const Context& context, const ServeSettings& settings) {
  const auto place = context.args.text("peers");
  if (!place) return nullptr;
  cluster::PeersOptions options;
  GPUWARDEN_TRY(options.place, cluster::parse_peer_place(*place));
  GPUWARDEN_TRY(const auto interval, duration_option(context.args, "peers-interval"));
  if (interval) options.interval = *interval;
  options.token_file = settings.peers_token_file;
  options.token = settings.peers_token;
  options.log = log_line;
  options.seed = static_cast<unsigned>(::getpid());
  return cluster::PeersSource::open(std::move(options));
}

Result<telemetry::AlertConfig> read_usable_rules(const std::filesystem::path& file, const Environment& environment) {
  GPUWARDEN_TRY(auto alerts, telemetry::read_alert_rules(file));
  GPUWARDEN_CHECK(telemetry::check_sinks(alerts, environment));
  return alerts;
}

serve::ServiceOptions service_options(const Context& context, const Machine& machine, ServeSettings settings,
                                      telemetry::AlertConfig alerts, serve::Helper* helper) {
  serve::ServiceOptions options = std::move(settings.service);
  options.alerts = std::move(alerts);
  options.actions = serve::actions_of(machine, settings.keep, helper);
  options.environment = context.environment;
  options.read_rules = [&context, rules = settings.rules] { return read_usable_rules(rules, context.environment); };
  options.log = log_line;
  return options;
}

/// The helper that keeps what --keep names.
Result<std::unique_ptr<serve::Helper>> keep_rights(const Machine& machine, const serve::KeptRights& rights) {
  auto helper = serve::start_helper(machine, rights);
  if (!helper && helper.error().code == ErrorCode::permission_denied) helper.error().message.insert(0, "--keep: ");
  return helper;
}

/// The user whom root has become, who has files of his own: root's home is neither his nor open to him.
void settle_in(Context& context, const std::string& user) {
  context.environment["HOME"] = serve::home_of(user);
  context.environment.erase("XDG_STATE_HOME");
  context.environment.erase("XDG_CONFIG_HOME");
}

/// Whom this process has become; empty: it is who it was. A simulated fleet is its maker's: there root stays root
/// unless another is named.
Result<std::string> give_up_root(const Machine& machine, const ServeSettings& settings) {
  if (machine.simulated() && settings.user.empty()) return std::string();
  GPUWARDEN_TRY(std::string user, serve::drop_root(settings.user));
  if (!user.empty()) log_line(fmt::format("runs as user {}", user));
  return user;
}

}  // namespace

Result<int> run_server(Context& context) {
  GPUWARDEN_CHECK(refuse_json(context.args, "serve", "/api/v1 answers in JSON"));
  if (context.args.has("print")) return print_file(context);
  if (context.args.has("list-metrics")) {
    GPUWARDEN_TRY(const serve::Dialect dialect, read_dialect(context.args));
    fmt::print("{}", serve::list_metrics(dialect));
    return kFine;
  }
  GPUWARDEN_TRY(ServeSettings settings, read_serve_settings(context));
  GPUWARDEN_TRY(telemetry::AlertConfig alerts, telemetry::read_alert_rules(settings.rules));
  const bool named = ::geteuid() == 0 && !settings.user.empty();
  if (named) settle_in(context, settings.user);
  GPUWARDEN_TRY(Machine machine, open_machine(context));
  std::signal(SIGPIPE, SIG_IGN);
  serve::Service* running = nullptr;
  const ReloadSignal* reload_signal = nullptr;
  settings.server.tick = [&] {
    running->tick();
    if (reload_signal->came()) running->reload();
  };
  GPUWARDEN_TRY(const auto server, serve::Server::listen(settings.server));
  settings.service.access.address = server->address();
  if (!server->address().loopback && settings.server.certificate.empty())
    warn(
        "the token and all answers cross the network in the clear: give --tls-cert and --tls-key, or put a proxy that "
        "speaks TLS before it");
  GPUWARDEN_TRY(const auto helper, keep_rights(machine, settings.keep));
  GPUWARDEN_TRY(const std::string user, give_up_root(machine, settings));
  if (!user.empty() && !named) {
    settle_in(context, user);
    GPUWARDEN_TRY(machine, open_machine(context));
  }
  // As the user who will start them.
  GPUWARDEN_CHECK(telemetry::check_sinks(alerts, context.environment));
  const ReloadSignal reload;
  const StopOnSignals stop;
  reload.arm();
  GPUWARDEN_TRY(const auto peers, open_peers(context, settings));
  settings.service.peers = peers.get();
  serve::Service service(machine,
                         service_options(context, machine, std::move(settings), std::move(alerts), helper.get()));
  running = &service;
  reload_signal = &reload;
  GPUWARDEN_CHECK(service.start());
  fmt::print("listening on {}{}\n", server->url(), machine.simulated() ? " (simulated)" : "");
  std::fflush(stdout);
  service.run(*server, stop.token());
  return kFine;
}

}  // namespace gpuwarden::cli
