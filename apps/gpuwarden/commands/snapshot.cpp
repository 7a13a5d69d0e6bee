// SPDX-License-Identifier: Apache-2.0
// gpuwarden snapshot
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "exit_codes.hpp"
#include "gpuwarden/base/file.hpp"
#include "gpuwarden/facts/json.hpp"
#include "gpuwarden/facts/json_text.hpp"
#include "machine.hpp"

namespace gpuwarden::cli {

int run_snapshot(Context& context) {
  const auto machine = open_machine(context);
  if (!machine) return complain(machine.error());
  const facts::Snapshot snapshot = read_everything(
      context, *machine, {.detail = probe::Detail::slow, .links = true, .cuda_order = true, .holders = true});
  const std::string text = facts::json_text(facts::to_json(snapshot));
  if (const auto file = context.args.text("output")) {
    if (const auto written = write_file_atomically(*file, text); !written) return complain(written.error());
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

}  // namespace gpuwarden::cli
