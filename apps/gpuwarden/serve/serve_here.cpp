// SPDX-License-Identifier: Apache-2.0
// Of gpuwarden-serve: watches the GPUs and answers, or prints files for those who scrape it (--print).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/cluster/generate.hpp"
#include "gpuwarden/cluster/peers.hpp"
#include "gpuwarden/serve/run_daemon.hpp"
#include "gpuwarden/telemetry/rules_file.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "serve/run_server.hpp"
#include "serve/serve_settings.hpp"

namespace gpuwarden::cli {
namespace {

Result<std::string> rules_file(const Context& context) {
  GPUWARDEN_TRY(const auto config, telemetry::read_alert_rules(alert_rules_file(context)));
  return cluster::prometheus_rules(config.rules);
}

Result<std::string> dashboard(const Context&) { return cluster::grafana_dashboard(); }

/// Of this machine, or of those of --peers.
Result<std::string> scrape_config(const Context& context) {
  const auto peers = context.args.text("peers");
  std::vector<std::string> targets{fmt::format("{}:{}", serve::name_for_others(), serve::kDefaultPort)};
  if (peers) {
    GPUWARDEN_TRY(const auto place, cluster::parse_peer_place(*peers));
    if (!place.dns_name.empty())
      return fail(ErrorCode::invalid_argument, "--print scrape-config: --peers must be a file",
                  "Prometheus looks names up itself: dns_sd_configs");
    GPUWARDEN_TRY(targets, cluster::read_peers(place.file));
  }
  return cluster::scrape_config(targets, context.args.text("peers-token-file").value_or(""));
}

struct Printed {
  std::string_view name;
  Result<std::string> (*text)(const Context&);
};
constexpr auto kPrinted = std::to_array<Printed>(
    {{"prometheus-rules", rules_file}, {"grafana-dashboard", dashboard}, {"scrape-config", scrape_config}});

Result<std::string> printed_file(const Context& context, const std::string& name) {
  const auto* const row = std::ranges::find(kPrinted, name, &Printed::name);
  if (row != kPrinted.end()) return row->text(context);
  return fail(ErrorCode::invalid_argument, fmt::format("--print: unknown file '{}'", printable(name)),
              "prometheus-rules, grafana-dashboard or scrape-config");
}

void tell_address(const std::string& url, bool simulated, bool in_the_clear) {
  if (in_the_clear)
    warn(
        "the token and all answers cross the network in the clear: give --tls-cert and --tls-key, or put a proxy that "
        "speaks TLS before it");
  fmt::print("listening on {}{}\n", url, simulated ? " (simulated)" : "");
  std::fflush(stdout);
}

}  // namespace

Result<int> run_server(Context& context) {
  GPUWARDEN_CHECK(refuse_json(context.args, "serve", "/api/v1 answers in JSON"));
  if (const auto name = context.args.text("print")) {
    GPUWARDEN_TRY(const std::string text, printed_file(context, *name));
    fmt::print("{}", text);
    return kFine;
  }
  if (context.args.has("list-metrics")) {
    GPUWARDEN_TRY(const serve::Dialect dialect, read_dialect(context.args));
    fmt::print("{}", serve::list_metrics(dialect));
    return kFine;
  }
  GPUWARDEN_TRY(serve::DaemonOptions settings, read_serve_settings(context));
  settings.open = [&context](const Environment& environment) {
    context.environment = environment;
    return open_machine(context);
  };
  settings.listening = tell_address;
  GPUWARDEN_CHECK(serve::run_daemon(std::move(settings)));
  return kFine;
}

}  // namespace gpuwarden::cli
