// SPDX-License-Identifier: Apache-2.0
// gpuwarden diagnose: from the logs of a failure to its cause.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "diagnose/explain.hpp"
#include "diagnose/read_logs.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/diagnosis/diagnosis.hpp"
#include "gpuwarden/diagnosis/json.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "render/diagnosis_text.hpp"

namespace gpuwarden::cli {
namespace {

using diagnosis::Cause;
using diagnosis::Diagnosis;
using facts::Snapshot;
using Json = nlohmann::json;

/// What the user wants to see.
struct Wishes {
  /// A guess on the threshold of what is said at all is no alarm.
  double min_confidence = 0.3;
  std::optional<std::uint32_t> top;
  bool all = false;
};

Result<Wishes> read_wishes(const Args& args) {
  Wishes wishes{.all = args.has("all")};
  if (const auto text = args.text("min-confidence")) {
    const auto number = parse_number(*text);
    if (!number || *number < 0 || *number > 1)
      return fail(ErrorCode::invalid_argument, fmt::format("--min-confidence: '{}' is no confidence", printable(*text)),
                  "a number from 0 to 1, for example 0.5");
    wishes.min_confidence = *number;
  }
  constexpr std::uint32_t kMost = 1000;
  GPUWARDEN_TRY(wishes.top, count_option(args, "top", kMost));
  if (wishes.top == 0) return fail(ErrorCode::invalid_argument, "--top: at least one cause is shown");
  return wishes;
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
    return fail(ErrorCode::invalid_argument, "standard input cannot be the log and the capture at once",
                "name a file for one of them");
  if (args.has("list") && !args.rest.empty())
    return fail(ErrorCode::invalid_argument, fmt::format("--list takes no operand '{}'", printable(args.rest[0])),
                "gpuwarden diagnose FILE reads a log, --explain WHAT looks something up");
  return {};
}

/// The operands; standard input where there are none and something is piped in.
Result<std::vector<std::string>> operands_of(const Args& args) {
  if (!args.rest.empty()) return args.rest;
  if (::isatty(STDIN_FILENO) == 1)
    return fail(
        ErrorCode::invalid_argument, "no log is named",
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

/// "SIMULATED h100x8", "FROM smi.txt: smi_table", "node1".
std::string name_of(const Snapshot& machine) {
  if (machine.simulated) return "SIMULATED " + machine.fleet;
  if (!machine.origin.empty()) return "FROM " + machine.origin;
  return machine.host.empty() ? "this machine" : machine.host;
}

/// Takes out what is less sure than wished; how many causes that were.
std::size_t drop_doubtful(Diagnosis& diagnosis, double least) {
  return std::erase_if(diagnosis.causes, [&](const Cause& cause) { return cause.confidence < least; });
}

void print_json(const Diagnosis& diagnosis, const Logs& logs, const std::string& machine, bool simulated) {
  Json json = diagnosis::to_json(diagnosis);
  json["simulated"] = simulated;
  json["machine"] = machine.empty() ? Json() : Json(machine);
  json["files"] = Json::array();
  for (const LogRead& file : logs.files)
    json["files"].push_back({{"file", file.name},
                             {"rank", file.rank ? Json(*file.rank) : Json()},
                             {"lines", file.lines},
                             {"bytes", file.bytes}});
  json["not_read"] = Json::array();
  for (const auto* errors : {&logs.problems, &logs.skipped}) {
    for (const Error& error : *errors) json["not_read"].push_back(error.message);
  }
  json["events_dropped"] = logs.reading.dropped;
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

/// "box/a.bin holds no text", "a.bin holds no text, b.bin holds no text, and 7 more".
std::string named(const std::vector<Error>& skipped) {
  constexpr std::size_t kNamed = 3;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < std::min(kNamed, skipped.size()); ++i) parts.push_back(skipped[i].message);
  if (skipped.size() > kNamed) parts.push_back(fmt::format("and {} more", skipped.size() - kNamed));
  return join(parts, ", ");
}

void tell_what_was_not_read(const Logs& logs) {
  for (const Error& problem : logs.problems) complain(problem);
  for (const LogRead& file : logs.files) {
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
  GPUWARDEN_TRY(const Wishes wishes, read_wishes(context.args));
  GPUWARDEN_TRY(const auto operands, operands_of(context.args));
  GPUWARDEN_TRY(const Style style, style_of(context));
  GPUWARDEN_TRY(const auto given, given_machine(context));
  LogFiles files = find_logs(operands);
  Logs logs = read_logs(files);
  logs.problems.insert(logs.problems.begin(), files.problems.begin(), files.problems.end());
  tell_what_was_not_read(logs);
  const Snapshot* report = logs.machine ? &logs.machine->snapshot : nullptr;
  Diagnosis found = diagnosis::diagnose(logs.reading, given ? &*given : nullptr, report);
  // What is simulated says so, even where only a bundle among the logs is.
  const Snapshot* machine = given ? &*given : report != nullptr && report->simulated ? report : nullptr;
  const std::string name = machine != nullptr ? name_of(*machine) : "";
  const std::size_t doubtful = drop_doubtful(found, wishes.min_confidence);
  const bool failed = !found.causes.empty() || found.only_consequences;
  const std::size_t most = wishes.all ? found.causes.size() : wishes.top.value_or(DiagnosisView{}.causes);
  if (context.args.has("json")) {
    if (wishes.top && found.causes.size() > *wishes.top) found.causes.resize(*wishes.top);
    print_json(found, logs, name, machine != nullptr && machine->simulated);
  } else if (!logs.files.empty()) {
    fmt::print("{}", diagnosis_text(found, {logs.files.size(), name, most, wishes.all, doubtful}, style));
  }
  if (!logs.problems.empty() || logs.files.empty()) return kWrongUsage;
  return failed ? kNo : kFine;
}

Result<int> answer(Context& context) {
  GPUWARDEN_CHECK(check_options(context.args));
  if (context.args.has("list")) return list_causes(context);
  if (context.args.has("explain")) return explain(context);
  return diagnose_logs(context);
}

}  // namespace

int run_diagnose(Context& context) {
  const auto code = answer(context);
  return code ? *code : complain(code.error());
}

}  // namespace gpuwarden::cli
