// SPDX-License-Identifier: Apache-2.0
// gpuwarden memory replay
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exit_codes.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/memtrace/json.hpp"
#include "gpuwarden/memtrace/record.hpp"
#include "gpuwarden/memtrace/replay.hpp"
#include "gpuwarden/memtrace/snapshot.hpp"
#include "gpuwarden/memtrace/timeline.hpp"
#include "memory/actions.hpp"
#include "memory/trace_file.hpp"
#include "options.hpp"
#include "render/print_json.hpp"
#include "render/replay_text.hpp"

namespace gpuwarden::cli {
namespace {

using memtrace::Trace;

struct Lengths {
  unsigned least = 0;
  unsigned most = 0;
};

constexpr unsigned kLongestSequence = 16'777'216;

/// "128..1024".
Result<Lengths> lengths_of(const std::string& text) {
  const std::size_t dots = text.find("..");
  const auto least = parse_integer(std::string_view(text).substr(0, dots));
  const auto most = dots == std::string::npos ? std::nullopt : parse_integer(std::string_view(text).substr(dots + 2));
  if (!least || !most || *least < 1 || *most < *least || *most > kLongestSequence)
    return fail(ErrorCode::invalid_argument,
                fmt::format("--random-lengths: '{}' is not a range of lengths", printable(text)),
                "for example 128..1024");
  return Lengths{static_cast<unsigned>(*least), static_cast<unsigned>(*most)};
}

Result<unsigned> positive(const Args& args, const std::string& key, unsigned otherwise, unsigned most) {
  GPUWARDEN_TRY(const auto number, count_option(args, key, most));
  if (number == 0) return fail(ErrorCode::invalid_argument, fmt::format("--{} must be at least 1", key));
  return number.value_or(otherwise);
}

/// The sequence length of each step; 0 for traces that have none.
Result<std::vector<unsigned>> steps_of(const Args& args, const Trace& trace) {
  constexpr unsigned kMostSteps = 1'000'000;
  GPUWARDEN_TRY(const unsigned repeat, positive(args, "repeat", 1, kMostSteps));
  GPUWARDEN_TRY(const unsigned steps, positive(args, "steps", 60, kMostSteps));
  GPUWARDEN_TRY(const unsigned tokens, positive(args, "tokens", 0, kLongestSequence));
  GPUWARDEN_TRY(const auto seed, count_option(args, "seed", ~0U));
  const auto random = args.text("random-lengths");
  if ((random || tokens != 0) && !trace.depends_on_tokens())
    return fail(ErrorCode::invalid_argument,
                fmt::format("--{}: the sizes in this trace are fixed", random ? "random-lengths" : "tokens"),
                "leave it out; --repeat runs the trace several times");
  if (!random && tokens == 0 && trace.depends_on_tokens())
    return fail(ErrorCode::invalid_argument, "the sizes in this trace depend on the length of a sequence",
                "name one with --tokens 512, or draw them with --random-lengths 128..1024");
  if (!random) return std::vector<unsigned>(repeat, tokens);
  GPUWARDEN_TRY(const Lengths range, lengths_of(*random));
  // Each length has its own list of operations.
  constexpr std::uint64_t kMostOperations = 100'000'000;
  const std::uint64_t different = std::min<std::uint64_t>(steps, range.most - range.least + 1);
  if (different * (trace.events.size() + trace.before.size()) > kMostOperations)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} different lengths of {} events are too many", different, trace.events.size()),
                "fewer --steps, or a narrower range, show the same");
  return memtrace::random_lengths(range.least, range.most, steps, seed.value_or(1));
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
    GPUWARDEN_CHECK(write_file_atomically(*snapshot, is_pickle_name(*snapshot) ? memtrace::snapshot_pickle(recording)
                                                                               : memtrace::snapshot_json(recording)));
  }
  if (!timeline) return {};
  const memtrace::TimelineText text{.title = report.file + " with " + std::string(strategy.name),
                                    .notes = replay_notes(report)};
  return write_file_atomically(*timeline, memtrace::timeline_html(recording, text));
}

}  // namespace

Result<int> memory_replay(Context& context) {
  const Args& args = context.args;
  GPUWARDEN_CHECK(check_options(args));
  GPUWARDEN_TRY(const auto strategies, strategies_of(args));
  GPUWARDEN_TRY(const auto device, size_option(args, "device-memory"));
  GPUWARDEN_TRY(const Style style, style_of(context));
  GPUWARDEN_TRY(const Trace trace, read_trace_file(args.rest[1], args));
  GPUWARDEN_TRY(const auto steps, steps_of(args, trace));
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
