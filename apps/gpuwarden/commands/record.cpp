// SPDX-License-Identifier: Apache-2.0
// gpuwarden record: writes down what the GPUs do, and sums it up at the end.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exit_codes.hpp"
#include "gpuwarden/base/stop_on_signals.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/use.hpp"
#include "gpuwarden/launch/foreground.hpp"
#include "gpuwarden/launch/run.hpp"
#include "gpuwarden/machine/lease_watch.hpp"
#include "gpuwarden/machine/out_of_use.hpp"
#include "gpuwarden/placement/names.hpp"
#include "gpuwarden/recording/words.hpp"
#include "gpuwarden/telemetry/monitor.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "recording.hpp"
#include "render/print_json.hpp"
#include "render/recording_text.hpp"

namespace gpuwarden::cli {
namespace {

using recording::Recorder;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kRecordOptions = std::to_array<Option>({
    {"-o,--output", OptionKind::text, "FILE", "the recording (gpuwarden-HOST-DATE.db here)"},
    {"--interval", OptionKind::text, "DURATION",
     "time between readings, 100ms to 10m (5s, or a tenth of a shorter --duration; of a command 1s)"},
    {"--duration", OptionKind::text, "DURATION", "end after this time (at Ctrl-C)"},
    {"-i,--gpu", OptionKind::list, "ID...", "only these GPUs: indices (0,2 or 0-3), UUIDs, PCI bus ids"},
    {"--csv", OptionKind::text, "FILE", "write CSV (-: standard output), and a recording only with -o"},
    {"--jsonl", OptionKind::text, "FILE", "write a JSON document for each reading, likewise"},
    {"--append", OptionKind::flag, "", "go on with a file that is there"},
    {"--force", OptionKind::flag, "", "replace a file that is there"},
    {"-q,--quiet", OptionKind::flag, "", "show no progress and no summary"},
});

/// A short recording is read often enough that there is something between its readings.
Result<milliseconds> read_interval(const Args& args, const std::optional<milliseconds>& duration) {
  constexpr milliseconds kShortest(100);
  constexpr milliseconds kLongest(600'000);
  constexpr milliseconds kUsual = seconds(5);
  constexpr int kReadings = 10;
  GPUWARDEN_TRY(const auto given, duration_option(args, "interval"));
  const milliseconds usual = duration ? std::clamp(*duration / kReadings, kShortest, kUsual) : kUsual;
  const milliseconds interval = given.value_or(args.rest.empty() ? usual : seconds(1));
  if (interval >= kShortest && interval <= kLongest) return interval;
  return fail(ErrorCode::invalid_argument, "--interval must be between 100ms and 10m");
}

/// What means nothing together: told, not left out in silence.
Result<void> check_what_is_asked(const Args& args) {
  static constexpr auto kClashes = std::to_array<Clash>({
      {"append", "force", "--append goes on with a file, --force replaces it"},
  });
  GPUWARDEN_CHECK(check_clashes(args, kClashes));
  if (args.text("output") == "-")
    return fail(ErrorCode::invalid_argument, "a recording cannot be written to standard output",
                "--csv - and --jsonl - can");
  if (args.text("csv") == "-" && (args.text("jsonl") == "-" || args.has("json")))
    return fail(ErrorCode::invalid_argument, "standard output can take one of --csv, --jsonl and --json");
  if (args.text("jsonl") == "-" && args.has("json"))
    return fail(ErrorCode::invalid_argument, "standard output can take one of --csv, --jsonl and --json");
  if (args.has("duration") && !args.rest.empty())
    return fail(ErrorCode::invalid_argument, "--duration and a command: which of them ends the recording?",
                "a recording of a command ends with it");
  return {};
}

bool writes_to_stdout(const Args& args) { return args.text("csv") == "-" || args.text("jsonl") == "-"; }

/// The GPUs that are asked for, as they are now.
Result<facts::Snapshot> first_look(const Context& context, const Machine& machine) {
  // As one of a series: a GPU that hangs does not keep the recording from beginning.
  facts::Snapshot snapshot = machine.read({.processes = false, .every = seconds(1)});
  if (snapshot.problem) return std::unexpected(Error(*snapshot.problem));
  if (snapshot.gpus.empty())
    return fail(ErrorCode::unavailable, "there is no GPU to record", "gpuwarden doctor says why none is seen");
  GPUWARDEN_CHECK(placement::keep_named(placement::expand_ranges(context.args.list("gpu")), snapshot));
  return snapshot;
}

recording::RecorderOptions recorder_options(const Context& context, const facts::Snapshot& snapshot,
                                            milliseconds interval) {
  const Args& args = context.args;
  recording::RecorderOptions options;
  options.csv = args.text("csv").value_or("");
  options.jsonl = args.text("jsonl").value_or("");
  const bool text_alone = args.has("csv") || args.has("jsonl");
  const std::string usual = text_alone ? "" : recording::usual_file_name(snapshot.host, system_clock().wall_now());
  options.file = args.text("output").value_or(usual);
  options.existing = args.has("append")  ? recording::Existing::append
                     : args.has("force") ? recording::Existing::replace
                                         : recording::Existing::refuse;
  options.info = recording::info_of(snapshot, args.rest, interval);
  if (args.has("gpu")) {
    for (const facts::GpuRecord& record : snapshot.gpus) options.gpus.push_back(facts::identity_of(record));
  }
  return options;
}

/// Until the time is over or a signal comes; on a terminal with a line that is drawn anew.
void wait(const Args& args, const Recorder& recorder, const StopOnSignals& signals,
          const std::optional<milliseconds>& duration) {
  constexpr milliseconds kBetweenDrawings(500);
  Clock& clock = system_clock();
  const bool draws = ::isatty(STDERR_FILENO) == 1 && !args.has("quiet");
  const auto begin = clock.now();
  milliseconds passed{};
  while (!duration || passed < *duration) {
    const milliseconds left = duration ? *duration - passed : milliseconds::max();
    const bool stopped =
        !clock.sleep_for(draws ? std::min(left, kBetweenDrawings) : std::min<milliseconds>(left, std::chrono::hours(1)),
                         signals.token());
    passed = std::chrono::round<milliseconds>(clock.now() - begin);
    if (draws) say("\r\033[K{}", progress_text(recorder.progress(), passed, duration));
    if (stopped) break;
  }
  if (draws) say("\r\033[K");
}

void announce(const Context& context, const recording::RecorderOptions& options, const facts::Snapshot& snapshot) {
  if (context.args.has("quiet")) return;
  std::string where;
  for (const auto& path : {options.file, options.csv, options.jsonl}) {
    if (!path.empty() && path != "-") where += (where.empty() ? " to " : ", ") + printable(path.string());
  }
  say("gpuwarden: {}recording {} GPU{} every {}{}{}\n", snapshot.simulated ? "[simulated] " : "", snapshot.gpus.size(),
      snapshot.gpus.size() == 1 ? "" : "s", recording::duration_text(options.info.interval), where,
      context.args.rest.empty() ? "; Ctrl-C ends it" : "");
}

void show(const Context& context, const Style& style, const recording::Told& told) {
  if (context.args.has("json")) {
    print_json(recording::to_json(told.summary));
  } else if (!context.args.has("quiet")) {
    const std::string text = summary_text(told.summary, style);
    if (writes_to_stdout(context.args) || !context.args.rest.empty())
      say("\n{}", text);
    else
      fmt::print("{}", text);
  }
}

/// The command on this terminal, with what a simulated fleet's programs need; its exit code.
Result<int> run_program(const Context& context, const Machine& machine) {
  Environment environment = context.environment;
  for (const auto& [name, value] : machine.simulated_environment(environment)) environment[name] = value;
  return launch::run_in_foreground(context.args.rest, environment);
}

/// Judges health too, so that other processes hear of GPUs that turn out unfit; alerts are the recorder's.
telemetry::MonitorOptions monitor_options(const Machine& machine, milliseconds interval) {
  telemetry::MonitorOptions options;
  options.reader = machine.reader();
  options.sampler.interval = interval;
  options.leases = machine::watch_leases(machine);
  options.alerts = {};
  options.remember = {};
  options.publish_health = machine::health_places(machine.options().environment, machine.reader());
  options.publish_as = "gpuwarden record";
  options.log = [](const std::string& line) { warn(line); };
  return options;
}

Result<int> run_record(Context& context) {
  const Args& args = context.args;
  GPUWARDEN_CHECK(check_what_is_asked(args));
  GPUWARDEN_TRY(const auto style, style_of(context));
  GPUWARDEN_TRY(const auto duration, duration_option(args, "duration"));
  if (duration && *duration <= milliseconds(0))
    return fail(ErrorCode::invalid_argument, "--duration must be longer than 0",
                "10m records ten minutes; without --duration Ctrl-C ends it");
  GPUWARDEN_TRY(const auto interval, read_interval(args, duration));
  const bool has_command = !args.rest.empty();
  if (has_command) {
    if (const auto found = launch::check_program(args.rest[0], context.environment); !found)
      return refuse_program(found.error());
  }
  GPUWARDEN_TRY(const auto machine, open_machine(context));
  GPUWARDEN_TRY(const auto snapshot, first_look(context, machine));
  const auto options = recorder_options(context, snapshot, interval);
  GPUWARDEN_TRY(const auto recorder, Recorder::open(options, system_clock()));
  announce(context, options, snapshot);
  // A command has the terminal's signals to itself; without one they end the recording.
  std::optional<StopOnSignals> signals;
  if (!has_command) signals.emplace();
  telemetry::PerformanceMonitor monitor(monitor_options(machine, interval));
  monitor.add_reading_callback(recording_into(*recorder));
  GPUWARDEN_CHECK(monitor.start());
  Result<int> code = kFine;
  if (has_command) {
    // What ends at once shall leave a reading, too; a GPU that hangs does not keep it from beginning.
    constexpr milliseconds kForTheFirst = seconds(2);
    monitor.wait_for_reading({}, kForTheFirst);
    code = run_program(context, machine);
  } else {
    wait(args, *recorder, *signals, duration);
  }
  monitor.stop();
  const auto told = recorder->finish(has_command && code ? std::optional(*code) : std::nullopt);
  const auto progress = recorder->progress();
  say_losses(progress);
  if (!code) return refuse_program(code.error());
  if (progress.readings == 0) warn("the recording ended before its first reading");
  if (progress.readings == 1 && !args.has("quiet"))
    warn(fmt::format("there is one reading alone, and energy takes two: a shorter --interval than {}{}",
                     recording::duration_text(interval), has_command ? "" : ", or a longer recording"));
  show(context, style, told);
  return has_command || !progress.trouble ? *code : kNo;
}

}  // namespace

constinit const Subcommand kRecordCommand{
    .name = "record",
    .summary = "write down what the GPUs do, and sum it up at the end",
    .usage = "gpuwarden record [options] [-- COMMAND...]",
    .groups = {OptionGroup{kRecordOptions}},
    .rest = Rest::command,
    .details =
        "Reads the GPUs at an interval into a SQLite file until Ctrl-C, for a duration, or as long as a command "
        "runs (its signals and its exit code are passed on), and ends with mean, most and least of each GPU. "
        "gpuwarden report FILE shows it again, as HTML too.",
    .run = run_record};

}  // namespace gpuwarden::cli
