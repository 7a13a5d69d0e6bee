// SPDX-License-Identifier: Apache-2.0
#include "serve/serve_settings.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "alert_rules.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "options.hpp"

namespace gpuwarden::cli {
namespace {

using std::chrono::milliseconds;

/// Where systemd put the secrets of the service (LoadCredential=).
std::filesystem::path credentials_of(const Environment& environment) {
  const auto found = environment.find("CREDENTIALS_DIRECTORY");
  return found == environment.end() ? std::filesystem::path() : std::filesystem::path(found->second);
}

/// Now, while this process may be root still.
Result<void> read_tokens(const Context& context, ServeSettings& settings) {
  const std::filesystem::path credentials = credentials_of(context.environment);
  if (const auto file = context.args.text("token-file")) {
    GPUWARDEN_TRY(settings.service.access.token, serve::read_token(*file, credentials));
  } else {
    GPUWARDEN_TRY(settings.service.access.token, serve::read_credential(credentials, "token"));
  }
  if (const auto file = context.args.text("peers-token-file")) {
    settings.peers_token_file = *file;
    const auto token = read_line(*file);
    if (!token) return fail(ErrorCode::invalid_argument, fmt::format("cannot read {}", printable(*file)));
    settings.peers_token = *token;
  } else {
    GPUWARDEN_TRY(settings.peers_token, serve::read_credential(credentials, "peers-token"));
  }
  return {};
}

Result<void> read_kept_rights(const Args& args, ServeSettings& settings) {
  struct Row {
    std::string_view name;
    bool serve::KeptRights::* right;
  };
  constexpr auto kRows = std::to_array<Row>({{"power", &serve::KeptRights::power},
                                             {"signal", &serve::KeptRights::signals},
                                             {"disable", &serve::KeptRights::disable}});
  for (const std::string& name : args.all("keep")) {
    const auto* const row = std::ranges::find(kRows, name, &Row::name);
    if (row == kRows.end())
      return fail(ErrorCode::invalid_argument, fmt::format("--keep: unknown right '{}'", printable(name)),
                  "power, signal or disable");
    settings.keep.*(row->right) = true;
  }
  if (settings.keep.any() && !settings.service.access.allow_actions)
    return fail(ErrorCode::invalid_argument, "--keep requires --allow-actions");
  return {};
}

Result<void> read_access(const Context& context, ServeSettings& settings) {
  const Args& args = context.args;
  serve::Access& access = settings.service.access;
  const auto address = serve::parse_address(args.text("listen").value_or("127.0.0.1"));
  if (!address) return std::unexpected(about("listen", address.error()));
  access.address = *address;
  access.token_to_read = !address->loopback;
  access.allow_actions = args.has("allow-actions");
  access.owner = ::getuid();
  access.host_names = args.all("allow-host");
  access.host_names.push_back(serve::name_for_others());
  GPUWARDEN_CHECK(read_tokens(context, settings));
  GPUWARDEN_CHECK(read_kept_rights(args, settings));
  if (args.has("tls-cert") != args.has("tls-key"))
    return fail(ErrorCode::invalid_argument, "--tls-cert and --tls-key require each other");
  settings.server.certificate = args.text("tls-cert").value_or("");
  settings.server.key = args.text("tls-key").value_or("");
  settings.server.address = *address;
  access.tls = !settings.server.certificate.empty();
  return serve::check(access);
}

Result<void> read_times(const Args& args, ServeSettings& settings) {
  GPUWARDEN_TRY(const auto interval, duration_option(args, "interval"));
  if (interval) settings.service.interval = *interval;
  if (settings.service.interval < milliseconds(100) || settings.service.interval > std::chrono::minutes(10))
    return fail(ErrorCode::invalid_argument, "--interval must be between 100ms and 10m");
  GPUWARDEN_TRY(const auto remember, duration_option(args, "remember"));
  if (remember) settings.service.remember = *remember;
  if (settings.service.remember < std::chrono::minutes(1) || settings.service.remember > std::chrono::hours(24))
    return fail(ErrorCode::invalid_argument, "--remember must be between 1m and 24h", "--store FILE keeps more");
  return {};
}

Result<void> read_metrics(const Args& args, ServeSettings& settings) {
  GPUWARDEN_TRY(settings.service.metrics.dialect, read_dialect(args));
  settings.service.metrics.hostname_label = args.has("hostname-label");
  settings.service.metrics.version = GPUWARDEN_VERSION;
  GPUWARDEN_TRY(const auto most, count_option(args, "max-series", 100000));
  if (most) settings.service.metrics.most_series = *most;
  GPUWARDEN_TRY(const auto expected, count_option(args, "expect-gpus", 4096));
  if (expected) settings.service.expected = *expected;
  settings.service.job_mapping = args.text("hpc-job-mapping-dir").value_or("");
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

Result<ServeSettings> read_serve_settings(const Context& context) {
  const Args& args = context.args;
  ServeSettings settings;
  GPUWARDEN_CHECK(read_access(context, settings));
  GPUWARDEN_CHECK(read_times(args, settings));
  GPUWARDEN_CHECK(read_metrics(args, settings));
  settings.service.store = args.text("store").value_or("");
  settings.service.state = args.text("state").value_or("");
  settings.rules = alert_rules_file(context);
  settings.user = args.text("user").value_or("");
  return settings;
}

}  // namespace gpuwarden::cli
