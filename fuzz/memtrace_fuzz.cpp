// SPDX-License-Identifier: Apache-2.0
// Traces of allocations from strangers: pickles, JSON, CSV and RMM logs.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "gpuwarden/memtrace/read.hpp"
#include "gpuwarden/memtrace/script.hpp"

namespace {

using namespace gpuwarden::memtrace;

void check(bool holds) {
  if (!holds) std::abort();
}

/// Every block is allocated once before it is freed once.
void check(const Trace& trace) {
  std::vector<unsigned char> state(trace.blocks);
  for (const Event& event : trace.before) {
    check(!event.frees && event.size >= 1 && event.size <= kLargestBlock && state[event.block]++ == 0);
    check(event.stream < trace.streams.size());
  }
  for (const Event& event : trace.events) {
    check(event.block < trace.blocks && event.stream < trace.streams.size());
    check(event.frees ? state[event.block]++ == 1 : event.size >= 1 && state[event.block]++ == 0);
  }
  if (trace.depends_on_tokens()) check(trace.formulas.size() == trace.blocks);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto trace = read_trace({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!trace) {
    check(!trace.error().message.empty());
    return 0;
  }
  check(*trace);
  const Script script = make_script(*trace, std::array{7U, 9U, 7U});
  check(script.order.size() == 3 && script.slots <= trace->blocks);
  for (const auto& part : script.parts) {
    for (const Operation& operation : part) check(operation.slot < script.slots);
  }
  return 0;
}
