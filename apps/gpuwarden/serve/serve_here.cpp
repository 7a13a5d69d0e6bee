// SPDX-License-Identifier: Apache-2.0
// Of gpuwarden-serve: watches the GPUs and answers.
#include <fmt/format.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

#include "alert_rules.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/stop_on_signals.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/cluster/peers.hpp"
#include "gpuwarden/machine/out_of_use.hpp"
#include "gpuwarden/redact/redact.hpp"
#include "gpuwarden/serve/daemon.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "serve/run_server.hpp"
#include "serve/serve_actions.hpp"
#include "serve/serve_print.hpp"
#include "serve/serve_settings.hpp"
#include "serve/serve_unknowns.hpp"

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

telemetry::MonitorOptions monitor_options(const Machine& machine, const ServeSettings& settings,
                                          telemetry::AlertConfig alerts, Unknowns& unknowns) {
  telemetry::MonitorOptions options;
  options.reader = machine.reader();
  options.sampler.interval = settings.interval;
  options.sampler.holders = true;
  // PCIe traffic and profiling take a tenth of a second, of all GPUs at once.
  if (settings.interval >= std::chrono::seconds(1)) options.sampler.detail = probe::Detail::slow;
  options.leases = [&](const facts::Snapshot& snapshot) { return unknowns.leases(snapshot); };
  options.disabled = [&] { return unknowns.disabled(); };
  options.alerts = std::move(alerts);
  options.remember = settings.remember;
  options.store = settings.store;
  options.store_info = {.host = own_host_name(),
                        .simulated = machine.simulated(),
                        .fleet = machine.reader().fleet,
                        .interval = settings.interval};
  options.state = settings.state;
  options.publish_health = machine::health_places(machine.options().environment, machine.reader());
  options.publish_as = "gpuwarden serve";
  options.log = log_line;
  return options;
}

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

/// What the server is made of, in the order in which it is taken apart again.
class Service {
 public:
  Service(const Context& context, const Machine& machine, ServeSettings settings, telemetry::AlertConfig alerts,
          serve::Helper* helper)
      : context_(context),
        helper_(helper),
        machine_(machine),
        settings_(std::move(settings)),
        tally_(settings_.expected, settings_.job_mapping),
        secrets_(redact::secret_values(context.environment)),
        unknowns_(machine),
        quoting_(rules_quoting(alerts)),
        monitor_(monitor_options(machine, settings_, std::move(alerts), unknowns_)),
        watch_(serve::watch_of(monitor_)),
        watchdog_(serve::watchdog_interval(context.environment)) {
    monitor_.add_reading_callback([this](const telemetry::Reading& reading) {
      note_readiness(reading.snapshot.problem);
      tally_.add(reading);
      serve::tell_reading(events_, reading);
    });
    monitor_.add_alert_callback([this](const telemetry::AlertChange& change) { tell_alert(change); });
    monitor_.add_health_callback(
        [this](const telemetry::HealthChange& change) { serve::tell_health(events_, change); });
  }

  Result<void> start(const cluster::NodeSource* peers) {
    peers_ = peers;
    return monitor_.start();
  }

  /// Answers until it is told to stop.
  void run(serve::Server& server, const ReloadSignal& reload, const std::stop_token& stop) {
    reload_ = &reload;
    tell_system("READY=1\nSTATUS=listening on " + server.url());
    server.run(sources(), stop);
    tell_system("STOPPING=1");
    monitor_.stop();
  }

  /// Every second.
  void tick() {
    if (watchdog_) tell_system("WATCHDOG=1");
    if (reload_ != nullptr && reload_->came()) reload_rules();
  }

 private:
  serve::Sources sources() {
    serve::Sources sources;
    sources.watch = watch_.get();
    sources.nodes = peers_;
    sources.access = &settings_.access;
    sources.sessions = &sessions_;
    sources.events = &events_;
    sources.tally = &tally_;
    sources.texts = &texts_;
    sources.redact = [this](std::string_view text) { return redact::redact_secrets(text, secrets_).text; };
    sources.quotes_commands = [this](std::string_view rule) { return quotes_commands(rule); };
    sources.leases_problem = [this] { return unknowns_.leases_problem(); };
    sources.disabled = [this] { return unknowns_.out_of_use(); };
    sources.disablings_problem = [this] { return unknowns_.disablings_problem(); };
    sources.actions = actions_of(machine_, settings_.keep, helper_);
    sources.metrics = settings_.metrics;
    sources.interval = settings_.interval;
    sources.host = own_host_name();
    sources.page = serve::page_files();
    return sources;
  }

