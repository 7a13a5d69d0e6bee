// SPDX-License-Identifier: Apache-2.0
#include "memory/trace.hpp"

#include <algorithm>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <utility>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/memtrace/read.hpp"
#include "gpuwarden/memtrace/script.hpp"

namespace gpuwarden::bench {
namespace {

/// A step for each length, as gpuwarden memory replay runs them.
Trace repeat(const std::string& path, const std::vector<unsigned>& lengths) {
  const auto orderly = [](auto result) {
    if (!result) throw std::runtime_error(result.error().message);
    return std::move(*result);
  };
  const memtrace::Script script =
      memtrace::make_script(orderly(memtrace::read_trace(orderly(read_file(path)), path)), lengths);
  Trace trace{.name = std::filesystem::path(path).stem(),
              .operations = {},
              .slots = script.slots,
              .peak_live = script.peak_live.value};
  trace.operations.reserve(script.operations);
  for (const std::uint32_t part : script.order) {
    for (const memtrace::Operation& one : script.parts[part])
      trace.operations.push_back({.size = one.size, .slot = one.slot, .stream = one.stream});
  }
  return trace;
}

}  // namespace

void TraceBuilder::allocate(std::uint64_t id, std::uint64_t size, std::uint32_t stream) {
  const std::uint32_t slot = free_.empty() ? trace_.slots++ : free_.back();
  if (!free_.empty()) free_.pop_back();
  live_[id] = {slot, size};
  trace_.operations.push_back({size, slot, stream});
  bytes_ += (size + 511) / 512 * 512;
  trace_.peak_live = std::max(trace_.peak_live, bytes_);
}

void TraceBuilder::free(std::uint64_t id, std::uint32_t stream) {
  const auto [slot, size] = live_.at(id);
  live_.erase(id);
  free_.push_back(slot);
  trace_.operations.push_back({0, slot, stream});
  bytes_ -= (size + 511) / 512 * 512;
}

Trace read_trace(const std::string& path, unsigned steps) { return repeat(path, std::vector<unsigned>(steps, 0)); }

Trace read_symbolic(const std::string& path, const std::vector<unsigned>& lengths) { return repeat(path, lengths); }

std::vector<unsigned> random_lengths(unsigned count, unsigned seed, unsigned step) {
  std::mt19937 random(seed);
  std::vector<unsigned> lengths(count);
  std::ranges::generate(lengths, [&] { return 128 + step * static_cast<unsigned>(random() % (896 / step + 1)); });
  return lengths;
}

Trace random_allocations(unsigned n, std::uint64_t most, unsigned variant) {
  std::default_random_engine random(std::default_random_engine::default_seed + variant);
  std::uniform_int_distribution<std::uint64_t> sizes(1, most);
  std::uniform_int_distribution<int> chances(0, 99);
  TraceBuilder builder("random " + std::to_string(n) + " x " + std::to_string(most >> 20U) + " MiB");
  struct Live {
    std::uint64_t id;
    std::uint64_t size;
  };
  std::vector<Live> live;
  std::uint64_t bytes = 0;
  std::uint64_t next = 0;
  for (unsigned i = 0; i < 2 * n; ++i) {
    const std::uint64_t size = sizes(random);
    const bool wanted = chances(random) < 73;
    if (wanted && next < n && bytes + size < std::uint64_t{16000} << 20U) {
      live.push_back({next, size});
      builder.allocate(next++, size, 0);
      bytes += size;
    } else if (!live.empty()) {
      std::uniform_int_distribution<std::size_t> which(0, live.size() - 1);
      std::swap(live[which(random)], live.back());
      builder.free(live.back().id, 0);
      bytes -= live.back().size;
      live.pop_back();
    }
  }
  return builder.finish();
}

}  // namespace gpuwarden::bench
