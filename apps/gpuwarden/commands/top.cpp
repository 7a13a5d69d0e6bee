// SPDX-License-Identifier: Apache-2.0
// gpuwarden top: the GPUs and their processes, live.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "exit_codes.hpp"
#include "gpuwarden/base/stop_on_signals.hpp"
#include "gpuwarden/cluster/other_machines.hpp"
#include "gpuwarden/placement/names.hpp"
#include "gpuwarden/view/app.hpp"
#include "gpuwarden/view/curses_screen.hpp"
#include "gpuwarden/view/sources.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "shared_options.hpp"
#include "top/top_settings.hpp"

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

/// What a frame cannot show.
void warn_of_unknowns(const cluster::Node& node) {
  if (node.leases_problem) warn("who has leased the GPUs is unknown: " + node.leases_problem->message);
  if (node.health_problem) warn(node.health_problem->message);
}

void print_nodes(std::vector<cluster::Node> nodes, const TopSettings& settings, bool captured) {
  const view::Canvas frame = view::draw_once(std::move(nodes), settings.state, settings.size, captured, system_clock());
  fmt::print("{}", view::to_text(frame, settings.colour ? view::Colours::many : view::Colours::none));
}

Result<int> print_frame(const Machine& machine, const TopSettings& settings) {
  cluster::Node node = view::read_node(machine);
  const auto problem = node.problem;
  warn_of_unknowns(node);
  facts::Snapshot named = node.reading->snapshot;
  std::vector<placement::GpuName> names;
  for (const std::string& name : settings.state.only) names.push_back({name});
  GPUWARDEN_CHECK(placement::keep_named(names, named));
  print_nodes({std::move(node)}, settings, machine.captured().has_value());
  if (!problem) return kFine;
  complain(*problem);
  return kUnavailable;
}

int code_of_end() { return StopOnSignals::last_signal() == 0 ? kFine : kSignalled + StopOnSignals::last_signal(); }

Result<int> show_live(const Machine& machine, const TopSettings& settings) {
  const StopOnSignals signals;
  GPUWARDEN_TRY(const auto screen, view::open_curses_screen(settings.colour));
  const view::RunOptions options{.interval = settings.interval, .captured = machine.captured().has_value()};
  if (options.captured) {
    const view::FixedNode node(view::read_node(machine));
    view::LocalActions actions({}, nullptr);
    view::run({.screen = *screen, .nodes = node, .actions = actions}, settings.state, options, signals.token());
    return kFine;
  }
  const auto use = std::make_shared<machine::UseWatch>(machine);
  telemetry::MonitorOptions monitor = view::monitor_options(machine, settings.interval, use);
  monitor.alerts = settings.alerts;
  view::WatchedMachine watched(std::move(monitor), use);
  GPUWARDEN_CHECK(watched.start([&screen = *screen] { screen.wake(); }));
  view::HostProcesses host(machine.reader().proc_roots,
                           [&machine] { return pools::published_pools_of(machine.options().environment); });
  view::LocalActions actions(machine.reader().proc_roots, &watched.monitor());
  view::run({.screen = *screen, .nodes = watched, .actions = actions, .host = &host}, settings.state, options,
            signals.token());
  return code_of_end();
}

/// "gpu-1:10478" of "http://gpu-1:10478".
std::string_view address_of(const cluster::Node& node) {
  const std::string_view url = node.url;
  const std::size_t scheme = url.find("://");
  return scheme == std::string_view::npos ? url : url.substr(scheme + 3);
}

/// Those of --peers or --prometheus.
Result<std::unique_ptr<cluster::OtherMachines>> open_others(const Args& args, const TopSettings& settings) {
  GPUWARDEN_TRY(const auto timeout, duration_option(args, "timeout"));
  if (timeout && timeout->count() <= 0)
    return fail(ErrorCode::invalid_argument, "--timeout must be greater than 0", "for example --timeout 5s");
  return cluster::OtherMachines::open({.peers = args.text("peers"),
                                       .prometheus = args.text("prometheus"),
                                       .token_file = args.text("token-file").value_or(""),
                                       .interval = settings.interval,
                                       .timeout = timeout,
                                       .once = args.has("once")});
}

/// One that answers is enough: the others are shown as lost.
Result<int> print_others(const Args& args, const TopSettings& settings) {
  GPUWARDEN_TRY(const auto others, open_others(args, settings));
  const std::vector<cluster::Node> nodes = others->first_answers();
  print_nodes(nodes, settings, false);
  if (std::ranges::any_of(nodes, [](const cluster::Node& node) { return !node.problem; })) return kFine;
  Error why = nodes.empty() ? Error{ErrorCode::unavailable, "no machine has answered yet", ""} : *nodes[0].problem;
  // What is said of a connection names it already.
  if (!nodes.empty() && !why.message.contains(address_of(nodes[0])))
    why.message = fmt::format("{}: {}", nodes[0].name, why.message);
  complain(why);
  return kUnavailable;
}

Result<int> watch_others(const Args& args, const TopSettings& settings) {
  const StopOnSignals signals;
  std::unique_ptr<cluster::OtherMachines> others;
  {
    const view::LeaveTerminalSignals leave;
    GPUWARDEN_TRY(others, open_others(args, settings));
  }
  GPUWARDEN_TRY(const auto screen, view::open_curses_screen(settings.colour));
  view::LocalActions actions({}, nullptr);
  view::run({.screen = *screen, .nodes = *others, .actions = actions}, settings.state, {.interval = settings.interval},
            signals.token());
  return code_of_end();
}

Result<int> run_top(Context& context) {
  GPUWARDEN_TRY(const TopSettings settings, read_top_settings(context));
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