  /// Says what keeps the server from being ready, once, and that it is over. In the monitor's thread.
  void note_readiness(const std::optional<facts::DriverProblem>& problem) {
    const std::string words = problem ? problem->message : "";
    if (std::exchange(unready_, words) == words) return;
    log_line(words.empty() ? "ready: the driver answers" : "not ready: " + words);
    if (problem && !problem->hint.empty()) log_line("hint: " + problem->hint);
  }

  void reload_rules() {
    tell_system(serve::reloading_message());
    auto rules = read_alert_rules(settings_.rules);
    if (rules) {
      const auto fine = check_alert_sinks(*rules, context_.environment);
      if (!fine) rules = std::unexpected(fine.error());
    }
    if (rules) {
      log_line(fmt::format("read {} alert rules", rules->rules.size()));
      quoting_.set(rules_quoting(*rules));
      monitor_.set_alerts(std::move(*rules));
    } else {
      log_line("the rules stay as they were: " + rules.error().message);
    }
    tell_system("READY=1");
  }

  bool quotes_commands(std::string_view rule) const { return quoting_.get().contains(rule); }

  /// To all who listen, whatever each may see.
  void tell_alert(telemetry::AlertChange change) {
    if (quotes_commands(change.alert.rule)) change.alert = serve::without_command(std::move(change.alert));
    change.alert.message = redact::redact_secrets(change.alert.message, secrets_).text;
    serve::tell_alert(events_, change);
  }

  void tell_system(const std::string& message) {
    const auto told = serve::notify(context_.environment, message);
    if (!told && !std::exchange(complained_, true)) warn(told.error().message);
  }

  const Context& context_;
  serve::Helper* helper_;
  const Machine& machine_;
  ServeSettings settings_;
  serve::Tally tally_;
  serve::EventHub events_;
  serve::Sessions sessions_;
  serve::NodeTexts texts_;
  std::vector<std::string> secrets_;
  Unknowns unknowns_;
  Shared<RuleIds> quoting_;
  telemetry::PerformanceMonitor monitor_;
  std::unique_ptr<serve::Watch> watch_;
  const cluster::NodeSource* peers_ = nullptr;
  const ReloadSignal* reload_ = nullptr;
  std::optional<std::chrono::microseconds> watchdog_;
  bool complained_ = false;
  std::string unready_;  ///< why; the monitor's thread's own
};

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
  GPUWARDEN_TRY(telemetry::AlertConfig alerts, read_alert_rules(settings.rules));
  const bool named = ::geteuid() == 0 && !settings.user.empty();
  if (named) settle_in(context, settings.user);
  GPUWARDEN_TRY(Machine machine, open_machine(context));
  std::signal(SIGPIPE, SIG_IGN);
  Service* running = nullptr;
  settings.server.tick = [&running] { running->tick(); };
  GPUWARDEN_TRY(const auto server, serve::Server::listen(settings.server));
  settings.access.address = server->address();
  GPUWARDEN_TRY(const auto helper, start_helper(machine, settings.keep));
  GPUWARDEN_TRY(const std::string user, give_up_root(machine, settings));
  if (!user.empty() && !named) {
    settle_in(context, user);
    GPUWARDEN_TRY(machine, open_machine(context));
  }
  // As the user who will start them.
  GPUWARDEN_CHECK(check_alert_sinks(alerts, context.environment));
  const ReloadSignal reload;
  const StopOnSignals stop;
  reload.arm();
  GPUWARDEN_TRY(const auto peers, open_peers(context, settings));
  Service service(context, machine, std::move(settings), std::move(alerts), helper.get());
  running = &service;
  GPUWARDEN_CHECK(service.start(peers.get()));
  fmt::print("listening on {}{}\n", server->url(), machine.simulated() ? " (simulated)" : "");
  std::fflush(stdout);
  service.run(*server, reload, stop.token());
  return kFine;
}

}  // namespace gpuwarden::cli
