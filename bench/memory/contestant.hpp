// SPDX-License-Identifier: Apache-2.0
// One allocator on one device, as the benchmarks drive it, and the list of all that take part.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "memory/device.hpp"
#include "memory/trace.hpp"

namespace gpuwarden::bench {

/// What an allocation left behind: address 0 is none; the rest is for those who give back by handle.
struct Slot {
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint64_t handle = 0;
};

struct Footprint {
  std::uint64_t reserved = 0;
  std::uint64_t peak_reserved = 0;
  CallCounts calls;
  std::optional<std::uint64_t> metadata;  ///< host bytes that describe the blocks, where the allocator tells
};

/// Work is played in spans, so that no call through a table of functions is timed with an operation. Out of memory is
/// thrown as OutOfMemory.
class Contestant {
 public:
  Contestant() = default;
  Contestant(const Contestant&) = delete;
  Contestant& operator=(const Contestant&) = delete;
  virtual ~Contestant() = default;

  virtual void play(std::span<const Operation> operations, std::span<Slot> slots) = 0;
  /// The same, with how long each operation took in nanoseconds; the clock's own 20 to 30 are in it.
  virtual void play_timed(std::span<const Operation> operations, std::span<Slot> slots,
                          std::span<std::uint32_t> nanoseconds) = 0;
  virtual void allocate(Slot& slot, std::uint64_t size, std::uint32_t stream) = 0;
  virtual void free(Slot& slot, std::uint32_t stream) = 0;

  virtual Footprint footprint() = 0;
  /// The device's calls and streams; nullptr where there is no simulated device.
  virtual Driver* driver() { return nullptr; }
  /// What is wrong with its books; empty: nothing.
  virtual std::string check() { return {}; }
};

/// What a contestant can do, for the benchmarks that need it.
struct Abilities {
  bool streams = true;  ///< knows that memory given back on a stream may still be used there
  bool threads = true;
  bool calls = true;   ///< tells which driver calls it made
  bool device = true;  ///< reserves device memory; otherwise host memory for blocks of at most 1 KiB
};

struct DeviceSpec {
  std::uint64_t capacity = 80 * kGiB;
  double price_factor = 0;  ///< what driver calls cost, as Driver's
};

struct Contender {
  enum class Kind : std::uint8_t { ours, rules, library, yardstick };
  std::string name;
  Kind kind = Kind::rules;
  Abilities abilities;
  std::function<std::unique_ptr<Contestant>(const DeviceSpec&)> make;
};

/// Ours, re-implementations of others' rules, and others' own libraries as far as they were found at build time.
std::vector<Contender> contenders();

std::vector<Contender> own_contenders();
std::vector<Contender> rules_contenders();
/// VMA's virtual block; empty without vk_mem_alloc.h.
std::vector<Contender> vma_contenders();
/// cub::CachingDeviceAllocator over a runtime that costs nothing; empty without the CUDA toolkit.
std::vector<Contender> cub_contenders();
/// malloc (whichever is linked) and std::pmr pools, with sizes folded to 1 KiB: yardsticks for bookkeeping only.
std::vector<Contender> host_contenders();
/// The pool and the driver's own stream-ordered allocator on a CUDA device; throws std::runtime_error without one.
std::vector<Contender> cuda_contenders(int ordinal);
/// Whether the CUDA driver that is found is a simulated one.
bool cuda_is_simulated();

}  // namespace gpuwarden::bench
