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

void show_progress(std::string_view what) { say("gpuwarden: {} ...\n", printable(what)); }

}  // namespace

Result<burn_in::Options> read_burn_in_options(const Context& context, const facts::Snapshot& snapshot,
                                              const std::string& seconds_key) {
  burn_in::Options options = burn_in::options_from(context.environment, snapshot);
  GPUWARDEN_TRY(const auto seconds, count_option(context.args, seconds_key, kLongestTest));
  if (seconds) options.deadline = std::chrono::seconds(std::max(*seconds, 1U));
  options.force = context.args.has("force");
  return options;
}

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
  if (!args.has("deep")) {
    for (const auto* key : {"deep-seconds", "deep-memory", "gpus", "force"}) {
      if (args.has(key))
        return fail(ErrorCode::invalid_argument, fmt::format("--{} requires --deep", key),
                    "gpuwarden doctor --deep ...");
    }
    return std::nullopt;
  }
  GPUWARDEN_TRY(burn_in::Options options, read_burn_in_options(context, snapshot, "deep-seconds"));
  GPUWARDEN_TRY(const auto percent, count_option(args, "deep-memory", 95));
  if (percent) options.memory_share = *percent / 100.0;
  return test_gpus(context, machine, snapshot, knowledge, std::move(options));
}

}  // namespace gpuwarden::cli
