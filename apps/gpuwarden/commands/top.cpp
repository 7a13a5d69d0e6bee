// SPDX-License-Identifier: Apache-2.0
// gpuwarden top: the GPUs and their processes, live.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "exit_codes.hpp"
#include "gpuwarden/base/stop_on_signals.hpp"
#include "gpuwarden/cluster/first_answers.hpp"
#include "gpuwarden/cluster/other_machines.hpp"
#include "gpuwarden/placement/names.hpp"
#include "gpuwarden/telemetry/rules_file.hpp"
#include "gpuwarden/view/app.hpp"
#include "gpuwarden/view/curses_screen.hpp"
#include "gpuwarden/view/keys.hpp"
#include "gpuwarden/view/show.hpp"
#include "gpuwarden/view/sources.hpp"
#include "gpuwarden/view/typed.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "render/style.hpp"
#include "shared_options.hpp"

namespace gpuwarden::cli {
namespace {

constexpr auto kTopOptions = std::to_array<Option>({
    {"-i,--gpu", OptionKind::list, "ID...", "only these GPUs: indices, UUIDs or their beginnings, PCI bus ids"},
    {"--interval", OptionKind::text, "DURATION", "time between readings, 100ms to 10m (1s; of other machines 5s)"},
    {"--filter", OptionKind::text, "EXPRESSION", "only what this holds for: 'temp > 85 & user == ann'"},
    {"--sort", OptionKind::text, "COLUMN", "sort processes by this column; -COLUMN: largest first",
     "gpu pid user sm gpu-mem cpu host time command"},
    {"--tree", OptionKind::flag, "", "processes below those that started them"},
    {"--rules", OptionKind::text, "FILE",
     "YAML with alert rules (docs/alerts.md), as of gpuwarden serve; nobody is told"},
    {"--ascii", OptionKind::flag, "", "draw with ASCII alone (the default where the locale is not UTF-8)"},
    {"--no-color", OptionKind::flag, "", "no colours, as --color never"},
    {"--once", OptionKind::flag, "", "print one frame and end"},
    {"--size", OptionKind::text, "WIDTHxHEIGHT", "with --once: the frame's size (that of the terminal, else 100x30)"},
});

constexpr auto kOthersOptions = std::to_array<Option>({
    {"--peers", OptionKind::text, "FILE|dns:NAME:PORT",
     "machines that run gpuwarden serve: a file with HOST:PORT lines"},
    {"--prometheus", OptionKind::text, "URL", "all machines that this Prometheus scrapes"},
    {"--token-file", OptionKind::text, "FILE", "the bearer token that they want"},
});

/// --size, else COLUMNS and LINES, else the terminal's, else 100x30.
Result<view::Extent> frame_size(const Context& context) {
  if (const auto given = context.args.text("size")) {
    auto parsed = view::parse_extent(*given);
    if (!parsed)
      return fail(ErrorCode::invalid_argument, "--size: " + parsed.error().message, "for example --size 120x40");
    return parsed;
  }
  constexpr std::size_t kMost = 1000;
  const TerminalSize terminal = terminal_size(context.environment);
  return view::Extent{static_cast<int>(std::min(terminal.columns.value_or(100), kMost)),
                      static_cast<int>(std::min(terminal.lines.value_or(30), kMost))};
}

bool shows_others(const Args& args) { return args.has("peers") || args.has("prometheus"); }

/// Machines are named in one way, and what asks this machine's driver means nothing for others.
Result<void> check_whom_to_show(const Args& args) {
  static constexpr const char* kOne = "each names what is shown: give one of them";
  static constexpr const char* kDriver = "other machines are asked by their own gpuwarden serve";
  static constexpr const char* kWatched = "alerts are raised only while this machine is watched";
  static constexpr const char* kElsewhere = "other machines raise their own alerts";
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
      {"rules", "once", kWatched},
      {"rules", "from", kWatched},
      {"rules", "peers", kElsewhere},
      {"rules", "prometheus", kElsewhere},
  });
  GPUWARDEN_CHECK(check_clashes(args, kClashes));
  if (args.has("token-file") && !shows_others(args))
    return fail(ErrorCode::invalid_argument, "--token-file requires --peers or --prometheus",
                "it holds the secret that they want");
  if (args.has("size") && !args.has("once")) return fail(ErrorCode::invalid_argument, "--size requires --once");
  return {};
}

/// What the options say.
struct Settings {
  view::ViewState state;
  view::ShowOptions show;
  view::Extent size;
  bool colour = false;
};

Result<view::ViewState> read_state(const Args& args) {
  view::ViewState state;
  if (const auto sort = args.text("sort")) {
    if (const auto set = view::set_sort(state, *sort); !set) return std::unexpected(about("sort", set.error()));
  }
  if (const auto filter = args.text("filter")) {
    if (const auto set = view::set_filter(state, *filter); !set) return std::unexpected(about("filter", set.error()));
  }
  for (const auto& name : placement::expand_ranges(args.list("gpu"))) state.only.push_back(name.text);
  state.tree = args.has("tree");
  state.glyphs = view::glyphs_of_locale();
  if (args.has("ascii")) state.glyphs = view::Glyphs::ascii;
  return state;
}

