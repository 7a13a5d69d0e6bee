// SPDX-License-Identifier: Apache-2.0
// Reads recorded allocations. The format is found by content:
//   - CSV with the columns op (a or f), id, size, and if there are stream, time_us, device and phase (pre: live before
//     the recording); instead of size also c0, c1, c2 of a size c0 + c1*T + c2*T^2;
//   - snapshots of PyTorch (torch.cuda.memory._dump_snapshot, _snapshot) as pickle or JSON. A pickle is data here:
//     whatever would run code when Python opens it is refused by name;
//   - logs of RMM's logging adaptor (Thread,Time,Action,Pointer,Size,Stream).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/memtrace/trace.hpp"

namespace gpuwarden::memtrace {

struct ReadOptions {
  /// Whose events, of a recording with several devices; empty: the device with most events.
  std::optional<std::uint32_t> device;
};

/// The trace in `content`; `name` stands in messages. invalid_argument: no such format, or nothing was recorded;
/// corrupt, with line or byte: cut off, damaged, allocated or freed twice.
Result<Trace> read_trace(std::string_view content, const std::string& name, const ReadOptions& options = {});

}  // namespace gpuwarden::memtrace
