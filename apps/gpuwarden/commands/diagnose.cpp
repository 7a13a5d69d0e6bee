// SPDX-License-Identifier: Apache-2.0
// gpuwarden diagnose: from the logs of a failure to its cause.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "diagnose/explain.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/logs/diagnose.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "render/diagnosis_text.hpp"
#include "render/print_json.hpp"
#include "shared_options.hpp"

namespace gpuwarden::cli {
namespace {

constexpr auto kDiagnoseOptions = std::to_array<Option>({
    {"--from", OptionKind::repeated, "FILE",
     "facts of the machine on which it happened: a capture, snapshot or bundle; may be given again"},
    {"--live", OptionKind::flag, "", "it happened on this machine: look at it too"},
    {"--min-confidence", OptionKind::text, "C", "leave out causes that are less sure (0.6 for the first)"},
    {"-n,--top", OptionKind::text, "N", "show so many causes (3)"},
    {"--all", OptionKind::flag, "", "show every cause, every line and every consequence"},
    {"--list", OptionKind::flag, "", "show every cause that is known"},
    {"--explain", OptionKind::text, "WHAT",
     "look up a cause, xid=79, a CUDA error code, memory (its words), words, or a line of a log"},
});

using diagnosis::Diagnosis;
using facts::Snapshot;

/// What the user wants to see.
struct ViewOptions {
  std::optional<double> min_confidence;
  std::optional<std::uint32_t> top;
  bool all = false;
};

Result<ViewOptions> read_view_options(const Args& args) {
  ViewOptions options{.all = args.has("all")};
  if (const auto text = args.text("min-confidence")) {
    const auto number = parse_number(*text);
    if (!number || *number < 0 || *number > 1)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--min-confidence: '{}' is not a confidence", printable(*text)),
                  "a number from 0 to 1, for example 0.5");
    options.min_confidence = number;
  }
  constexpr std::uint32_t kMost = 1000;
  GPUWARDEN_TRY(options.top, count_option(args, "top", kMost));
  if (options.top == 0) return fail(ErrorCode::invalid_argument, "--top must be at least 1");
  return options;
}

/// Options that mean nothing together are told, not left out in silence.
Result<void> check_options(const Args& args) {
  static constexpr auto kClashes = std::to_array<Clash>({
      {"list", "explain", "--list shows all causes, --explain WHAT one"},
      {"top", "all", "--all shows every cause"},
      {"live", "from", "the facts are of this machine, or of a captured one"},
      {"list", "from", "the list is the same for every machine"},
      {"list", "live", "the list is the same for every machine"},
      {"explain", "from", "name the log, too, to have it diagnosed: gpuwarden diagnose FILE --from CAPTURE"},
      {"explain", "live", "name a log to have it diagnosed: gpuwarden diagnose FILE --live"},
  });
  GPUWARDEN_CHECK(check_clashes(args, kClashes));
  const bool twice = std::ranges::count(args.list("from"), "-") + std::ranges::count(args.rest, "-") > 1;
  if (twice || (args.rest.empty() && std::ranges::count(args.list("from"), "-") > 0))
    return fail(ErrorCode::invalid_argument, "standard input cannot be both the log and the capture",
                "name a file for one of them");
  if (args.has("list") && !args.rest.empty())
    return fail(ErrorCode::invalid_argument, fmt::format("--list: unexpected argument '{}'", printable(args.rest[0])),
                "gpuwarden diagnose FILE reads a log, --explain WHAT looks something up");
  return {};
}

/// The operands; standard input where there are none and something is piped in.
Result<std::vector<std::string>> operands_of(const Args& args) {
  if (!args.rest.empty()) return args.rest;
  if (::isatty(STDIN_FILENO) == 1)
    return fail(
        ErrorCode::invalid_argument, "no log is given",
        "gpuwarden diagnose run.log, or a folder with a log of each rank, or a pipe: dmesg | gpuwarden diagnose");
  return std::vector<std::string>{"-"};
}

/// The machine that --from, --live or --simulate name. Without them only the logs tell of theirs.
Result<std::optional<Snapshot>> given_machine(Context& context) {
  const Args& args = context.args;
  if (!args.has("from") && !args.has("live") && !args.has("simulate")) return std::nullopt;
  GPUWARDEN_TRY(const Machine machine, open_machine(context));
  return read_everything(context, machine, {.detail = probe::Detail::full, .holders = true});
}

/// "box/a.bin holds no text", "a.bin holds no text, b.bin holds no text, and 7 more".
std::string named(const std::vector<Error>& skipped) {
  constexpr std::size_t kNamed = 3;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < std::min(kNamed, skipped.size()); ++i) parts.push_back(skipped[i].message);
  if (skipped.size() > kNamed) parts.push_back(fmt::format("and {} more", skipped.size() - kNamed));
  return join(parts, ", ");
}

