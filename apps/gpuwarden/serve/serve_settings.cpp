// SPDX-License-Identifier: Apache-2.0
#include "serve/serve_settings.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "gpuwarden/base/text.hpp"
#include "options.hpp"

namespace gpuwarden::cli {
namespace {

Result<void> read_access(const Args& args, serve::DaemonOptions& settings) {
  serve::Access& access = settings.service.access;
  const auto address = serve::parse_address(args.text("listen").value_or("127.0.0.1"));
  if (!address) return std::unexpected(about("listen", address.error()));
  access.address = settings.server.address = *address;
  access.token_to_read = !address->loopback;
  access.allow_actions = args.has("allow-actions");
  access.owner = ::getuid();
  access.host_names = args.all("allow-host");
  access.host_names.push_back(serve::name_for_others());
  const auto kept = serve::kept_rights_from(args.all("keep"));
  if (!kept) return std::unexpected(about("keep", kept.error()));
  settings.keep = *kept;
  if (kept->any() && !access.allow_actions) return fail(ErrorCode::invalid_argument, "--keep requires --allow-actions");
  if (args.has("tls-cert") != args.has("tls-key"))
    return fail(ErrorCode::invalid_argument, "--tls-cert and --tls-key require each other");
  settings.server.certificate = args.text("tls-cert").value_or("");
  settings.server.key = args.text("tls-key").value_or("");
  access.tls = !settings.server.certificate.empty();
  return serve::check(access);
}

Result<void> read_times(const Args& args, serve::ServiceOptions& service) {
  GPUWARDEN_TRY(const auto interval, interval_option(args));
  service.interval = interval.value_or(service.interval);
  GPUWARDEN_TRY(const auto remember, duration_option(args, "remember"));
  service.remember = remember.value_or(service.remember);
  if (service.remember < std::chrono::minutes(1) || service.remember > std::chrono::hours(24))
    return fail(ErrorCode::invalid_argument, "--remember must be between 1m and 24h", "--store FILE keeps more");
  return {};
}

Result<void> read_metrics(const Args& args, serve::ServiceOptions& service) {
  GPUWARDEN_TRY(service.metrics.dialect, read_dialect(args));
  service.metrics.hostname_label = args.has("hostname-label");
  service.metrics.version = GPUWARDEN_VERSION;
  GPUWARDEN_TRY(const auto most, count_option(args, "max-series", 100000));
  if (most) service.metrics.most_series = *most;
  GPUWARDEN_TRY(const auto expected, count_option(args, "expect-gpus", 4096));
  if (expected) service.expected = *expected;
  service.job_mapping = args.text("hpc-job-mapping-dir").value_or("");
  return {};
}

Result<void> read_peers(const Args& args, const std::string& token, serve::DaemonOptions& settings) {
  const auto place = args.text("peers");
  if (!place) return {};
  cluster::PeersOptions& peers = settings.peers.emplace();
  GPUWARDEN_TRY(peers.place, cluster::parse_peer_place(*place));
  GPUWARDEN_TRY(const auto interval, duration_option(args, "peers-interval"));
  peers.interval = interval.value_or(peers.interval);
  peers.token_file = args.text("peers-token-file").value_or("");
  peers.token = token;
  peers.log = settings.service.log;
  peers.seed = static_cast<unsigned>(::getpid());
  return {};
}

}  // namespace

Result<serve::Dialect> read_dialect(const Args& args) {
  const std::string name = args.text("metrics-dialect").value_or("gpuwarden");
  const auto dialect = serve::dialect_from(name);
  if (!dialect)
    return fail(ErrorCode::invalid_argument, fmt::format("--metrics-dialect: unknown dialect '{}'", printable(name)),
                "gpuwarden, dcgm-legacy or dcgm-4.9");
  return *dialect;
}

Result<serve::DaemonOptions> read_serve_settings(const Context& context) {
  const Args& args = context.args;
  serve::DaemonOptions settings;
  settings.service.environment = context.environment;
  settings.service.log = [](const std::string& line) { say("gpuwarden: {}\n", line); };
  // Now, while this process may be root still.
  GPUWARDEN_TRY(const serve::Tokens tokens,
                serve::read_tokens(args.text("token-file"), args.text("peers-token-file"), context.environment));
  settings.service.access.token = tokens.own;
  GPUWARDEN_CHECK(read_access(args, settings));
  GPUWARDEN_CHECK(read_times(args, settings.service));
  GPUWARDEN_CHECK(read_metrics(args, settings.service));
  GPUWARDEN_CHECK(read_peers(args, tokens.peers, settings));
  settings.service.store = args.text("store").value_or("");
  settings.service.state = args.text("state").value_or("");
  settings.rules = alert_rules_file(context);
  settings.user = args.text("user").value_or("");
  return settings;
}

}  // namespace gpuwarden::cli
