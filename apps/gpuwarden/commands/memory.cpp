// SPDX-License-Identifier: Apache-2.0
// gpuwarden memory: who holds what on the GPUs, and what allocators make of recorded workloads.
#include <fmt/format.h>

#include <array>
#include <string_view>

#include "gpuwarden/base/text.hpp"
#include "memory/actions.hpp"
#include "shared_options.hpp"

namespace gpuwarden::cli {
namespace {

constexpr auto kMemoryOptions = std::to_array<Option>({
    {"-i,--gpu", OptionKind::list, "ID...", "only these GPUs: indices, UUIDs or their beginnings, PCI bus ids", "",
     "status"},
    {"--watch", OptionKind::optional, "DURATION", "read and show again and again (1s)", "", "status"},
    {"--count", OptionKind::text, "N", "--watch: so often", "", "status"},
    {"-o,--output", OptionKind::text, "FILE", "trace: write there (memory-trace.csv)", "", "trace"},
    {"--strategy", OptionKind::text, "NAME|all",
     "replay: balanced (default), steady, greedy, consolidated, fragmentation_aware",
     "balanced steady greedy consolidated fragmentation_aware all", "replay"},
    {"--device-memory", OptionKind::text, "SIZE", "replay: memory of the simulated device (80GiB)", "", "replay"},
    {"--repeat", OptionKind::text, "N", "replay: run the trace so often, as steps of one program (1)", "", "replay"},
    {"--tokens", OptionKind::text, "T", "replay: length of the sequence, for traces whose sizes depend on it", "",
     "replay"},
    {"--random-lengths", OptionKind::text, "A..B", "replay: a random length for each step instead", "", "replay"},
    {"--steps", OptionKind::text, "N", "replay: how many random lengths (60)", "", "replay"},
    {"--seed", OptionKind::text, "N", "replay: other random lengths (1)", "", "replay"},
    {"--device", OptionKind::text, "N", "replay: whose events, of a recording with several devices", "", "replay"},
    {"--chart,--timeline", OptionKind::text, "FILE.html", "replay: write a page with memory over time and every block",
     "", "replay"},
    {"--snapshot", OptionKind::text, "FILE",
     "replay: write a PyTorch snapshot of the pool: .pickle for its viewer, .json", "", "replay"},
});

constexpr auto kActions = std::to_array<Action>({
    {"status", memory_status},
    {"replay", memory_replay, kManyOperands},
    {"trace", memory_trace, kManyOperands},
});

}  // namespace

constinit const Subcommand kMemoryCommand{
    .name = "memory",
    .summary = "who holds how much GPU memory; note down a program's allocations; replay them through the pool",
    .usage =
        "gpuwarden memory [--watch] [-i GPU]\n"
        "       gpuwarden memory trace [-o FILE] -- COMMAND...\n"
        "       gpuwarden memory replay TRACE [--strategy NAME|all] [options]",
    .groups = {OptionGroup{kMemoryOptions}, OptionGroup{kFromOptions}},
    .rest = Rest::operands,
    .actions = "status replay trace",
    .run = [](Context& context) { return run_action(context, kActions, "status"); }};

}  // namespace gpuwarden::cli