void tell_what_was_not_read(const logs::Logs& logs) {
  for (const Error& problem : logs.problems) complain(problem);
  for (const logs::LogRead& file : logs.files) {
    if (file.bytes == 0) warn(fmt::format("{} is empty", printable(file.name)));
    if (!file.text) warn(fmt::format("{} does not look like text", printable(file.name)));
  }
  if (logs.skipped.empty()) return;
  if (logs.files.empty())
    complain({ErrorCode::invalid_argument, fmt::format("there is nothing to read: {}", named(logs.skipped)),
              "name a file to have it read whatever it is"});
  else
    warn(fmt::format("not read: {}", named(logs.skipped)));
}

Result<int> diagnose_logs(Context& context) {
  GPUWARDEN_TRY(const ViewOptions options, read_view_options(context.args));
  GPUWARDEN_TRY(const auto operands, operands_of(context.args));
  GPUWARDEN_TRY(const Style style, style_of(context));
  GPUWARDEN_TRY(const auto given, given_machine(context));
  GPUWARDEN_TRY(const knowledge::Knowledge knowledge, open_knowledge(context));
  logs::Report report = logs::diagnose(operands, {given ? &*given : nullptr, options.min_confidence, &knowledge});
  tell_what_was_not_read(report.logs);
  Diagnosis& found = report.diagnosis;
  const bool failed = !found.causes.empty() || found.only_consequences || !report.environment.empty();
  const std::size_t most = options.all ? found.causes.size() : options.top.value_or(DiagnosisView{}.causes);
  if (context.args.has("json")) {
    if (options.top && found.causes.size() > *options.top) found.causes.resize(*options.top);
    print_json(logs::to_json(report));
  } else if (!report.logs.files.empty()) {
    const DiagnosisView view{report.logs.files.size(), report.machine,     most,          options.all,
                             report.doubtful,          report.environment, report.answers};
    fmt::print("{}", diagnosis_text(found, view, style));
  }
  if (!report.logs.problems.empty() || report.logs.files.empty()) return kWrongUsage;
  return failed ? kNo : kFine;
}

Result<int> run_diagnose(Context& context) {
  GPUWARDEN_CHECK(check_options(context.args));
  if (context.args.has("list")) return list_causes(context);
  if (context.args.has("explain")) return explain(context);
  return diagnose_logs(context);
}

}  // namespace

constinit const Subcommand kDiagnoseCommand{.name = "diagnose",
                                            .summary = "find the cause of a failure in its logs, and say what to do",
                                            .usage =
                                                "gpuwarden diagnose [FILE | DIR | -]... [--from CAPTURE | --live]\n"
                                                "       gpuwarden diagnose --list | --explain WHAT",
                                            .groups = {OptionGroup{kDiagnoseOptions}, OptionGroup{kKnowledgeOptions}},
                                            .rest = Rest::operands,
                                            .run = run_diagnose};

}  // namespace gpuwarden::cli
