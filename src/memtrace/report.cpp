// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memtrace/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gpuwarden/base/grouped.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::memtrace {
namespace {

/// Long scripts are measured well enough in fewer rounds.
unsigned rounds_for(std::uint64_t operations) {
  constexpr std::uint64_t kEnough = 20'000'000;
  return static_cast<unsigned>(std::clamp<std::uint64_t>(kEnough / std::max<std::uint64_t>(operations, 1), 1, 5));
}

}  // namespace

Result<ReplayReport> replay_all(std::string file, const Trace& trace, std::vector<unsigned> steps,
                                const std::vector<const memory::Strategy*>& strategies, Bytes device_memory) {
  const Script script = make_script(trace, steps);
  ReplayReport report{
      .file = std::move(file), .trace = trace, .device_memory = device_memory, .steps = std::move(steps)};
  for (const memory::Strategy* strategy : strategies) {
    GPUWARDEN_TRY(Replay one, replay(script, {.strategy = strategy,
                                              .device_memory = device_memory,
                                              .rounds = rounds_for(script.operations)}));
    report.replays.push_back(std::move(one));
  }
  return report;
}

Result<Recording> record_first(const ReplayReport& report) {
  return record(
      report.trace, make_script(report.trace, report.steps),
      {.strategy = memory::find_strategy(report.replays.front().strategy), .device_memory = report.device_memory});
}

std::vector<std::string> notes_on(const ReplayReport& report) {
  const Trace& trace = report.trace;
  std::vector<std::string> notes{fmt::format("{}: {}, {} events, {} blocks live before, {} {}", printable(report.file),
                                             trace.format, grouped(trace.events.size()), grouped(trace.before.size()),
                                             trace.streams.size(), trace.streams.size() == 1 ? "stream" : "streams")};
  const auto others = std::ranges::count_if(trace.events_of_devices, [](std::uint64_t events) { return events > 0; });
  if (others > 1)
    notes.push_back(fmt::format("of device {}; {} more have events, too (--device N)", trace.device, others - 1));
  if (trace.failed_allocations > 0)
    notes.push_back(fmt::format("{} allocations failed while it was recorded", grouped(trace.failed_allocations)));
  if (report.steps.size() > 1) {
    const auto [least, most] = std::ranges::minmax(report.steps);
    notes.push_back(fmt::format("{} steps{}", report.steps.size(),
                                most == 0 ? "" : fmt::format(" with lengths from {} to {} tokens", least, most)));
  }
  notes.push_back(fmt::format("SIMULATED device of {} that only counts; the allocator is the real one",
                              format_size(report.device_memory)));
  return notes;
}

}  // namespace gpuwarden::memtrace
