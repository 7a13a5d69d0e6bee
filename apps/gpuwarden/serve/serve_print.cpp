// SPDX-License-Identifier: Apache-2.0
#include "serve/serve_print.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "alert_rules.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/cluster/generate.hpp"
#include "gpuwarden/cluster/peers.hpp"
#include "serve/serve_settings.hpp"

namespace gpuwarden::cli {
namespace {

Result<std::string> rules_file(const Context& context) {
  GPUWARDEN_TRY(const auto config, telemetry::read_alert_rules(alert_rules_file(context)));
  return cluster::prometheus_rules(config.rules);
}

Result<std::string> dashboard(const Context&) { return cluster::grafana_dashboard(); }

Result<std::string> scrape_config(const Context& context) {
  const auto peers = context.args.text("peers");
  const std::string token = context.args.text("peers-token-file").value_or("");
  if (!peers)
    return cluster::scrape_config({fmt::format("{}:{}", serve::name_for_others(), serve::kDefaultPort)}, token);
  GPUWARDEN_TRY(const auto place, cluster::parse_peer_place(*peers));
  if (!place.dns_name.empty())
    return fail(ErrorCode::invalid_argument, "--print scrape-config: --peers must be a file",
                "Prometheus looks names up itself: dns_sd_configs");
  GPUWARDEN_TRY(const std::string text, read_file(place.file, std::size_t{1} << 20U));
  GPUWARDEN_TRY(const auto targets, cluster::parse_peers(text, place.file.string()));
  return cluster::scrape_config(targets, token);
}

struct Printed {
  std::string_view name;
  Result<std::string> (*text)(const Context&);
};
constexpr auto kPrinted = std::to_array<Printed>(
    {{"prometheus-rules", rules_file}, {"grafana-dashboard", dashboard}, {"scrape-config", scrape_config}});

}  // namespace

Result<int> print_file(const Context& context) {
  const std::string name = context.args.text("print").value_or("");
  const auto* const row = std::ranges::find(kPrinted, name, &Printed::name);
  if (row == kPrinted.end())
    return fail(ErrorCode::invalid_argument, fmt::format("--print: unknown file '{}'", printable(name)),
                "prometheus-rules, grafana-dashboard or scrape-config");
  GPUWARDEN_TRY(const std::string text, row->text(context));
  fmt::print("{}", text);
  return kFine;
}

}  // namespace gpuwarden::cli
