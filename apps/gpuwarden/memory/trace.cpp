// SPDX-License-Identifier: Apache-2.0
// gpuwarden memory trace: a command with its allocations of GPU memory noted down.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/launch/foreground.hpp"
#include "gpuwarden/memtrace/json.hpp"
#include "gpuwarden/memtrace/recording_run.hpp"
#include "machine.hpp"
#include "memory/actions.hpp"
#include "render/print_json.hpp"

namespace gpuwarden::cli {
namespace {

void tell(const std::vector<memtrace::TraceSummary>& all, const std::string& command) {
  if (all.empty()) {
    warn(fmt::format("no allocation of GPU memory was seen in {}", printable(command)));
    say("hint: it may have used no GPU, or be linked statically or setuid, so that no library can be put before "
        "it\n");
    return;
  }
  for (const memtrace::TraceSummary& one : all) {
    if (!one.problem.empty()) {
      warn(one.problem);
      continue;
    }
    say("gpuwarden: {}: {} allocations, {} frees, at most {} live, {} live at the end\n", one.file.string(),
        one.allocations, one.frees, format_size(one.peak), format_size(one.at_end));
  }
  say("gpuwarden: next: gpuwarden memory replay {} --strategy all\n"
      "gpuwarden: a framework's own pool asks the driver for whole segments. What happens in them shows PyTorch's "
      "torch.cuda.memory._record_memory_history(), or GPUWARDEN_MEMORY_TRACE=FILE with gpuwarden's library for "
      "PyTorch.\n",
      all.front().file.string());
}

}  // namespace

Result<int> memory_trace(Context& context) {
  const std::vector<std::string>& words = context.args.rest;
  if (words.empty())
    return fail(ErrorCode::invalid_argument, "memory trace: no command was given",
                "gpuwarden memory trace -o trace.csv -- python train.py");
  GPUWARDEN_TRY(auto run, memtrace::prepare_traced_run(context.args.text("output").value_or("memory-trace.csv"),
                                                       context.environment));
  GPUWARDEN_TRY(const Machine machine, open_machine(context));
  for (const auto& [name, value] : machine.simulated_environment(run.environment)) run.environment[name] = value;
  // Who presses Ctrl-C means the command; its trace is still summed up.
  const auto ended = launch::run_in_foreground(words, run.environment, memtrace::kTracedPidVariable);
  const int code = ended ? *ended : refuse_program(ended.error());
  const auto written = memtrace::collect_traces(run.part, run.wanted);
  tell(written, words[0]);
  if (context.args.has("json")) print_json(memtrace::to_json(written, code));
  return code;
}

}  // namespace gpuwarden::cli
