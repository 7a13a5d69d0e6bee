// SPDX-License-Identifier: Apache-2.0
// gpuwarden diagnose: from the logs of a failure to its cause.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/diagnosis/causes.hpp"
#include "gpuwarden/logs/diagnose.hpp"
#include "gpuwarden/logs/explain.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "render/causes_text.hpp"
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
Result<std::optional<facts::Snapshot>> given_machine(Context& context) {
  const Args& args = context.args;
  if (!args.has("from") && !args.has("live") && !args.has("simulate")) return std::nullopt;
  GPUWARDEN_TRY(const Machine machine, open_machine(context));
  return read_everything(context, machine, {.detail = probe::Detail::full, .holders = true});
}

Result<int> diagnose_logs(Context& context) {
  constexpr std::uint32_t kMost = 1000;
  GPUWARDEN_TRY(const auto min_confidence, read_option(context.args, "min-confidence", logs::parse_confidence));
  GPUWARDEN_TRY(const auto top, count_option(context.args, "top", kMost));
  if (top == 0) return fail(ErrorCode::invalid_argument, "--top must be at least 1");
  GPUWARDEN_TRY(const auto operands, operands_of(context.args));
  GPUWARDEN_TRY(const Style style, style_of(context));
  GPUWARDEN_TRY(const auto given, given_machine(context));
  GPUWARDEN_TRY(const knowledge::Knowledge knowledge, open_knowledge(context));
  logs::Report report = logs::diagnose(operands, {given ? &*given : nullptr, min_confidence, &knowledge});
  for (const Error& problem : report.logs.problems) complain(problem);
  for (const std::string& remark : logs::remarks_on(report.logs)) warn(remark);
  if (const auto nothing = logs::nothing_read(report.logs)) complain(*nothing);
  auto& causes = report.diagnosis.causes;
  const bool failed = logs::shows_failure(report);
  const bool all = context.args.has("all");
  if (context.args.has("json")) {
    if (top && causes.size() > *top) causes.resize(*top);
    print_json(logs::to_json(report));
  } else if (!report.logs.files.empty()) {
    const DiagnosisView view{all ? causes.size() : top.value_or(DiagnosisView{}.causes), all};
    fmt::print("{}", diagnosis_text(report, view, style));
  }
  if (!report.logs.problems.empty() || report.logs.files.empty()) return kWrongUsage;
  return failed ? kNo : kFine;
}

/// A cause, an Xid, or what a line of a log means. The answer "no" where nothing is known about it.
Result<int> explain(const Context& context) {
  const std::string words = context.args.text("explain").value_or("") + " " + join(context.args.rest, " ");
  GPUWARDEN_TRY(const knowledge::Knowledge knowledge, open_knowledge(context));
  GPUWARDEN_TRY(const Style style, style_of(context));
  const auto known = logs::explain(words, knowledge);
  if (!known) return std::unexpected(about("explain", known.error()));
  if (!known->found() && !known->xid && !context.args.has("json"))
    return fail(ErrorCode::unsatisfied, fmt::format("nothing is known about '{}'", printable(known->question)),
                known->lookup.nearest.empty() ? "gpuwarden diagnose --list shows every cause"
                                              : fmt::format("did you mean '{}'?", known->lookup.nearest));
  print_answer(context, logs::to_json(*known), explanation_text(*known, context.args.has("all"), style));
  return known->found() ? kFine : kNo;
}

Result<int> run_diagnose(Context& context) {
  GPUWARDEN_CHECK(check_options(context.args));
  if (context.args.has("explain")) return explain(context);
  if (!context.args.has("list")) return diagnose_logs(context);
  print_answer(context, diagnosis::causes_json(), causes_text());
  return kFine;
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
