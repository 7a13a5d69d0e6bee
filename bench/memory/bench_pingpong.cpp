// SPDX-License-Identifier: Apache-2.0
// Memory that crosses streams. A step's blocks are allocated and used on one stream; `handover`: another stream uses
// them behind it and they are given back there; `alternate`: they are given back where they were allocated, and the
// next step is the other stream's. Streams are simulated: work takes its time beside the host's, an event is done when
// the work before it is, and driver calls cost what the simulated driver's cost.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "memory/comparison.hpp"

namespace gpuwarden::bench {
namespace {

constexpr unsigned kBlocks = 8;

struct Shape {
  const char* name;
  bool hands_over;
  std::int64_t work_nanoseconds;  ///< of a step on each stream
};

struct Result {
  double nanoseconds = kNone;
  Footprint footprint;
  std::uint64_t peak_live = 0;
  std::string error;
};

/// Host nanoseconds an operation; the host does not wait for the device unless the allocator makes it.
Result play(const Contender& contender, const Shape& shape, unsigned steps) {
  const auto contestant = contender.make({.price_factor = 1});
  Driver& driver = *contestant->driver();
  std::minstd_rand random(1);
  Result result;
  std::vector<Slot> slots(kBlocks);
  double spent = 0;
  try {
    for (unsigned step = 0; step < steps; ++step) {
      const std::uint32_t first = 1 + (shape.hands_over ? 0 : step % 2);
      const std::uint32_t last = shape.hands_over ? 2 : first;
      std::uint64_t live = 0;
      const auto start = std::chrono::steady_clock::now();
      for (Slot& slot : slots) {
        const std::uint64_t size = (1 + random() % 8) * 2 * kMiB;
        contestant->allocate(slot, size, first);
        live += size;
      }
      driver.submit(first, shape.work_nanoseconds);
      // The application's own order between the streams; not the allocator's call, so not counted.
      if (last != first) driver.submit(last, 2 * shape.work_nanoseconds);
      for (Slot& slot : slots) contestant->free(slot, last);
      spent += std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
      result.peak_live = std::max(result.peak_live, live);
      // Half of the steps find the last step's work over.
      if (step % 2 == 1) std::this_thread::sleep_for(std::chrono::nanoseconds(4 * shape.work_nanoseconds));
    }
  } catch (const OutOfMemory& error) {
    result.error = error.what();
  }
  result.nanoseconds = spent / (2.0 * kBlocks * steps);
  result.footprint = contestant->footprint();
  return result;
}

void run_shape(Report& report, const Options& options, const Shape& shape, unsigned steps) {
  std::vector<Contender> contenders = chosen(options);
  std::erase_if(contenders, [&](const Contender& one) {
    // cub takes memory back only on the stream that it was allocated on.
    return !one.abilities.streams || !one.abilities.device || (shape.hands_over && one.name.starts_with("cub"));
  });
  std::vector<Result> best(contenders.size());
  for (unsigned round = 0; round < options.rounds; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      Result result = play(contenders[i], shape, steps);
      if (round == 0 || result.nanoseconds < best[i].nanoseconds) best[i] = std::move(result);
    }
  }
  Table table{.title = fmt::format("{}: {} steps of {} blocks, {} us of work a step", shape.name, steps, kBlocks,
                                   shape.work_nanoseconds / 1000),
              .columns = {{"ns/op", "ns_per_operation", 0},
                          {"peak live MiB", "peak_live_mib", 0},
                          {"reserved MiB", "peak_reserved_mib", 0},
                          {"memory calls", "memory_calls", 0},
                          {"events", "events_recorded", 0},
                          {"queries", "events_queried", 0},
                          {"waits", "stream_waits", 0},
                          {"host waits", "synchronizations", 0}},
              .rows = {}};
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    const auto& calls = best[i].footprint.calls;
    const auto count = [&](Call call) { return static_cast<double>(calls[call]); };
    table.rows.push_back({contenders[i].name,
                          {best[i].nanoseconds, static_cast<double>(best[i].peak_live) / kMiB,
                           static_cast<double>(best[i].footprint.peak_reserved) / kMiB,
                           static_cast<double>(calls.memory()), count(Call::event_record), count(Call::event_query),
                           count(Call::stream_wait_event), count(Call::synchronize)},
                          best[i].error});
  }
  publish(report, options, std::move(table));
}

}  // namespace

Report bench_pingpong(const Options& options) {
  Report report{.benchmark = "pingpong"};
  const auto steps = static_cast<unsigned>(options.operations == 0 ? 2000 : options.operations);
  for (const Shape& shape : {Shape{"handover", true, 20'000}, Shape{"alternate", false, 20'000}})
    run_shape(report, options, shape, steps);
  return report;
}

}  // namespace gpuwarden::bench
