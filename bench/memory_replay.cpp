// SPDX-License-Identifier: Apache-2.0
// Traces replayed through our pool and, beside it in the same run, through re-implementations of others' policies.
// Devices only count, so that what is timed is the allocators' own work. Rounds are interleaved; the best one counts.
//   memory_replay [--rounds N] [--steps N] [--only CONTENDER] [--workload NAME] [TRACE-DIRECTORY]
// --only and --workload take a part of a name; without a directory of traces only the random workloads run.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/memory/host_upstreams.hpp"
#include "gpuwarden/memory/pool.hpp"
#include "memory/bfc_rules.hpp"
#include "memory/pytorch_rules.hpp"
#include "memory/rmm_rules.hpp"
#include "memory/trace.hpp"

namespace {

using namespace gpuwarden;
using namespace gpuwarden::bench;

constexpr std::uint64_t kDevice = std::uint64_t{80} << 30U;

struct Outcome {
  double nanoseconds = 0;  ///< an operation
  std::uint64_t reserved = 0;
  std::uint64_t calls = 0;
  std::uint64_t late_calls = 0;  ///< in the last third of the trace
  std::string error;
};

/// Runs the trace; `allocate(slot, size, stream)` and `free(slot, stream)`. Nanoseconds an operation.
template <class Allocate, class Free>
double play(std::span<const Operation> operations, Allocate&& allocate, Free&& free) {
  const auto start = std::chrono::steady_clock::now();
  for (const Operation& operation : operations) {
    if (operation.size != 0) {
      allocate(operation.slot, operation.size, operation.stream);
    } else {
      free(operation.slot, operation.stream);
    }
  }
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
  return taken.count() / static_cast<double>(operations.size());
}

/// The trace in two parts: the calls of the second are those of a workload that repeats itself.
template <class Allocate, class Free, class Calls>
void play_parts(const Trace& trace, Outcome& outcome, Allocate&& allocate, Free&& free, Calls&& calls) {
  const std::span all(trace.operations);
  const std::size_t part = all.size() / 3 * 2;
  const double first = play(all.first(part), allocate, free);
  const std::uint64_t before = calls();
  const double second = play(all.subspan(part), allocate, free);
  outcome.calls = calls();
  outcome.late_calls = outcome.calls - before;
  outcome.nanoseconds = (first * static_cast<double>(part) + second * static_cast<double>(all.size() - part)) /
                        static_cast<double>(all.size());
}

struct Slot {
  std::uint64_t address = 0;
  std::uint64_t size = 0;
};

template <class Peer, class... Arguments>
Outcome play_peer(const Trace& trace, Arguments... arguments) {
  CountingDevice device(kDevice);
  Peer peer(device, arguments...);
  std::vector<Slot> slots(trace.slots);
  Outcome outcome;
  play_parts(
      trace, outcome,
      [&](std::uint32_t slot, std::uint64_t size, std::uint32_t stream) {
        slots[slot] = {peer.allocate(size, stream), size};
      },
      [&](std::uint32_t slot, std::uint32_t stream) { peer.free(slots[slot].address, slots[slot].size, stream); },
      [&] { return device.driver.counts().all(); });
  outcome.reserved = device.peak_reserved;
  return outcome;
}

Outcome play_pool(const Trace& trace, const memory::Strategy& strategy) {
  memory::ArithmeticUpstream device{Bytes(kDevice)};
  const auto pool = memory::Pool::create(device, {.strategy = &strategy}).value();
  std::vector<memory::DeviceAddress> slots(trace.slots);
  Outcome outcome;
  play_parts(
      trace, outcome,
      [&](std::uint32_t slot, std::uint64_t size, std::uint32_t stream) {
        slots[slot] = pool->allocate(Bytes(size), memory::StreamId{stream}).value();
      },
      [&](std::uint32_t slot, std::uint32_t stream) {
        if (!pool->deallocate(slots[slot], memory::StreamId{stream})) std::abort();
      },
      [&] { return pool->status().upstream_calls; });
  outcome.reserved = pool->status().peak_reserved.value;
  if (const auto checked = pool->check(); !checked) outcome.error = checked.error().message;
  return outcome;
}

Outcome play_handles(const Trace& trace, const memory::Strategy& strategy) {
  memory::ArithmeticUpstream device{Bytes(kDevice)};
  const auto pool = memory::Pool::create(device, {.strategy = &strategy}).value();
  std::vector<memory::BlockHandle> slots(trace.slots);
  Outcome outcome;
  play_parts(
      trace, outcome,
      [&](std::uint32_t slot, std::uint64_t size, std::uint32_t stream) {
        slots[slot] = pool->allocate_block(Bytes(size), memory::StreamId{stream}).value();
      },
      [&](std::uint32_t slot, std::uint32_t stream) {
        if (!pool->deallocate_block(slots[slot], memory::StreamId{stream})) std::abort();
      },
      [&] { return pool->status().upstream_calls; });
  outcome.reserved = pool->status().peak_reserved.value;
  return outcome;
}

struct Contender {
  std::string name;
  std::function<Outcome(const Trace&)> run;
};

std::vector<Contender> contenders() {
  std::vector<Contender> all;
  for (const auto& strategy : memory::strategies())
    all.push_back({fmt::format("gpuwarden {}", strategy.name),
                   [&strategy](const Trace& trace) { return play_pool(trace, strategy); }});
  all.push_back({"gpuwarden balanced, handles",
                 [](const Trace& trace) { return play_handles(trace, memory::strategies().front()); }});
  all.push_back({"PyTorch rules", [](const Trace& trace) { return play_peer<PyTorchRules>(trace, false); }});
  all.push_back({"PyTorch rules, expandable", [](const Trace& trace) { return play_peer<PyTorchRules>(trace, true); }});
  all.push_back({"BFC rules", [](const Trace& trace) { return play_peer<BfcRules>(trace); }});
  all.push_back({"RMM pool rules", [](const Trace& trace) { return play_peer<RmmPoolRules>(trace); }});
  return all;
}

void compare(const Trace& trace, unsigned rounds, std::string_view only) {
  fmt::print("\n{}: {} operations, peak live {:.1f} MiB\n", trace.name, trace.operations.size(),
             static_cast<double>(trace.peak_live) / kMiB);
  fmt::print("  {:<32}{:>9}{:>14}{:>8}{:>9}{:>12}\n", "", "ns/op", "reserved MiB", "ratio", "calls", "last third");
  const auto all = contenders();
  std::vector<Outcome> best(all.size());
  for (unsigned round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!all[i].name.contains(only)) continue;
      try {
        const Outcome outcome = all[i].run(trace);
        if (round == 0 || outcome.nanoseconds < best[i].nanoseconds) best[i] = outcome;
      } catch (const OutOfMemory& error) {
        best[i].error = error.what();
      }
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].name.contains(only)) continue;
    const Outcome& one = best[i];
    const double ratio =
        one.reserved == 0 ? 0 : static_cast<double>(trace.peak_live) / static_cast<double>(one.reserved);
    fmt::print("  {:<32}{:>9.1f}{:>14.1f}{:>8.3f}{:>9}{:>12}  {}\n", all[i].name, one.nanoseconds,
               static_cast<double>(one.reserved) / kMiB, ratio, one.calls, one.late_calls, one.error);
  }
}

