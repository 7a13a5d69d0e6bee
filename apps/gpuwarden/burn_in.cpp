// SPDX-License-Identifier: Apache-2.0
#include "burn_in.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "gpuwarden/base/text.hpp"
#include "gpuwarden/burn_in/on_machine.hpp"
#include "gpuwarden/launch/job.hpp"
#include "options.hpp"

namespace gpuwarden::cli {
namespace {

constexpr std::uint32_t kLongestTest = 86'400;

Result<void> need_burn_in(const Args& args) {
  for (const auto* key : {"deep-seconds", "deep-memory", "gpus", "force"}) {
    if (args.has(key) && !args.has("deep"))
      return fail(ErrorCode::invalid_argument, fmt::format("--{} requires --deep", key), "gpuwarden doctor --deep ...");
  }
  return {};
}

Result<void> read_options(const Args& args, burn_in::Options& options) {
  GPUWARDEN_TRY(const auto seconds, count_option(args, "deep-seconds", kLongestTest));
  if (seconds) options.deadline = std::chrono::seconds(std::max(*seconds, 1U));
  GPUWARDEN_TRY(const auto percent, count_option(args, "deep-memory", 95));
  if (percent) options.memory_share = *percent / 100.0;
  options.force = args.has("force");
  return {};
}

void show_progress(std::string_view what) { say("gpuwarden: {} ...\n", printable(what)); }

}  // namespace

Result<facts::BurnInRun> test_gpus(const Context& context, const Machine& machine, const facts::Snapshot& snapshot,
                                   const knowledge::Knowledge& knowledge, burn_in::Options options) {
  burn_in::MachineRequest request{
      .gpus = {}, .run_id = launch::make_run_id(), .command = fmt::format("gpuwarden {}", context.command->name)};
  if (::isatty(STDERR_FILENO) != 0) request.progress = show_progress;
  for (const std::string& name : context.args.list("gpus")) request.gpus.push_back({name});
  auto run = burn_in::run_on(machine, snapshot, knowledge, request, std::move(options));
  if (!run && !request.gpus.empty()) run.error().message.insert(0, "--gpus: ");
  return run;
}

Result<std::optional<facts::BurnInRun>> run_burn_in(const Context& context, const Machine& machine,
                                                    const facts::Snapshot& snapshot,
                                                    const knowledge::Knowledge& knowledge) {
  const Args& args = context.args;
  GPUWARDEN_CHECK(need_burn_in(args));
  if (!args.has("deep")) return std::nullopt;
  burn_in::Options options = burn_in::options_from(context.environment, snapshot);
  GPUWARDEN_CHECK(read_options(args, options));
  GPUWARDEN_TRY(auto run, test_gpus(context, machine, snapshot, knowledge, std::move(options)));
  return std::optional(std::move(run));
}

}  // namespace gpuwarden::cli
