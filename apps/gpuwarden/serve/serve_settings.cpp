// SPDX-License-Identifier: Apache-2.0
#include "serve/serve_settings.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "options.hpp"

namespace gpuwarden::cli {
namespace {

using std::chrono::milliseconds;

Result<void> read_access(const Args& args, ServeSettings& settings) {
  serve::Access& access = settings.access;
  const auto address = serve::parse_address(args.text("listen").value_or("127.0.0.1"));
  if (!address) return std::unexpected(about("listen", address.error()));
  access.address = *address;
  access.token_to_read = !address->loopback;
  access.allow_actions = args.has("allow-actions");
  access.owner = ::getuid();
  access.host_names = args.all("allow-host");
  access.host_names.push_back(own_host_name());
  if (const auto file = args.text("token-file")) {
    GPUWARDEN_TRY(access.token, serve::read_token(*file));
  }
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
  if (interval) settings.interval = *interval;
  if (settings.interval < milliseconds(100) || settings.interval > std::chrono::minutes(10))
    return fail(ErrorCode::invalid_argument, "--interval must be between 100ms and 10m");
  GPUWARDEN_TRY(const auto remember, duration_option(args, "remember"));
  if (remember) settings.remember = *remember;
  if (settings.remember < std::chrono::minutes(1) || settings.remember > std::chrono::hours(24))
    return fail(ErrorCode::invalid_argument, "--remember must be between 1m and 24h", "--store FILE keeps more");
  return {};
}

Result<void> read_metrics(const Args& args, ServeSettings& settings) {
  GPUWARDEN_TRY(settings.metrics.dialect, read_dialect(args));
  settings.metrics.hostname_label = args.has("hostname-label");
  settings.metrics.version = GPUWARDEN_VERSION;
  GPUWARDEN_TRY(const auto most, count_option(args, "max-series", 100000));
  if (most) settings.metrics.most_series = *most;
  GPUWARDEN_TRY(const auto expected, count_option(args, "expect-gpus", 4096));
  if (expected) settings.expected = *expected;
  settings.job_mapping = args.text("hpc-job-mapping-dir").value_or("");
  return {};
}

}  // namespace

std::string own_host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : std::string("localhost");
}

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
  GPUWARDEN_CHECK(read_access(args, settings));
  GPUWARDEN_CHECK(read_times(args, settings));
  GPUWARDEN_CHECK(read_metrics(args, settings));
  settings.store = args.text("store").value_or("");
  settings.state = args.text("state").value_or("");
  settings.rules = args.text("rules").value_or("");
  settings.user = args.text("user").value_or("");
  return settings;
}

Result<telemetry::AlertConfig> read_rules(const std::filesystem::path& file) {
  if (file.empty()) return telemetry::AlertConfig{telemetry::built_in_rules(), {}};
  GPUWARDEN_TRY(const std::string text, read_file(file, std::size_t{1} << 20U));
  return telemetry::parse_alert_rules(text, file.string());
}

}  // namespace gpuwarden::cli
