// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/serve/service.hpp"

#include <fmt/format.h>

#include <mutex>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "gpuwarden/base/host_name.hpp"
#include "gpuwarden/machine/out_of_use.hpp"
#include "gpuwarden/machine/use_watch.hpp"
#include "gpuwarden/redact/redact.hpp"
#include "gpuwarden/serve/daemon.hpp"

namespace gpuwarden::serve {
namespace {

using RuleIds = std::set<std::string, std::less<>>;

/// The rules whose words quote command lines of processes.
RuleIds rules_quoting(const telemetry::AlertConfig& alerts) {
  RuleIds ids;
  const auto quotes = [](std::string_view words) { return words.contains("{command}") || words.contains("{cmd}"); };
  for (const telemetry::AlertRule& rule : alerts.rules) {
    if (quotes(rule.message) || quotes(rule.next_step)) ids.insert(rule.id);
  }
  return ids;
}

telemetry::MonitorOptions monitor_options(const machine::Machine& machine, const ServiceOptions& asked,
                                          machine::UseWatch& use) {
  telemetry::MonitorOptions options;
  options.reader = machine.reader();
  options.sampler.interval = asked.interval;
  options.sampler.holders = true;
  // PCIe traffic and profiling take a tenth of a second, of all GPUs at once.
  if (asked.interval >= std::chrono::seconds(1)) options.sampler.detail = probe::Detail::slow;
  options.leases = [&use](const facts::Snapshot& snapshot) { return use.leases(snapshot); };
  options.disabled = [&use] { return use.disabled(); };
  options.alerts = asked.alerts;
  options.remember = asked.remember;
  options.store = asked.store;
  options.store_info = {.host = name_for_others(),
                        .simulated = machine.simulated(),
                        .fleet = machine.reader().fleet,
                        .interval = asked.interval};
  options.state = asked.state;
  options.publish_health = machine::health_places(machine.options().environment, machine.reader());
  options.publish_as = "gpuwarden serve";
  options.log = asked.log;
  return options;
}

ServiceOptions with_a_log(ServiceOptions options) {
  if (!options.log) options.log = [](const std::string&) {};
  return options;
}

}  // namespace

/// What the service is made of, in the order in which it is taken apart again.
class Service::Impl {
 public:
  Impl(const machine::Machine& machine, ServiceOptions options)
      : options_(with_a_log(std::move(options))),
        tally_(options_.expected, options_.job_mapping),
        secrets_(redact::secret_values(options_.environment)),
        use_(machine),
        quoting_(rules_quoting(options_.alerts)),
        monitor_(monitor_options(machine, options_, use_)),
        watch_(watch_of(monitor_)),
        watchdog_(watchdog_interval(options_.environment)) {
    monitor_.add_reading_callback([this](const telemetry::Reading& reading) {
      note_readiness(reading.snapshot.problem);
      tally_.add(reading);
      tell_reading(events_, reading);
    });
    monitor_.add_alert_callback([this](const telemetry::AlertChange& change) { tell_without_secrets(change); });
    monitor_.add_health_callback([this](const telemetry::HealthChange& change) { tell_health(events_, change); });
  }

  Result<void> start() { return monitor_.start(); }

  void run(Server& server, const std::stop_token& stop) {
    tell_system("READY=1\nSTATUS=listening on " + server.url());
    server.run(sources(), stop);
    tell_system("STOPPING=1");
    monitor_.stop();
  }

  void tick() {
    if (watchdog_) tell_system("WATCHDOG=1");
  }

  void reload() {
    if (!options_.read_rules) return;
    tell_system(reloading_message());
    auto rules = options_.read_rules();
    if (rules) {
      options_.log(fmt::format("read {} alert rules", rules->rules.size()));
      {
        const std::scoped_lock lock(mutex_);
        quoting_ = rules_quoting(*rules);
      }
      monitor_.set_alerts(std::move(*rules));
    } else {
      options_.log("the rules stay as they were: " + rules.error().message);
    }
    tell_system("READY=1");
  }

 private:
  Sources sources() {
    Sources sources;
    sources.watch = watch_.get();
    sources.nodes = options_.peers;
    sources.access = &options_.access;
    sources.sessions = &sessions_;
    sources.events = &events_;
    sources.tally = &tally_;
    sources.texts = &texts_;
    sources.redact = [this](std::string_view text) { return redact::redact_secrets(text, secrets_).text; };
    sources.quotes_commands = [this](std::string_view rule) { return quotes_commands(rule); };
    sources.leases_problem = [this] { return use_.leases_problem(); };
    sources.disabled = [this] { return use_.out_of_use(); };
    sources.disablings_problem = [this] { return use_.disablings_problem(); };
    sources.actions = options_.actions;
    sources.metrics = options_.metrics;
    sources.interval = options_.interval;
    sources.host = name_for_others();
    sources.page = page_files();
    return sources;
  }

  /// Says what keeps the server from being ready, once, and that it is over. In the monitor's thread.
  void note_readiness(const std::optional<facts::DriverProblem>& problem) {
    const std::string words = problem ? problem->message : "";
    if (std::exchange(unready_, words) == words) return;
    options_.log(words.empty() ? "ready: the driver answers" : "not ready: " + words);
    if (problem && !problem->hint.empty()) options_.log("hint: " + problem->hint);
  }

  bool quotes_commands(std::string_view rule) const {
    const std::scoped_lock lock(mutex_);
    return quoting_.contains(rule);
  }

  /// To all who listen, whatever each may see.
  void tell_without_secrets(telemetry::AlertChange change) {
    if (quotes_commands(change.alert.rule)) change.alert = without_command(std::move(change.alert));
    change.alert.message = redact::redact_secrets(change.alert.message, secrets_).text;
    tell_alert(events_, change);
  }

  void tell_system(const std::string& message) {
    const auto told = notify(options_.environment, message);
    if (!told && !std::exchange(complained_, true)) options_.log("warning: " + told.error().message);
  }

  ServiceOptions options_;
  Tally tally_;
  EventHub events_;
  Sessions sessions_;
  NodeTexts texts_;
  std::vector<std::string> secrets_;
  machine::UseWatch use_;
  mutable std::mutex mutex_;
  RuleIds quoting_;  ///< guarded by mutex_
  telemetry::PerformanceMonitor monitor_;
  std::unique_ptr<Watch> watch_;
  std::optional<std::chrono::microseconds> watchdog_;
  bool complained_ = false;
  std::string unready_;  ///< why; the monitor's thread's own
};

std::string name_for_others() {
  const std::string name = own_host_name();
  return name.empty() ? "localhost" : name;
}

Service::Service(const machine::Machine& machine, ServiceOptions options)
    : impl_(std::make_unique<Impl>(machine, std::move(options))) {}
Service::~Service() = default;
Result<void> Service::start() { return impl_->start(); }
void Service::run(Server& server, const std::stop_token& stop) { impl_->run(server, stop); }
void Service::tick() { impl_->tick(); }
void Service::reload() { impl_->reload(); }

}  // namespace gpuwarden::serve
