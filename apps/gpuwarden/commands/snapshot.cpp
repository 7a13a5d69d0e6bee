// SPDX-License-Identifier: Apache-2.0
// gpuwarden snapshot
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "exit_codes.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/facts/json_text.hpp"
#include "machine.hpp"
#include "shared_options.hpp"

namespace gpuwarden::cli {
namespace {

constexpr auto kSnapshotOptions = std::to_array<Option>({
    {"-o,--output", OptionKind::text, "FILE", "write there instead of to standard output"},
});

Result<int> run_snapshot(Context& context) {
  GPUWARDEN_TRY(const auto machine, open_machine(context));
  const facts::Snapshot snapshot = read_everything(
      context, machine, {.detail = probe::Detail::slow, .links = true, .cuda_order = true, .holders = true});
  const std::string text = facts::json_text(facts::to_json(snapshot));
  if (const auto file = context.args.text("output")) {
    GPUWARDEN_CHECK(write_output(*file, text));
  } else {
    fmt::print("{}", text);
  }
  // A driver that does not answer is a fact like others; the caller still hears of it.
  if (snapshot.problem) {
    complain(*snapshot.problem);
    return kUnavailable;
  }
  return kFine;
}

}  // namespace

constinit const Subcommand kSnapshotCommand{
    .name = "snapshot",
    .summary = "write everything that is known about the machine's GPUs as JSON, for --from elsewhere",
    .usage = "gpuwarden snapshot [-o FILE] [--from FILE]",
    .groups = {OptionGroup{kSnapshotOptions}, OptionGroup{kFromManyOptions}},
    .rest = Rest::none,
    .run = run_snapshot};

}  // namespace gpuwarden::cli
