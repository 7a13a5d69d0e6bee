// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memtrace/summary.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/memtrace/read.hpp"
#include "gpuwarden/memtrace/script.hpp"

namespace gpuwarden::memtrace {
namespace {

Bytes live_at_end(const Trace& trace) {
  std::vector<std::uint64_t> sizes(trace.blocks);
  std::uint64_t live = 0;
  for (const Event& event : trace.events) {
    if (!event.frees) sizes[event.block] = event.size;
    live += event.frees ? -sizes[event.block] : event.size;
  }
  return Bytes(live);
}

}  // namespace

TraceSummary summarize(const Trace& trace, std::filesystem::path file) {
  TraceSummary summary{.file = std::move(file), .problem = ""};
  summary.frees = static_cast<std::size_t>(std::ranges::count(trace.events, true, &Event::frees));
  summary.allocations = trace.events.size() - summary.frees;
  summary.peak = make_script(trace, std::array{0U}).peak_requested;
  summary.at_end = live_at_end(trace);
  return summary;
}

TraceSummary summarize(const std::filesystem::path& file) {
  constexpr std::size_t kLargest = std::size_t{16} << 30U;
  const auto content = read_file(file, kLargest);
  const auto trace = content ? read_trace(*content, file.string()) : std::unexpected(content.error());
  return trace ? summarize(*trace, file) : TraceSummary{.file = file, .problem = trace.error().message};
}

}  // namespace gpuwarden::memtrace
