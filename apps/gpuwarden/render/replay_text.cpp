// SPDX-License-Identifier: Apache-2.0
#include "render/replay_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpuwarden/base/grouped.hpp"
#include "gpuwarden/base/text.hpp"
#include "gpuwarden/memtrace/columns.hpp"
#include "render/columns.hpp"

namespace gpuwarden::cli {
namespace {

using memtrace::external_fragmentation;
using memtrace::Replay;

constexpr std::size_t kChartHeight = 10;

std::string mebibytes(Bytes bytes) { return fmt::format("{:.1f} MiB", ratio(bytes, 1_MiB)); }

std::vector<std::string> row_of(const Replay& replay) {
  const auto time = [](const std::optional<double>& each) { return each ? fmt::format("{:.1f}", *each) : "-"; };
  return {replay.strategy,
          time(replay.nanoseconds),
          time(replay.first_nanoseconds),
          mebibytes(replay.peak_live),
          mebibytes(replay.peak_reserved),
          fmt::format("{:.3f}", replay.utilization()),
          fmt::format("{:.1f}%", external_fragmentation(replay.at_peak) * 100),
          grouped(replay.at_end.pages_created),
          grouped(replay.at_end.pages_moved),
          grouped(replay.driver_calls),
          grouped(replay.driver_calls_last_step)};
}

std::string table(const memtrace::ReplayReport& report, const Style& style) {
  std::vector<std::vector<std::string>> rows{{"strategy", "ns/op", "first", "peak live", "reserved", "ratio", "split",
                                              "pages", "moved", "calls", "in last step"}};
  for (const Replay& replay : report.replays) rows.push_back(row_of(replay));
  if (const auto& recorded = report.trace.recorded) {
    const Bytes live = report.replays[0].peak_live;
    const double share = recorded->peak_reserved.value == 0 ? 1 : ratio(live, recorded->peak_reserved);
    // The recorded allocator ran the trace once; more steps may have been another load.
    if (report.steps.size() == 1 && !report.replays[0].failure)
      rows.push_back({recorded->name + ", as recorded", "-", "-", mebibytes(live), mebibytes(recorded->peak_reserved),
                      fmt::format("{:.3f}", share), "-", "-", "-", "-", "-"});
  }
  return columns(rows, style, 0);
}

std::string failures(const memtrace::ReplayReport& report) {
  std::string text;
  for (const Replay& replay : report.replays) {
    if (replay.failure)
      text += fmt::format("{}: out of memory at operation {}, for {}\n", replay.strategy,
                          grouped(replay.failure->operation + 1), mebibytes(replay.failure->size));
    else if (!replay.nanoseconds && replay.rounds > 0)
      text += fmt::format("{}: fits once, but not when it is run again on the same pool\n", replay.strategy);
  }
  return text;
}

/// Live and reserved memory over the operations: "#" live, "+" reserved beyond that.
std::string memory_chart(const Replay& replay, const Style& style) {
  if (replay.samples.empty()) return "";
  constexpr std::size_t kScale = 10;
  const auto all = memtrace::columns_of(replay, style.width - kScale - 2);
  const std::uint64_t top = std::max<std::uint64_t>(1, replay.peak_reserved.value);
  std::string text;
  for (std::size_t row = kChartHeight; row-- > 0;) {
    const bool labelled = row + 1 == kChartHeight || row + 1 == kChartHeight / 2;
    text += fit(labelled ? format_size(Bytes(top / kChartHeight * (row + 1))) : "", kScale, true) + " |";
    std::string line;
    for (const memtrace::MemoryColumn& column : all) {
      const auto reaches = [&](Bytes bytes) {
        return ratio(bytes, Bytes(top)) * kChartHeight > static_cast<double>(row) + 0.5;
      };
      line += reaches(column.live) ? '#' : reaches(column.reserved) ? '+' : ' ';
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  text += std::string(kScale + 1, ' ') + "+" + std::string(all.size(), '-') + "\n";
  const std::string end = grouped(replay.operations) + " operations";
  const std::string key = fmt::format("{}: # live  + reserved", replay.strategy);
  const std::size_t room = all.size() > key.size() + end.size() ? all.size() - key.size() - end.size() : 1;
  return text + std::string(kScale + 2, ' ') + key + std::string(room, ' ') + end + "\n";
}

}  // namespace

std::string replay_text(const memtrace::ReplayReport& report, const Style& style) {
  const auto notes = memtrace::notes_on(report);
  std::string text;
  for (const std::string& note : notes) text += (&note == &notes.back() ? style.paint(note, Tone::bold) : note) + "\n";
  return text + "\n" + table(report, style) + failures(report) + "\n" + memory_chart(report.replays[0], style);
}

}  // namespace gpuwarden::cli
