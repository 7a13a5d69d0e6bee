// SPDX-License-Identifier: Apache-2.0
// Of gpuwarden-serve: watches the GPUs and answers.
#include <fmt/format.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

#include "exit_codes.hpp"
#include "gpuwarden/base/stop_on_signals.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/cluster/peers.hpp"
#include "gpuwarden/redact/redact.hpp"
#include "gpuwarden/serve/daemon.hpp"
#include "gpuwarden/view/host_processes.hpp"
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

telemetry::MonitorOptions monitor_options(const Machine& machine, const ServeSettings& settings,
                                          telemetry::AlertConfig alerts) {
  telemetry::MonitorOptions options;
  options.reader = machine.reader();
  options.sampler.interval = settings.interval;
  options.sampler.holders = true;
  options.leases = [&machine](const facts::Snapshot& snapshot) {
    const auto store = machine.open_leases("", "");
    return store ? store->inspect(machine.lease_devices(snapshot)).leases : std::vector<facts::Lease>{};
  };
  options.disabled = [&machine] {
    auto view = machine.disablings().read();
    return view ? std::move(view->disabled) : std::vector<facts::Disabling>{};
  };
  options.alerts = std::move(alerts);
  options.remember = settings.remember;
  options.store = settings.store;
  options.store_info = {.host = own_host_name(),
                        .simulated = machine.simulated(),
                        .fleet = machine.reader().fleet,
                        .interval = settings.interval};
  options.state = settings.state;
  options.log = log_line;
  return options;
}

Result<std::unique_ptr<cluster::PeersSource>> open_peers(const Context& context) {
  const auto place = context.args.text("peers");
  if (!place) return nullptr;
  cluster::PeersOptions options;
  GPUWARDEN_TRY(options.place, cluster::parse_peer_place(*place));
  GPUWARDEN_TRY(const auto interval, duration_option(context.args, "peers-interval"));
  if (interval) options.interval = *interval;
  options.token_file = context.args.text("peers-token-file").value_or("");
  options.log = log_line;
  options.seed = static_cast<unsigned>(::getpid());
  return cluster::PeersSource::open(std::move(options));
}

/// What the server is made of, in the order in which it is taken apart again.
class Service {
 public:
  Service(const Context& context, const Machine& machine, ServeSettings settings, telemetry::AlertConfig alerts)
      : context_(context),
        machine_(machine),
        settings_(std::move(settings)),
        tally_(settings_.expected, settings_.job_mapping),
        secrets_(redact::secret_values(context.environment)),
        monitor_(monitor_options(machine, settings_, std::move(alerts))),
        watch_(serve::watch_of(monitor_)),
        watchdog_(serve::watchdog_interval(context.environment)) {
    monitor_.add_reading_callback([this](const telemetry::Reading& reading) {
      tally_.add(reading);
      serve::tell_reading(events_, reading);
    });
    monitor_.add_alert_callback([this](const telemetry::AlertChange& change) { serve::tell_alert(events_, change); });
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
    sources.actions.signal = [](Pid process, int signal) { return view::send_signal(process, std::nullopt, signal); };
    sources.actions.disable = [this](const facts::Disabling& wanted) {
      return machine_.disablings().disable({wanted.uuid}, wanted.reason, wanted.by, system_clock());
    };
    sources.actions.enable = [this](const Uuid& uuid) -> Result<void> {
      GPUWARDEN_CHECK(machine_.disablings().enable({uuid}));
      return {};
    };
    sources.metrics = settings_.metrics;
    sources.interval = settings_.interval;
    sources.host = own_host_name();
    sources.page = serve::page_files();
    return sources;
  }

  void reload_rules() {
    tell_system(serve::reloading_message());
    auto rules = read_rules(settings_.rules);
    if (rules) {
      log_line(fmt::format("read {} alert rules", rules->rules.size()));
      monitor_.set_alerts(std::move(*rules));
    } else {
      log_line("the rules stay as they were: " + rules.error().message);
    }
    tell_system("READY=1");
  }

  void tell_system(const std::string& message) {
    const auto told = serve::notify(context_.environment, message);
    if (!told && !std::exchange(complained_, true)) warn(told.error().message);
  }

  const Context& context_;
  const Machine& machine_;
  ServeSettings settings_;
  serve::Tally tally_;
  serve::EventHub events_;
  serve::Sessions sessions_;
  serve::NodeTexts texts_;
  std::vector<std::string> secrets_;
  telemetry::PerformanceMonitor monitor_;
  std::unique_ptr<serve::Watch> watch_;
  const cluster::NodeSource* peers_ = nullptr;
  const ReloadSignal* reload_ = nullptr;
  std::optional<std::chrono::microseconds> watchdog_;
  bool complained_ = false;
};

/// A simulated fleet is its maker's: there root stays root unless another is named.
Result<void> give_up_root(const Machine& machine, const ServeSettings& settings) {
  if (machine.simulated() && settings.user.empty()) return {};
  GPUWARDEN_TRY(const std::string user, serve::drop_root(settings.user));
  if (!user.empty()) log_line(fmt::format("runs as user {}", user));
  return {};
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
  GPUWARDEN_TRY(telemetry::AlertConfig alerts, read_rules(settings.rules));
  GPUWARDEN_TRY(const Machine machine, open_machine(context));
  std::signal(SIGPIPE, SIG_IGN);
  Service* running = nullptr;
  settings.server.tick = [&running] { running->tick(); };
  GPUWARDEN_TRY(const auto server, serve::Server::listen(settings.server));
  GPUWARDEN_CHECK(give_up_root(machine, settings));
  const ReloadSignal reload;
  const StopOnSignals stop;
  reload.arm();
  GPUWARDEN_TRY(const auto peers, open_peers(context));
  Service service(context, machine, std::move(settings), std::move(alerts));
  running = &service;
  GPUWARDEN_CHECK(service.start(peers.get()));
  fmt::print("listening on {}{}\n", server->url(), machine.simulated() ? " (simulated)" : "");
  std::fflush(stdout);
  service.run(*server, reload, stop.token());
  return kFine;
}

}  // namespace gpuwarden::cli
