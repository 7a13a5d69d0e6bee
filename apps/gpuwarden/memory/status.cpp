// SPDX-License-Identifier: Apache-2.0
// gpuwarden memory without an action: who holds how much.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/facts/json_text.hpp"
#include "gpuwarden/placement/names.hpp"
#include "gpuwarden/pools/memory_status.hpp"
#include "machine.hpp"
#include "memory/actions.hpp"
#include "options.hpp"
#include "render/memory_table.hpp"

namespace gpuwarden::cli {
namespace {

/// Reads, prints; the exit code.
Result<int> show(const Context& context, const Machine& machine, const Style& style, bool again) {
  facts::Snapshot snapshot = machine.read({.holders = true});
  if (machine.captured() && snapshot.origin.empty()) snapshot.origin = machine.capture_name();
  GPUWARDEN_CHECK(placement::keep_named(placement::expand_ranges(context.args.list("gpu")), snapshot));
  pools::Pools pools;
  if (!machine.captured()) pools = pools::published_pools_of(machine.options().environment);
  if (context.args.has("json")) {
    const auto json = pools::to_json({snapshot, pools});
    // One line for each reading, so that a program can take them as they come.
    fmt::print("{}", again ? facts::json_line(json) : facts::json_text(json));
  } else if (!snapshot.gpus.empty() || !snapshot.problem) {
    if (again && ::isatty(STDOUT_FILENO) == 1) fmt::print("\x1b[H\x1b[2J");
    fmt::print("{}", memory_table(snapshot, pools, style));
  }
  std::fflush(stdout);
  if (!snapshot.problem) return kFine;
  complain(*snapshot.problem);
  return kUnavailable;
}

}  // namespace

Result<int> memory_status(Context& context) {
  GPUWARDEN_TRY(const Style style, style_of(context));
  GPUWARDEN_TRY(const bool again, is_watched(context.args));
  GPUWARDEN_TRY(const Machine machine, open_machine(context));
  const auto show_once = [&] { return show(context, machine, style, again); };
  return again ? show_again_and_again(context, machine, show_once) : show_once();
}

}  // namespace gpuwarden::cli
