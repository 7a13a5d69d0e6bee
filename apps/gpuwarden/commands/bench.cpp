// SPDX-License-Identifier: Apache-2.0
// gpuwarden bench
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "burn_in.hpp"
#include "exit_codes.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/burn_in/on_machine.hpp"
#include "gpuwarden/burn_in/verdict.hpp"
#include "gpuwarden/facts/burn_in_json.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "render/print_json.hpp"
#include "shared_options.hpp"

namespace gpuwarden::cli {
namespace {

constexpr auto kBenchOptions = std::to_array<Option>({
    {"--gpus", OptionKind::list, "ID...", "only these GPUs"},
    {"--seconds", OptionKind::text, "N", "how long each GPU may take (30; about 12 are needed)"},
    {"--no-pairs", OptionKind::flag, "", "leave out the copies from GPU to GPU"},
    {"--force", OptionKind::flag, "", "measure GPUs that others use, too: their work slows the figures"},
});

int exit_code_of(burn_in::Verdict verdict) {
  if (verdict == burn_in::Verdict::not_possible) return kUnavailable;
  return verdict == burn_in::Verdict::sound ? kFine : kNo;
}

Result<int> run_bench(Context& context) {
  const Args& args = context.args;
  if (args.rest != std::vector<std::string>{"gpu"})
    return fail(ErrorCode::invalid_argument,
                args.rest.empty() ? "gpuwarden bench: of what?"
                                  : fmt::format("gpuwarden bench: there is no bench '{}'", printable(args.rest.back())),
                "gpuwarden bench gpu");
  GPUWARDEN_TRY(const auto style, style_of(context));
  GPUWARDEN_TRY(const auto knowledge, open_knowledge(context));
  GPUWARDEN_TRY(const Machine machine, open_machine(context));
  const facts::Snapshot snapshot = machine.read({.detail = probe::Detail::full, .links = true});
  GPUWARDEN_TRY(burn_in::Options options, read_burn_in_options(context, snapshot, "seconds"));
  options.memory_share = 0;
  options.all_types = true;
  options.pairs = !args.has("no-pairs");
  GPUWARDEN_TRY(const auto run, test_gpus(context, machine, snapshot, knowledge, std::move(options)));
  if (args.has("json"))
    print_json(facts::bench_to_json(run, machine.simulated()));
  else
    fmt::print("{}", burn_in_text("What the GPUs reach", run, style).substr(1));
  return exit_code_of(burn_in::verdict_of(run));
}

}  // namespace

constinit const Subcommand kBenchCommand{
    .name = "bench",
    .summary = "measure GPUs: memory, copies, matrix products, GPU to GPU; beside what is published",
    .usage = "gpuwarden bench gpu [options]",
    .groups = {OptionGroup{kBenchOptions}, OptionGroup{kKnowledgeOptions}},
    .rest = Rest::operands,
    .actions = "gpu",
    .details =
        "Needs a CUDA driver and nothing else; GPUs that others use or have reserved are left alone. The exit code is "
        "1 where a GPU falls short of what a sound one reaches.",
    .run = run_bench};

}  // namespace gpuwarden::cli
