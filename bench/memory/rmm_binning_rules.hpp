// SPDX-License-Identifier: Apache-2.0
// The policy of RMM's binning_memory_resource over its pool, written anew from its description (docs.rapids.ai, librmm:
// binning_memory_resource and fixed_size_memory_resource, 2026-07). Not RMM.
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <vector>

#include "memory/rmm_rules.hpp"

namespace gpuwarden::bench {

/// A bin for each power of two from 256 KiB to 4 MiB, as in RMM's own benchmark (rapidsai/rmm,
/// cpp/benchmarks/random_allocations); a request goes to the smallest bin that holds it, a larger one to the pool. A
/// bin takes blocks of its size from the pool, 128 at a time (the default), and keeps them in a list for each stream;
/// another stream's is used after waiting for its last event. An event for every free.
class RmmBinningRules {
 public:
  explicit RmmBinningRules(CountingDevice& device) : device_(device), pool_(device) {}

  std::uint64_t allocate(std::uint64_t size, std::uint32_t stream) {
    const unsigned number = bin_of(size);
    if (number == kBins) return pool_.allocate(size, stream);
    const std::lock_guard lock(mutex_);
    Bin& bin = bins_.at(number);
    List& own = bin[stream];
    if (own.free.empty() && !steal(bin, own, stream)) {
      const std::uint64_t block = size_of(number);
      const std::uint64_t first = pool_.allocate(block * kAtATime, stream);
      for (unsigned i = kAtATime; i-- > 0;) own.free.push_back(first + i * block);
    }
    const std::uint64_t address = own.free.back();
    own.free.pop_back();
    return address;
  }

  /// The block belongs to `stream` from now on.
  void free(std::uint64_t address, std::uint64_t size, std::uint32_t stream) {
    const unsigned number = bin_of(size);
    if (number == kBins) return pool_.free(address, size, stream);
    const std::lock_guard lock(mutex_);
    List& own = bins_.at(number)[stream];
    own.event = device_.driver.record(stream);
    own.free.push_back(address);
  }

 private:
  static constexpr unsigned kBins = 5;
  static constexpr unsigned kAtATime = 128;
  struct List {
    std::vector<std::uint64_t> free;
    Moment event = 0;
  };
  using Bin = std::map<std::uint32_t, List>;

  static std::uint64_t size_of(unsigned bin) { return kMiB / 4 << bin; }
  /// kBins: none holds it.
  static unsigned bin_of(std::uint64_t size) {
    unsigned bin = 0;
    while (bin < kBins && size_of(bin) < size) ++bin;
    return bin;
  }

  /// Takes over what another stream has; whether there was any.
  bool steal(Bin& bin, List& own, std::uint32_t stream) {
    for (auto& [other, list] : bin) {
      if (other == stream || list.free.empty()) continue;
      device_.driver.wait(stream, list.event);
      own.free.swap(list.free);
      return true;
    }
    return false;
  }

  CountingDevice& device_;
  RmmPoolRules pool_;
  std::mutex mutex_;
  std::array<Bin, kBins> bins_;
};

}  // namespace gpuwarden::bench
