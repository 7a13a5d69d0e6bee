// SPDX-License-Identifier: Apache-2.0
// gpuwarden list
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "acquire.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/csv.hpp"
#include "gpuwarden/lease/json.hpp"
#include "gpuwarden/placement/names.hpp"
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
    {"--format", OptionKind::list, "csv[,noheader][,nounits]", "comma-separated values, as nvidia-smi writes them",
     "csv noheader nounits"},
    {"--fields", OptionKind::list, "NAME...",
     "with --format: nvidia-smi's --query-gpu names, or any metric; help: all"},
});

using facts::GpuRecord;

/// A listing does without leases where nothing can be known of them.
std::vector<facts::Lease> read_leases(const Machine& machine, const facts::Snapshot& snapshot) {
  if (machine.captured()) return {};
  const auto store = machine.open_leases("", "");
  if (!store) return {};
  lease::Situation situation = store->inspect(machine.lease_devices(snapshot));
  if (situation.problem && situation.problem->code == ErrorCode::timed_out) warn(situation.problem->message);
  return std::move(situation.leases);
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

int show_fields() {
  fmt::print("{}\n", join(facts::csv_field_names(), "\n"));
  return kFine;
}

/// What the exit code says of the GPUs.
int judged(const Machine& machine, const facts::Snapshot& snapshot) {
  if (snapshot.problem) {
    complain(*snapshot.problem);
    return kUnavailable;
  }
  if (machine.captured() && snapshot.gpus.empty()) {
    warn(fmt::format("there is no GPU in {}", printable(snapshot.origin)));
    return kNo;
  }
  const bool trouble = std::ranges::any_of(snapshot.gpus, [](const GpuRecord& record) {
    // Other makers' GPUs are told of; what state they are in is no trouble of this program's users.
    if (record.gpu.vendor != "NVIDIA") return false;
    return !facts::is_usable(record) && record.state != facts::GpuState::suspended;
  });
  return trouble ? kNo : kFine;
}

Result<int> run_list(Context& context) {
  GPUWARDEN_TRY(const auto style, style_of(context));
  if (context.args.text("fields") == "help") return show_fields();
  GPUWARDEN_TRY(const auto csv, csv_style(context.args));
  GPUWARDEN_TRY(const auto machine, open_machine(context));
  facts::Snapshot snapshot =
      machine.read({.detail = csv ? probe::Detail::slow : probe::Detail::basic, .holders = true});
  if (machine.captured() && snapshot.origin.empty()) snapshot.origin = machine.capture_name();
  GPUWARDEN_CHECK(placement::keep_named(placement::expand_ranges(context.args.list("gpu")), snapshot));
  const auto leases = read_leases(machine, snapshot);
  if (!machine.captured()) show_leftovers(context, true);
  if (csv) {
    GPUWARDEN_TRY(const std::string text, facts::to_csv(snapshot, csv_fields(context.args), *csv, leases));
    fmt::print("{}", text);
  } else if (context.args.has("json")) {
    print_json(lease::to_json(snapshot, leases));
  } else if (!snapshot.gpus.empty() || !snapshot.problem) {
    fmt::print("{}",
               context.args.has("processes") ? process_table(snapshot, style) : gpu_table(snapshot, leases, style));
  }
  for (const facts::ReadingGap& gap : snapshot.gaps) warn(gap.problem.message);
  return judged(machine, snapshot);
}

}  // namespace

constinit const Subcommand kListCommand{
    .name = "list",
    .summary = "show the GPUs: use, memory, temperature, power, processes, who holds them",
    .usage = "gpuwarden list [options]",
    .groups = {OptionGroup{kListOptions}, OptionGroup{kFromOptions}},
    .rest = Rest::none,
    .details =
        "Every GPU has a line: how busy it is, its memory, temperature and power, and "
        "who holds it. Below a GPU in trouble stands what is wrong and what to do; the "
        "exit code is then 1.",
    .run = run_list};

}  // namespace gpuwarden::cli