Result<Settings> read_settings(const Context& context) {
  const Args& args = context.args;
  GPUWARDEN_CHECK(refuse_json(args, "top", "gpuwarden list --json, gpuwarden snapshot --json"));
  GPUWARDEN_CHECK(check_whom_to_show(args));
  Settings settings;
  GPUWARDEN_TRY(const auto interval, interval_option(args));
  settings.show.interval = interval.value_or(std::chrono::seconds(shows_others(args) ? 5 : 1));
  GPUWARDEN_TRY(const Style style, style_of(context));
  settings.colour = style.colour && !args.has("no-color");
  GPUWARDEN_TRY(settings.size, frame_size(context));
  GPUWARDEN_TRY(settings.state, read_state(args));
  // Alerts are raised live, and for this machine; a view tells nobody of them.
  if (!shows_others(args) && !args.has("once") && !args.has("from")) {
    GPUWARDEN_TRY(settings.show.alerts, telemetry::read_alert_rules(alert_rules_file(context)));
    settings.show.alerts.sinks.clear();
  }
  return settings;
}

void print_nodes(std::vector<cluster::Node> nodes, const Settings& settings, bool captured) {
  const view::Canvas frame = view::draw_once(std::move(nodes), settings.state, settings.size, captured, system_clock());
  fmt::print("{}", view::to_text(frame, settings.colour ? view::Colours::many : view::Colours::none));
}

int told(const std::optional<Error>& problem) {
  if (!problem) return kFine;
  complain(*problem);
  return kUnavailable;
}

Result<int> print_frame(const Machine& machine, const Settings& settings) {
  cluster::Node node = view::read_node(machine);
  const auto problem = node.problem;
  // What a frame cannot show.
  if (node.leases_problem) warn("who has leased the GPUs is unknown: " + node.leases_problem->message);
  if (node.health_problem) warn(node.health_problem->message);
  facts::Snapshot named = node.reading->snapshot;
  GPUWARDEN_CHECK(placement::keep_named(placement::expand_ranges(settings.state.only), named));
  print_nodes({std::move(node)}, settings, machine.captured().has_value());
  return told(problem);
}

int code_of_end() { return StopOnSignals::last_signal() == 0 ? kFine : kSignalled + StopOnSignals::last_signal(); }

Result<int> show_live(const Machine& machine, const Settings& settings) {
  const StopOnSignals signals;
  GPUWARDEN_TRY(const auto screen, view::open_curses_screen(settings.colour));
  GPUWARDEN_CHECK(view::show_machine(machine, *screen, settings.state, settings.show, signals.token()));
  return code_of_end();
}

/// Those of --peers or --prometheus.
Result<std::unique_ptr<cluster::OtherMachines>> open_others(const Args& args, const Settings& settings) {
  GPUWARDEN_TRY(const auto timeout, timeout_option(args));
  return cluster::OtherMachines::open({.peers = args.text("peers"),
                                       .prometheus = args.text("prometheus"),
                                       .token_file = args.text("token-file").value_or(""),
                                       .interval = settings.show.interval,
                                       .timeout = timeout,
                                       .once = args.has("once")});
}

Result<int> print_others(const Args& args, const Settings& settings) {
  GPUWARDEN_TRY(const auto others, open_others(args, settings));
  const std::vector<cluster::Node> nodes = others->first_answers();
  print_nodes(nodes, settings, false);
  return told(cluster::why_none_answers(nodes));
}

Result<int> watch_others(const Args& args, const Settings& settings) {
  const StopOnSignals signals;
  std::unique_ptr<cluster::OtherMachines> others;
  {
    const view::LeaveTerminalSignals leave;
    GPUWARDEN_TRY(others, open_others(args, settings));
  }
  GPUWARDEN_TRY(const auto screen, view::open_curses_screen(settings.colour));
  view::show_nodes(*others, *screen, settings.state, settings.show.interval, signals.token());
  return code_of_end();
}

Result<int> run_top(Context& context) {
  GPUWARDEN_TRY(const Settings settings, read_settings(context));
  if (shows_others(context.args))
    return context.args.has("once") ? print_others(context.args, settings) : watch_others(context.args, settings);
  GPUWARDEN_TRY(const Machine machine, open_machine(context));
  return context.args.has("once") ? print_frame(machine, settings) : show_live(machine, settings);
}

}  // namespace

constinit const Subcommand kTopCommand{
    .name = "top",
    .summary = "watch the GPUs and their processes, live",
    .usage = "gpuwarden top [options]",
    .groups = {OptionGroup{kTopOptions}, OptionGroup{kFromOptions}, OptionGroup{kOthersOptions, "other machines"}},
    .rest = Rest::none,
    .details =
        "Bars and graphs for each GPU, its processes, alerts, and every metric in its "
        "detail. `?` lists the keys; those of nvtop and nvitop work. Processes get a "
        "signal only after a question. With --peers or --prometheus it shows other machines; one "
        "that does not answer is shown as lost, with the reason.",
    .run = run_top};

}  // namespace gpuwarden::cli