struct Options {
  unsigned rounds = 5;
  unsigned steps = 60;
  std::string only;
  std::string workload;
  std::filesystem::path directory = "../shared/corpus/memtraces";
};

void compare_files(const Options& options) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(options.directory)) {
    const std::string name = entry.path().filename();
    if (entry.path().extension() == ".csv" && name.contains(options.workload)) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  for (const auto& file : files) {
    if (!file.filename().string().starts_with("symbolic")) {
      compare(read_trace(file, 1), options.rounds, options.only);
      Trace repeated = read_trace(file, 6);
      repeated.name += " x 6";
      compare(repeated, options.rounds, options.only);
      continue;
    }
    for (const unsigned seed : {1U, 2U, 3U}) {
      Trace trace = read_symbolic(file, random_lengths(options.steps, seed));
      trace.name += fmt::format(", {} steps, random lengths 128 to 1024, seed {}", options.steps, seed);
      compare(trace, std::min(options.rounds, 3U), options.only);
    }
  }
}

void compare_random(const Options& options) {
  for (const unsigned n : {1000U, 10000U, 100000U}) {
    for (const std::uint64_t most : {1U, 4U, 64U, 256U, 1024U, 4096U}) {
      Trace trace = random_allocations(n, most * kMiB);
      if (trace.name.contains(options.workload)) compare(trace, std::min(options.rounds, 3U), options.only);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const bool has_value = i + 1 < argc;
    if (argument == "--rounds" && has_value) {
      options.rounds = static_cast<unsigned>(std::stoul(argv[++i]));
    } else if (argument == "--steps" && has_value) {
      options.steps = static_cast<unsigned>(std::stoul(argv[++i]));
    } else if (argument == "--only" && has_value) {
      options.only = argv[++i];
    } else if (argument == "--workload" && has_value) {
      options.workload = argv[++i];
    } else {
      options.directory = argument;
    }
  }
  if (std::filesystem::is_directory(options.directory)) compare_files(options);
  compare_random(options);
  return 0;
}
