// SPDX-License-Identifier: Apache-2.0
// gpuwarden memory replay
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exit_codes.hpp"
#include "gpuwarden/base/compression.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/logs/unpack.hpp"
#include "gpuwarden/memtrace/json.hpp"
#include "gpuwarden/memtrace/read.hpp"
#include "gpuwarden/memtrace/record.hpp"
#include "gpuwarden/memtrace/replay.hpp"
#include "gpuwarden/memtrace/snapshot.hpp"
#include "gpuwarden/memtrace/steps.hpp"
#include "gpuwarden/memtrace/timeline.hpp"
#include "memory/actions.hpp"
#include "options.hpp"
#include "render/print_json.hpp"
#include "render/replay_text.hpp"

namespace gpuwarden::cli {
namespace {

using memtrace::Trace;

Result<unsigned> positive(const Args& args, const std::string& key, unsigned otherwise, unsigned most) {
  GPUWARDEN_TRY(const auto number, count_option(args, key, most));
  if (number == 0) return fail(ErrorCode::invalid_argument, fmt::format("--{} must be at least 1", key));
  return number.value_or(otherwise);
}

/// The sequence length of each step; 0 for traces that have none.
Result<std::vector<unsigned>> read_steps(const Args& args, const Trace& trace) {
  constexpr unsigned kMostSteps = 1'000'000;
  memtrace::StepRequest request;
  GPUWARDEN_TRY(request.repeat, positive(args, "repeat", 1, kMostSteps));
  GPUWARDEN_TRY(request.steps, positive(args, "steps", 60, kMostSteps));
  GPUWARDEN_TRY(request.tokens, positive(args, "tokens", 0, memtrace::kLongestSequence));
  GPUWARDEN_TRY(const auto seed, count_option(args, "seed", ~0U));
  request.seed = seed.value_or(1);
  const auto random = args.text("random-lengths");
  if ((random || request.tokens != 0) && !trace.depends_on_tokens())
    return fail(ErrorCode::invalid_argument,
                fmt::format("--{}: the sizes in this trace are fixed", random ? "random-lengths" : "tokens"),
                "leave it out; --repeat runs the trace several times");
  if (random) {
    const auto range = memtrace::parse_lengths(*random);
    if (!range) return std::unexpected(about("random-lengths", range.error()));
    request.random = *range;
  }
  return memtrace::steps_of(trace, request);
}

Result<std::vector<const memory::Strategy*>> strategies_of(const Args& args) {
  const std::string wanted = args.text("strategy").value_or(std::string(memory::strategies().front().name));
  std::vector<const memory::Strategy*> chosen;
  std::vector<std::string> names{"all"};
  for (const memory::Strategy& strategy : memory::strategies()) {
    names.emplace_back(strategy.name);
    if (wanted == "all" || wanted == strategy.name) chosen.push_back(&strategy);
  }
  if (chosen.empty())
    return fail(ErrorCode::invalid_argument, fmt::format("unknown strategy '{}' (--strategy)", printable(wanted)),
                "there are: " + join(names, ", "));
  return chosen;
}

bool is_pickle_name(std::string_view file) { return file.ends_with(".pickle") || file.ends_with(".pkl"); }

Result<void> check_options(const Args& args) {
  static constexpr auto kClashes = std::to_array<Clash>({
      {"tokens", "random-lengths", "one length for all steps, or a random one for each"},
      {"repeat", "random-lengths", "--steps says how many lengths are drawn"},
  });
  GPUWARDEN_CHECK(check_clashes(args, kClashes));
  const auto snapshot = args.text("snapshot");
  if (snapshot && !is_pickle_name(*snapshot) && !snapshot->ends_with(".json"))
    return fail(ErrorCode::invalid_argument,
                fmt::format("--snapshot: no known format ends like '{}'", printable(*snapshot)),
                "end it in .pickle, for PyTorch's viewer, or in .json");
  for (const char* key : {"steps", "seed"}) {
    if (args.has(key) && !args.has("random-lengths"))
      return fail(ErrorCode::invalid_argument, fmt::format("--{} requires --random-lengths", key));
  }
  if (args.rest.size() == 2) return {};
  return fail(ErrorCode::invalid_argument,
              args.rest.size() < 2 ? "memory replay: no trace is given"
                                   : fmt::format("memory replay takes one trace, not {}", args.rest.size() - 1),
              "gpuwarden memory replay snapshot.pickle");
}

/// A trace from a file, packed or not, or ("-") from standard input.
Result<Trace> read_trace(const Args& args) {
  constexpr std::size_t kLargest = std::size_t{16} << 30U;  // snapshots of long runs have gigabytes
  const std::string& file = args.rest[1];
  GPUWARDEN_TRY(const auto device, count_option(args, "device", 1023));
  const std::string name = file == "-" ? "standard input" : printable(file);
  GPUWARDEN_TRY(std::string content,
                file == "-" ? read_descriptor(STDIN_FILENO, name, kLargest) : read_file(file, kLargest));
  if (!compression_of(content).empty()) {
    logs::Unpacking unpacked = logs::unpack(content, name);
    if (unpacked.problem) return std::unexpected(std::move(*unpacked.problem));
    if (unpacked.files.size() != 1)
      return fail(ErrorCode::invalid_argument, fmt::format("{} holds {} files, not one", name, unpacked.files.size()),
                  "unpack it, and name the trace");
    content = std::move(unpacked.files[0].bytes);
  }
  return memtrace::read_trace(content, name, {.device = device});
}

/// Long scripts are measured well enough in fewer rounds.
unsigned rounds_for(std::uint64_t operations) {
  constexpr std::uint64_t kEnough = 20'000'000;
  return static_cast<unsigned>(std::clamp<std::uint64_t>(kEnough / std::max<std::uint64_t>(operations, 1), 1, 5));
}

/// --snapshot and --timeline: of one more run, in which everything is noted.
Result<void> write_pictures(const Args& args, const memtrace::ReplayReport& report, const memtrace::Script& script,
                            const memory::Strategy& strategy) {
  const auto snapshot = args.text("snapshot");
  const auto timeline = args.text("timeline");
  if (!snapshot && !timeline) return {};
  GPUWARDEN_TRY(const memtrace::Recording recording,
                memtrace::record(report.trace, script, {.strategy = &strategy, .device_memory = report.device_memory}));
  if (snapshot) {
    GPUWARDEN_CHECK(write_output(*snapshot, is_pickle_name(*snapshot) ? memtrace::snapshot_pickle(recording)
                                                                      : memtrace::snapshot_json(recording)));
  }
  if (!timeline) return {};
  const memtrace::TimelineText text{.title = report.file + " with " + std::string(strategy.name),
                                    .notes = replay_notes(report)};
  return write_output(*timeline, memtrace::timeline_html(recording, text));
}

}  // namespace

Result<int> memory_replay(Context& context) {
  const Args& args = context.args;
  GPUWARDEN_CHECK(check_options(args));
  GPUWARDEN_TRY(const auto strategies, strategies_of(args));
  GPUWARDEN_TRY(const auto device, size_option(args, "device-memory"));
  GPUWARDEN_TRY(const Style style, style_of(context));
  GPUWARDEN_TRY(const Trace trace, read_trace(args));
  GPUWARDEN_TRY(const auto steps, read_steps(args, trace));
  const memtrace::Script script = memtrace::make_script(trace, steps);
  memtrace::ReplayReport report{
      .file = args.rest[1], .trace = trace, .device_memory = device.value_or(80_GiB), .steps = steps};
  for (const memory::Strategy* strategy : strategies) {
    GPUWARDEN_TRY(memtrace::Replay one, memtrace::replay(script, {.strategy = strategy,
                                                                  .device_memory = report.device_memory,
                                                                  .rounds = rounds_for(script.operations)}));
    report.replays.push_back(std::move(one));
  }
  GPUWARDEN_CHECK(write_pictures(args, report, script, *strategies[0]));
  if (args.has("json"))
    print_json(memtrace::to_json(report));
  else
    fmt::print("{}", replay_text(report, style));
  if (!report.replays[0].failure) return kFine;
  const memtrace::ReplayFailure& failure = *report.replays[0].failure;
  complain({failure.error.code, fmt::format("operation {}: {}", failure.operation + 1, failure.error.message),
            failure.error.hint});
  return kNo;
}

}  // namespace gpuwarden::cli
