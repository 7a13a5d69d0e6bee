// SPDX-License-Identifier: Apache-2.0
// Allocation traces for the benchmarks: a list of operations on numbered slots.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpuwarden::bench {

struct Operation {
  std::uint64_t size = 0;  ///< 0: a free
  std::uint32_t slot = 0;
  std::uint32_t stream = 0;
};

struct Trace {
  std::string name;
  std::vector<Operation> operations;
  std::uint32_t slots = 0;
  std::uint64_t peak_live = 0;  ///< bytes, in grains of 512
};

/// A CSV of shared/corpus/memtraces with sizes, once or `steps` times over.
Trace read_trace(const std::string& path, unsigned steps);

/// One with sizes c0 + c1*T + c2*T^2, a step for each T. Between steps what the step left is freed, and what it freed
/// of the blocks live before it is allocated again.
Trace read_symbolic(const std::string& path, const std::vector<unsigned>& lengths);

/// `count` lengths from 128 to 1024.
std::vector<unsigned> random_lengths(unsigned count, unsigned seed);

/// RMM's random_allocations (cpp/benchmarks/random_allocations): 2*n operations, sizes uniform to `most` bytes, 73 % of
/// them allocations, at most 16,000 MiB live.
Trace random_allocations(unsigned n, std::uint64_t most);

}  // namespace gpuwarden::bench
