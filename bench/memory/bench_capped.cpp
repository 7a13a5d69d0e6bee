// SPDX-License-Identifier: Apache-2.0
// A device just large enough: the smallest from which on a trace completes; then how long single operations take near
// that size, with driver calls at the simulated driver's prices and for nothing.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "memory/comparison.hpp"

namespace gpuwarden::bench {
namespace {

constexpr std::uint64_t kResolution = 4 * kMiB;

struct Smallest {
  std::uint64_t capacity = 0;
  Outcome outcome;
};

/// Goes down in large steps to the first size that fails, then halves the span above it: an allocator may complete on
/// one device and fail on a larger one. 0 where it needs more than four times the peak of live memory.
Smallest smallest_device(const Contender& contender, const Trace& trace) {
  Smallest found;
  std::uint64_t least = trace.peak_live / kResolution * kResolution;
  for (const unsigned percent : {400U, 250U, 180U, 150U, 140U, 130U, 120U, 110U, 105U}) {
    const std::uint64_t capacity = trace.peak_live / 100 * percent / kResolution * kResolution;
    Outcome tried = play_once(contender, trace, {.capacity = capacity});
    if (!tried.error.empty()) {
      least = capacity;
      if (found.capacity == 0) return {0, std::move(tried)};
      break;
    }
    found = {capacity, std::move(tried)};
  }
  while (found.capacity > least + kResolution) {
    const std::uint64_t middle = least + (found.capacity - least) / 2 / kResolution * kResolution;
    Outcome tried = play_once(contender, trace, {.capacity = middle});
    if (tried.error.empty()) {
      found = {middle, std::move(tried)};
    } else {
      least = middle;
    }
  }
  return found;
}

struct Latencies {
  std::array<double, 4> nanoseconds{kNone, kNone, kNone, kNone};  ///< p50, p99, p99.9, the longest
  std::string error;
};

/// Each percentile the lowest of the rounds: what others on the machine take must not count as the allocator's.
Latencies latencies(const Contender& contender, const Trace& trace, const DeviceSpec& spec, unsigned rounds) {
  Latencies best;
  std::vector<std::uint32_t> each(trace.operations.size());
  for (unsigned round = 0; round < rounds; ++round) {
    const auto contestant = contender.make(spec);
    std::vector<Slot> slots(trace.slots);
    try {
      contestant->play_timed(trace.operations, slots, each);
    } catch (const OutOfMemory& error) {
      best.error = error.what();
      return best;
    }
    std::ranges::sort(each);
    const auto at = [&](double share) {
      return static_cast<double>(each[static_cast<std::size_t>(share * static_cast<double>(each.size() - 1))]);
    };
    const std::array<double, 4> now{at(0.5), at(0.99), at(0.999), at(1)};
    for (std::size_t i = 0; i < now.size(); ++i) best.nanoseconds[i] = std::fmin(best.nanoseconds[i], now[i]);
  }
  return best;
}

void latency_table(Report& report, const Options& options, const std::vector<Contender>& contenders, const Trace& trace,
                   const DeviceSpec& spec) {
  Table table{.title = fmt::format("{}: single operations on a device of {:.2f} of peak live, {}", trace.name,
                                   static_cast<double>(spec.capacity) / static_cast<double>(trace.peak_live),
                                   spec.price_factor > 0 ? "driver calls at their price" : "driver calls for nothing"),
              .columns = {{"p50 ns", "p50_ns", 0},
                          {"p99 ns", "p99_ns", 0},
                          {"p99.9 ns", "p999_ns", 0},
                          {"max us", "max_us", 1}},
              .rows = {}};
  for (const Contender& contender : contenders) {
    const Latencies found = latencies(contender, trace, spec, spec.price_factor > 0 ? 1 : options.rounds);
    table.rows.push_back(
        {contender.name,
         {found.nanoseconds[0], found.nanoseconds[1], found.nanoseconds[2], found.nanoseconds[3] / 1e3},
         found.error});
  }
  publish(report, options, std::move(table));
}

void run_trace(Report& report, const Options& options, const Trace& trace, double most) {
  std::vector<Contender> contenders = chosen(options);
  std::erase_if(contenders, [](const Contender& one) { return !one.abilities.device; });
  Table table{.title = fmt::format("{}: the smallest device that completes it; peak live {:.1f} MiB", trace.name,
                                   static_cast<double>(trace.peak_live) / kMiB),
              .columns = {{"MiB", "capacity_mib", 0},
                          {"of peak live", "capacity_of_peak_live", 3},
                          {"ns/op there", "ns_per_operation"},
                          {"memory calls there", "memory_calls", 0}},
              .rows = {}};
  for (const Contender& contender : contenders) {
    const Smallest found = smallest_device(contender, trace);
    const double ratio =
        found.capacity == 0 ? kNone : static_cast<double>(found.capacity) / static_cast<double>(trace.peak_live);
    table.rows.push_back(
        {contender.name,
         {static_cast<double>(found.capacity) / kMiB, ratio, found.outcome.nanoseconds,
          contender.abilities.calls ? static_cast<double>(found.outcome.footprint.calls.memory()) : kNone},
         found.outcome.error});
    if (contender.name == "gpuwarden balanced")
      report.goals.push_back({fmt::format("{}, smallest device of peak live", trace.name), ratio, true, most, 3});
  }
  publish(report, options, std::move(table));
  for (const double price : {0.0, 1.0}) {
    const std::uint64_t capacity = trace.peak_live / 100 * 105 / kResolution * kResolution;
    latency_table(report, options, contenders, trace, {.capacity = capacity, .price_factor = price});
  }
}

}  // namespace

Report bench_capped(const Options& options) {
  Report report{.benchmark = "capped"};
  if (!std::filesystem::is_directory(options.traces))
    throw std::runtime_error(fmt::format("there are no traces: '{}' is no directory", options.traces.string()));
  struct Work {
    const char* file;
    double most;
  };
  for (const Work& work : {Work{"symbolic_gpt_medium.csv", 1.02}, Work{"symbolic_gpt_medium_recompute.csv", 1.03}}) {
    if (!std::string_view(work.file).contains(options.workload)) continue;
    Trace trace = read_symbolic(options.traces / work.file, random_lengths(options.steps, 11));
    trace.name += fmt::format(", {} lengths", options.steps);
    run_trace(report, options, trace, work.most);
  }
  return report;
}

}  // namespace gpuwarden::bench
