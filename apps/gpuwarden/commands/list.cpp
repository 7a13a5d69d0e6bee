// SPDX-License-Identifier: Apache-2.0
// gpuwarden list
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "exit_codes.hpp"
#include "gpuwarden/base/shell.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/doctor/doctor.hpp"
#include "gpuwarden/facts/csv.hpp"
#include "gpuwarden/facts/json_text.hpp"
#include "gpuwarden/facts/use.hpp"
#include "gpuwarden/jobs/on_hosts.hpp"
#include "gpuwarden/lease/json.hpp"
#include "gpuwarden/machine/use_watch.hpp"
#include "gpuwarden/placement/names.hpp"
#include "hosts/list_hosts.hpp"
#include "leftovers.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "render/gpu_table.hpp"
#include "render/print_json.hpp"
#include "shared_options.hpp"

namespace gpuwarden::cli {
namespace {

constexpr auto kListOptions = std::to_array<Option>({
    {"-i,--gpu", OptionKind::list, "ID...", "only these GPUs: indices, UUIDs or their beginnings, PCI bus ids"},
    {"-p,--processes", OptionKind::flag, "", "a table of all processes"},
    {"--watch", OptionKind::optional, "DURATION", "show again and again (1s)"},
    {"--count", OptionKind::text, "N", "--watch: so often"},
    {"--format", OptionKind::list, "csv[,noheader][,nounits]", "comma-separated values, as nvidia-smi writes them",
     "csv noheader nounits"},
    {"--fields", OptionKind::list, "NAME...",
     "with --format: nvidia-smi's --query-gpu names, or any metric; help: all"},
});

/// What nvidia-smi has for it (nvidia-smi --help, R595).
constexpr auto kSmiWords = std::to_array<Elsewhere>({
    {"--query-gpu", "write --format csv --fields memory.used,...: nvidia-smi's names hold; --fields help lists them"},
    {"--query-compute-apps", "write --processes, or --json for all that is known of them"},
    {"--help-query-gpu", "write --fields help"},
    {"-q", "write gpuwarden snapshot: everything, as JSON"},
    {"--query", "write gpuwarden snapshot: everything, as JSON"},
    {"-L", "write gpuwarden select --all: the UUIDs of those that are available"},
    {"--list-gpus", "write gpuwarden select --all: the UUIDs of those that are available"},
    {"--id", "write --gpu ID"},
    {"-l", "write --watch=DURATION"},
    {"--loop", "write --watch=DURATION"},
    {"-lms", "write --watch=DURATION, for example --watch=500ms"},
    {"--loop-ms", "write --watch=DURATION, for example --watch=500ms"},
});

using facts::GpuRecord;

/// Who holds what and what is out of use. A listing does without what cannot be known; of leases it says so only where
/// that took too long, as there are machines on which nobody keeps any.
machine::UseNow read_use(const Machine& machine, const facts::Snapshot& snapshot) {
  machine::UseNow use = machine::use_now(machine, snapshot, system_clock().wall_now());
  if (use.leases_problem && use.leases_problem->code == ErrorCode::timed_out) warn(use.leases_problem->message);
  if (const auto& problem = use.out_of_use_problem) warn(fmt::format("{} ({})", problem->message, problem->hint));
  for (const std::string& warning : use.out_of_use.warnings) warn(warning);
  return use;
}

/// How the values are written, or nothing where a table is wanted.
Result<std::optional<facts::CsvStyle>> csv_style(const Args& args) {
  if (!args.has("format") && !args.has("fields")) return std::nullopt;
  auto style = facts::csv_style_from(args.list("format"));
  if (!style) return std::unexpected(about("format", style.error()));
  if (!*style) return fail(ErrorCode::invalid_argument, "--fields requires --format csv");
  if (args.has("json") || args.has("processes"))
    return fail(ErrorCode::invalid_argument, "--format cannot be used with --json or --processes");
  return style;
}

std::vector<std::string> csv_fields(const Args& args) {
  const auto usual = facts::default_csv_fields();
  return args.has("fields") ? args.list("fields") : std::vector<std::string>(usual.begin(), usual.end());
}

/// The text so that it covers what a terminal shows: each line to its end, and what stood below it.
std::string over_the_last(std::string_view text) {
  std::string frame = "\x1b[H";
  for (const char c : text) frame += c == '\n' ? std::string("\x1b[K\n") : std::string(1, c);
  return frame + "\x1b[J";
}

/// "gpuwarden doctor --from smi.txt", of the files that were named.
std::string doctor_command(const Args& args) {
  std::vector<std::string> words;
  for (const std::string& file : args.list("from")) words.push_back(shell_word(file));
  return "gpuwarden doctor --from " + join(words, " ");
}

/// A capture without GPUs: what the doctor finds first in it, and the command that says what to do.
void hand_over(const Args& args, const facts::Snapshot& snapshot) {
  const doctor::Examination found = doctor::examine(snapshot, knowledge::Knowledge::built_in());
  const bool wrong = !found.findings.empty() && found.findings.front().severity >= doctor::Severity::warning;
  warn(fmt::format("there is no GPU in {}{}; {} {}", printable(snapshot.origin),
                   wrong ? ": " + found.findings.front().title : "", doctor_command(args),
                   wrong ? "says what to do" : "judges what it tells"));
}

/// What the exit code says of the GPUs.
int judged(const Args& args, const Machine& machine, const facts::Snapshot& snapshot,
           std::span<const facts::Disabling> disabled) {
  if (snapshot.problem) {
    const std::string hint = machine.captured() ? doctor_command(args) + " says what to do" : snapshot.problem->hint;
    complain({snapshot.problem->code, snapshot.problem->message, hint});
    return kUnavailable;
  }
  if (machine.captured() && snapshot.gpus.empty()) {
    hand_over(args, snapshot);
    return kNo;
  }
  const bool trouble = std::ranges::any_of(snapshot.gpus, [&](const GpuRecord& record) {
    const auto* word = facts::find_disabling(disabled, facts::identity_of(record));
    return facts::is_in_trouble(record, word != nullptr && word->judged);
  });
  return trouble ? kNo : kFine;
}

/// How a listing is written, and whether others follow it.
struct Listing {
  Style style;
  std::optional<facts::CsvStyle> csv;
  bool again = false;
};

/// Reads, prints; the exit code.
Result<int> show_list(const Context& context, const Machine& machine, const Listing& listing) {
  const auto& [style, csv, again] = listing;
  facts::Snapshot snapshot =
      machine.read({.detail = csv ? probe::Detail::slow : probe::Detail::basic, .holders = true});
  if (machine.captured() && snapshot.origin.empty()) snapshot.origin = machine.capture_name();
  GPUWARDEN_CHECK(placement::keep_named(placement::expand_ranges(context.args.list("gpu")), snapshot));
  // The whole frame goes out at once, over the one before: no flicker, nothing cleared that stays as it is.
  const bool redraws = again && ::isatty(STDOUT_FILENO) == 1 && !csv && !context.args.has("json");
  const machine::UseNow use = read_use(machine, snapshot);
  const auto& [disabled, accepted, warnings] = use.out_of_use;
  if (!machine.captured()) show_leftovers(context, true);
  if (csv) {
    GPUWARDEN_TRY(const std::string text,
                  facts::to_csv(snapshot, csv_fields(context.args), *csv, use.leases, disabled));
    fmt::print("{}", text);
  } else if (context.args.has("json")) {
    const auto json = lease::to_json(snapshot, use.leases, disabled, accepted);
    // One line for each listing, so that a program can take them as they come.
    if (again)
      fmt::print("{}", facts::json_line(json));
    else
      print_json(json);
  } else if (!snapshot.gpus.empty() || !snapshot.problem) {
    const std::string table = context.args.has("processes")
                                  ? process_table(snapshot, style)
                                  : gpu_table(snapshot, use.leases, style, disabled, accepted);
    fmt::print("{}", redraws ? over_the_last(table) : table);
  }
  for (const facts::ReadingGap& gap : snapshot.gaps) warn(gap.problem.message);
  return judged(context.args, machine, snapshot, disabled);
}

Result<int> run_list(Context& context) {
  GPUWARDEN_TRY(const auto style, style_of(context));
  if (jobs::names_hosts(context.args)) return list_hosts(context, style);
  GPUWARDEN_CHECK(check_without_hosts(context.args));
  if (context.args.text("fields") == "help") {
    fmt::print("{}\n", join(facts::csv_field_names(), "\n"));
    return kFine;
  }
  GPUWARDEN_TRY(const auto csv, csv_style(context.args));
  GPUWARDEN_TRY(const bool again, is_watched(context.args));
  GPUWARDEN_TRY(const auto machine, open_machine(context));
  const Listing listing{style, csv, again};
  const auto show = [&] { return show_list(context, machine, listing); };
  return listing.again ? show_again_and_again(context, machine, show) : show();
}

}  // namespace

constinit const Subcommand kListCommand{
    .name = "list",
    .summary = "show the GPUs: use, memory, temperature, power, processes, who holds them",
    .usage = "gpuwarden list [options]",
    .groups = {OptionGroup{kListOptions}, OptionGroup{kFromOptions}, kHostsGroup},
    .rest = Rest::none,
    .details =
        "Every GPU has a line: how busy it is, its memory, temperature and power, and "
        "who holds it. Below a GPU in trouble stands what is wrong and what to do; the "
        "exit code is then 1.",
    .elsewhere = kSmiWords,
    .run = run_list};

}  // namespace gpuwarden::cli
