// SPDX-License-Identifier: Apache-2.0
// Allocation traces for the benchmarks: a list of operations on numbered slots.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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

/// Builds a trace and keeps the books of what is live.
class TraceBuilder {
 public:
  explicit TraceBuilder(std::string name) { trace_.name = std::move(name); }

  bool is_live(std::uint64_t id) const { return live_.contains(id); }
  std::uint64_t live_bytes() const { return bytes_; }
  void allocate(std::uint64_t id, std::uint64_t size, std::uint32_t stream = 0);
  /// `id` must be live.
  void free(std::uint64_t id, std::uint32_t stream = 0);
  Trace finish() { return std::move(trace_); }

 private:
  Trace trace_;
  std::map<std::uint64_t, std::pair<std::uint32_t, std::uint64_t>> live_;
  std::vector<std::uint32_t> free_;
  std::uint64_t bytes_ = 0;
};

/// Recorded allocations (memtrace/read.hpp), once or as `steps` steps of one program (memtrace/script.hpp). Throws
/// std::runtime_error with what cannot be read, and where.
Trace read_trace(const std::string& path, unsigned steps);

/// The same with sizes c0 + c1*T + c2*T^2, a step for each T; there is one.
Trace read_symbolic(const std::string& path, const std::vector<unsigned>& lengths);

/// `count` lengths from 128 to 1024 in steps, each 128 + step * (mt19937(seed)() % n).
std::vector<unsigned> random_lengths(unsigned count, unsigned seed, unsigned step = 1);

/// RMM's random_allocations (rapidsai/rmm, cpp/benchmarks/random_allocations): 2*n operations, sizes uniform to `most`
/// bytes, 73 % of them allocations, at most 16,000 MiB live. `variant` 0 is the sequence that it takes each time.
Trace random_allocations(unsigned n, std::uint64_t most, unsigned variant = 0);

/// A server of a language model of 16 layers with 2 KiB of keys and values a token and layer (the shape of Llama 3.2
/// 1B), synthetic and seeded: up to 48 requests at a time arrive at random with prompts of 64 to 4,096 tokens and leave
/// after 16 to 1,024 more, both log-uniform; each step has temporaries as large as the batch. `paged`: the cache grows
/// by blocks of 16 tokens of all layers; otherwise each layer's is one buffer, moved to one larger by 64 tokens.
Trace serving(unsigned steps, unsigned seed, bool paged);

/// A synthetic, seeded kind of inference.
struct InferenceTrace {
  std::string_view name;
  bool kept_back;  ///< the pool's constants were chosen without it
  Trace (*make)();
};
std::span<const InferenceTrace> inference_traces();

}  // namespace gpuwarden::bench
