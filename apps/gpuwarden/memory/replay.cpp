// SPDX-License-Identifier: Apache-2.0
// gpuwarden memory replay
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exit_codes.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/logs/unpack.hpp"
#include "gpuwarden/memtrace/json.hpp"
#include "gpuwarden/memtrace/read.hpp"
#include "gpuwarden/memtrace/report.hpp"
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
  if (const auto random = args.text("random-lengths")) {
    const auto range = memtrace::parse_lengths(*random);
    if (!range) return std::unexpected(about("random-lengths", range.error()));
    request.random = *range;
  }
  auto steps = memtrace::steps_of(trace, request);
  if (!steps && !trace.depends_on_tokens())
    return std::unexpected(about(request.random ? "random-lengths" : "tokens", steps.error()));
  return steps;
}

Result<void> check_options(const Args& args) {
  static constexpr auto kClashes = std::to_array<Clash>({
      {"tokens", "random-lengths", "one length for all steps, or a random one for each"},
      {"repeat", "random-lengths", "--steps says how many lengths are drawn"},
  });
  GPUWARDEN_CHECK(check_clashes(args, kClashes));
  if (const auto snapshot = args.text("snapshot")) {
    const auto known = memtrace::check_snapshot_name(*snapshot);
    if (!known) return std::unexpected(about("snapshot", known.error()));
  }
  for (const char* key : {"steps", "seed"}) {
    if (args.has(key) && !args.has("random-lengths"))
      return fail(ErrorCode::invalid_argument, fmt::format("--{} requires --random-lengths", key));
  }
  if (args.rest.size() == 1) return {};
  return fail(ErrorCode::invalid_argument,
              args.rest.empty() ? "memory replay: no trace is given"
                                : fmt::format("memory replay takes one trace, not {}", args.rest.size()),
              "gpuwarden memory replay snapshot.pickle");
}

/// A trace from a file, packed or not, or ("-") from standard input.
Result<Trace> read_trace(const Args& args) {
  constexpr std::size_t kLargest = std::size_t{16} << 30U;  // snapshots of long runs have gigabytes
  const std::string& file = args.rest[0];
  GPUWARDEN_TRY(const auto device, count_option(args, "device", 1023));
  const std::string name = file == "-" ? "standard input" : printable(file);
  GPUWARDEN_TRY(std::string content,
                file == "-" ? read_descriptor(STDIN_FILENO, name, kLargest) : read_file(file, kLargest));
  GPUWARDEN_TRY(content, logs::unpack_one(std::move(content), name));
  return memtrace::read_trace(content, name, {.device = device});
}

/// --snapshot and --timeline: of one more run, in which everything is noted.
Result<void> write_pictures(const Args& args, const memtrace::ReplayReport& report) {
  const auto snapshot = args.text("snapshot");
  const auto timeline = args.text("timeline");
  if (!snapshot && !timeline) return {};
  GPUWARDEN_TRY(const memtrace::Recording recording, memtrace::record_first(report));
  if (snapshot) GPUWARDEN_CHECK(write_output(*snapshot, memtrace::snapshot_for(*snapshot, recording)));
  if (!timeline) return {};
  return write_output(
      *timeline, memtrace::timeline_html(
                     recording, {report.file + " with " + report.replays[0].strategy, memtrace::notes_on(report)}));
}

}  // namespace

Result<int> memory_replay(Context& context) {
  const Args& args = context.args;
  GPUWARDEN_CHECK(check_options(args));
  const auto strategies = memory::strategies_named(args.text("strategy").value_or("balanced"));
  if (!strategies) return std::unexpected(about("strategy", strategies.error()));
  GPUWARDEN_TRY(const auto device, size_option(args, "device-memory"));
  GPUWARDEN_TRY(const Style style, style_of(context));
  GPUWARDEN_TRY(const Trace trace, read_trace(args));
  GPUWARDEN_TRY(auto steps, read_steps(args, trace));
  GPUWARDEN_TRY(const memtrace::ReplayReport report,
                memtrace::replay_all(args.rest[0], trace, std::move(steps), *strategies, device.value_or(80_GiB)));
  GPUWARDEN_CHECK(write_pictures(args, report));
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
