// SPDX-License-Identifier: Apache-2.0
// gpuwarden record: writes down what the GPUs do, and sums it up at the end.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exit_codes.hpp"
#include "gpuwarden/base/stop_on_signals.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/launch/foreground.hpp"
#include "gpuwarden/launch/record_machine.hpp"
#include "gpuwarden/launch/run.hpp"
#include "gpuwarden/recording/words.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "recording.hpp"
#include "render/print_json.hpp"
#include "render/recording_text.hpp"

namespace gpuwarden::cli {
namespace {

using std::chrono::milliseconds;

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

/// What means nothing together: told, not left out in silence.
Result<void> check_what_is_asked(const Args& args) {
  static constexpr auto kClashes = std::to_array<Clash>({
      {"append", "force", "--append goes on with a file, --force replaces it"},
  });
  GPUWARDEN_CHECK(check_clashes(args, kClashes));
  if (args.text("output") == "-")
    return fail(ErrorCode::invalid_argument, "a recording cannot be written to standard output",
                "--csv - and --jsonl - can");
  GPUWARDEN_CHECK(check_standard_output(args, {"csv", "jsonl"}));
  if (args.has("duration") && !args.rest.empty())
    return fail(ErrorCode::invalid_argument, "--duration and a command: which of them ends the recording?",
                "a recording of a command ends with it");
  return {};
}

Result<launch::RecordRequest> read_request(const Args& args) {
  launch::RecordRequest request;
  GPUWARDEN_TRY(request.duration, duration_option(args, "duration"));
  if (request.duration && request.duration->count() <= 0)
    return fail(ErrorCode::invalid_argument, "--duration must be longer than 0",
                "10m records ten minutes; without --duration Ctrl-C ends it");
  GPUWARDEN_TRY(request.interval, interval_option(args));
  request.gpus = args.list("gpu");
  request.command = args.rest;
  request.files.file = args.text("output").value_or("");
  request.files.csv = args.text("csv").value_or("");
  request.files.jsonl = args.text("jsonl").value_or("");
  request.files.existing = args.has("append")  ? recording::Existing::append
                           : args.has("force") ? recording::Existing::replace
                                               : recording::Existing::refuse;
  request.log = [](const std::string& line) { warn(line); };
  return request;
}

/// Until the time is over or a signal comes; on a terminal with a line that is drawn anew.
void wait(const launch::MachineRecording& recorded, const StopOnSignals& signals, bool draws,
          const std::optional<milliseconds>& duration) {
  const milliseconds longest = draws ? milliseconds(500) : milliseconds(std::chrono::hours(1));
  Clock& clock = system_clock();
  const auto begin = clock.now();
  milliseconds passed{};
  for (bool stopped = false; !stopped && (!duration || passed < *duration);) {
    stopped = !clock.sleep_for(duration ? std::min(*duration - passed, longest) : longest, signals.token());
    passed = std::chrono::round<milliseconds>(clock.now() - begin);
    if (draws) say("\r\033[K{}", progress_text(recorded.progress(), passed, duration));
  }
  if (draws) say("\r\033[K");
}

void announce(const Context& context, const launch::MachineRecording& recorded) {
  if (context.args.has("quiet")) return;
  const recording::RecorderOptions& files = recorded.files();
  std::vector<std::string> names;
  for (const auto& path : {files.file, files.csv, files.jsonl}) {
    if (!path.empty() && path != "-") names.push_back(printable(path.string()));
  }
  say("gpuwarden: {}recording {} every {}{}{}{}\n", recorded.gpus().simulated ? "[simulated] " : "",
      counted(recorded.gpus().gpus.size(), "GPU"), recording::duration_text(files.info.interval),
      names.empty() ? "" : " to ", join(names, ", "), context.args.rest.empty() ? "; Ctrl-C ends it" : "");
}

void show(const Context& context, const Style& style, const recording::Told& told) {
  const Args& args = context.args;
  const std::string text = summary_text(told.summary, style);
  if (args.has("json"))
    print_json(recording::to_json(told.summary));
  else if (args.text("csv") == "-" || args.text("jsonl") == "-" || !args.rest.empty())
    say("{}", args.has("quiet") ? "" : "\n" + text);
  else
    fmt::print("{}", args.has("quiet") ? "" : text);
}

/// The command on this terminal, with what a simulated fleet's programs need; its exit code.
Result<int> run_program(const Context& context, const Machine& machine) {
  return launch::run_in_foreground(context.args.rest, machine.environment_for(context.environment));
}

/// Sums up what was recorded while a command ran with this code, or none did; the exit code.
Result<int> finish(const Context& context, launch::MachineRecording& recorded, const Style& style,
                   const Result<std::optional<int>>& code) {
  const auto told = recorded.finish(code.value_or(std::nullopt));
  const auto progress = recorded.progress();
  say_losses(progress);
  if (!code) return refuse_program(code.error());
  if (progress.readings == 0) warn("the recording ended before its first reading");
  if (progress.readings == 1 && !context.args.has("quiet"))
    warn(fmt::format("there is one reading alone, and energy takes two: a shorter --interval than {}{}",
                     recording::duration_text(recorded.files().info.interval), *code ? "" : ", or a longer recording"));
  show(context, style, told);
  return code->value_or(progress.trouble ? kNo : kFine);
}

Result<int> run_record(Context& context) {
  const Args& args = context.args;
  GPUWARDEN_CHECK(check_what_is_asked(args));
  GPUWARDEN_TRY(const auto style, style_of(context));
  GPUWARDEN_TRY(launch::RecordRequest request, read_request(args));
  const auto duration = request.duration;
  if (!args.rest.empty()) {
    if (const auto found = launch::check_program(args.rest[0], context.environment); !found)
      return refuse_program(found.error());
  }
  GPUWARDEN_TRY(const auto machine, open_machine(context));
  GPUWARDEN_TRY(const auto recorded, launch::MachineRecording::open(machine, std::move(request)));
  announce(context, *recorded);
  // A command has the terminal's signals to itself; without one they end the recording.
  if (!args.rest.empty()) {
    GPUWARDEN_CHECK(recorded->start());
    return finish(context, *recorded, style, run_program(context, machine));
  }
  const StopOnSignals signals;
  GPUWARDEN_CHECK(recorded->start());
  wait(*recorded, signals, ::isatty(STDERR_FILENO) == 1 && !args.has("quiet"), duration);
  return finish(context, *recorded, style, std::nullopt);
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
