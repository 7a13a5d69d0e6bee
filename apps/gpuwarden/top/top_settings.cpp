// SPDX-License-Identifier: Apache-2.0
#include "top/top_settings.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "alert_rules.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/placement/names.hpp"
#include "gpuwarden/view/curses_screen.hpp"
#include "gpuwarden/view/keys.hpp"
#include "gpuwarden/view/typed.hpp"
#include "options.hpp"
#include "render/style.hpp"

namespace gpuwarden::cli {
namespace {

/// --size, else COLUMNS and LINES, else the terminal's, else 100x30.
Result<view::Extent> frame_size(const Context& context) {
  view::Extent size{100, 30};
  winsize terminal{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &terminal) == 0 && terminal.ws_col > 0 && terminal.ws_row > 1)
    size = {terminal.ws_col, terminal.ws_row - 1};  // the shell's prompt comes below
  const auto from_environment = [&](const char* name, int& value) {
    const auto found = context.environment.find(name);
    const auto number = found == context.environment.end() ? std::nullopt : parse_integer(found->second);
    if (number && *number > 0 && *number <= 1000) value = static_cast<int>(*number);
  };
  from_environment("COLUMNS", size.width);
  from_environment("LINES", size.height);
  const auto given = context.args.text("size");
  if (!given) return size;
  const auto parsed = view::parse_extent(*given);
  if (!parsed)
    return fail(ErrorCode::invalid_argument, "--size: " + parsed.error().message, "for example --size 120x40");
  return *parsed;
}

/// Machines are named in one way, and what asks this machine's driver means nothing for others.
Result<void> check_whom_to_show(const Args& args) {
  static constexpr const char* kOne = "each names what is shown: give one of them";
  static constexpr const char* kDriver = "other machines are asked by their own gpuwarden serve";
  static constexpr auto kClashes = std::to_array<Clash>({
      {"peers", "prometheus", kOne},
      {"peers", "simulate", kOne},
      {"peers", "from", kOne},
      {"prometheus", "simulate", kOne},
      {"prometheus", "from", kOne},
      {"peers", "probe", kDriver},
      {"peers", "wake", kDriver},
      {"prometheus", "probe", kDriver},
      {"prometheus", "wake", kDriver},
  });
  GPUWARDEN_CHECK(check_clashes(args, kClashes));
  static constexpr const char* kNoAlerts = "alerts are raised only while this machine is watched";
  static constexpr auto kWithoutAlerts =
      std::to_array<Clash>({{"rules", "once", kNoAlerts},
                            {"rules", "from", kNoAlerts},
                            {"rules", "peers", "other machines raise their own alerts"},
                            {"rules", "prometheus", "other machines raise their own alerts"}});
  GPUWARDEN_CHECK(check_clashes(args, kWithoutAlerts));
  if (args.has("token-file") && !shows_others(args))
    return fail(ErrorCode::invalid_argument, "--token-file requires --peers or --prometheus",
                "it holds the secret that they want");
  return {};
}

/// Only where alerts are raised: live, and for this machine.
Result<telemetry::AlertConfig> read_rules_of_view(const Context& context) {
  if (shows_others(context.args) || context.args.has("once") || context.args.has("from"))
    return telemetry::AlertConfig{};
  GPUWARDEN_TRY(telemetry::AlertConfig config, telemetry::read_alert_rules(alert_rules_file(context)));
  config.sinks.clear();
  return config;
}

}  // namespace

Result<TopSettings> read_top_settings(const Context& context) {
  const Args& args = context.args;
  if (args.has("json"))
    return fail(ErrorCode::invalid_argument, "top prints no JSON", "gpuwarden list --json, gpuwarden snapshot --json");
  GPUWARDEN_CHECK(check_whom_to_show(args));
  if (args.has("size") && !args.has("once")) return fail(ErrorCode::invalid_argument, "--size requires --once");
  TopSettings settings;
  GPUWARDEN_TRY(const auto interval, duration_option(args, "interval"));
  settings.interval = interval.value_or(shows_others(args) ? std::chrono::seconds(5) : std::chrono::seconds(1));
  if (settings.interval < std::chrono::milliseconds(100) || settings.interval > std::chrono::minutes(10))
    return fail(ErrorCode::invalid_argument, "--interval must be between 100ms and 10m");
  GPUWARDEN_TRY(const Style style, style_of(context));
  settings.colour = style.colour && !args.has("no-color");
  GPUWARDEN_TRY(settings.size, frame_size(context));
  if (const auto sort = args.text("sort")) {
    if (const auto set = view::set_sort(settings.state, *sort); !set)
      return std::unexpected(about("sort", set.error()));
  }
  if (const auto filter = args.text("filter")) {
    if (const auto set = view::set_filter(settings.state, *filter); !set)
      return std::unexpected(about("filter", set.error()));
  }
  for (const auto& name : placement::expand_ranges(args.list("gpu"))) settings.state.only.push_back(name.text);
  settings.state.tree = args.has("tree");
  GPUWARDEN_TRY(settings.alerts, read_rules_of_view(context));
  settings.state.glyphs = view::glyphs_of_locale();
  if (args.has("ascii")) settings.state.glyphs = view::Glyphs::ascii;
  return settings;
}

bool shows_others(const Args& args) { return args.has("peers") || args.has("prometheus"); }

}  // namespace gpuwarden::cli
