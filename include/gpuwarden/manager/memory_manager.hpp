// SPDX-License-Identifier: Apache-2.0
// Memory for a program on one device: pooled or plain, limited, kept tidy, with something to let go of when it is out.
//
//     MemoryManager memory({.max_pool_size = 2_GiB}, {}, system_clock());
//     auto address = memory.allocate(64_MiB);
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/manager/config.hpp"
#include "gpuwarden/manager/device.hpp"
#include "gpuwarden/manager/release.hpp"
#include "gpuwarden/memory/pool.hpp"

namespace gpuwarden::manager {

/// Keys as memory_config_from_json() reads them; sizes are bytes, times seconds there.
struct MemoryConfig {
  AllocationStrategy allocation_strategy = AllocationStrategy::balanced;
  bool enable_pooling = true;
  std::optional<Bytes> max_pool_size;  ///< empty: what memory_fraction leaves
  double memory_fraction = 1;          ///< of the device's total; the smaller of both limits holds
  /// Share of the limit that may lie idle in the pool; more goes back to the device.
  double max_memory_cache_ratio = 0.8;
  bool enable_cleanup = true;  ///< what was idle for cleanup_interval goes back, in the background
  std::chrono::milliseconds cleanup_interval{30000};
  bool enable_oom_recovery = true;  ///< out of memory: tidy, let go of what is registered, try once more

  bool operator==(const MemoryConfig&) const = default;
};
nlohmann::json to_json(const MemoryConfig& config);
/// Fails as gpu_config_from_json() does.
Result<MemoryConfig> memory_config_from_json(const nlohmann::json& json);

/// Whose memory it is.
struct MemoryPlace {
  /// The GPU; with `cuda_library` empty, or for the CPU, memory of the host stands in for it.
  Device device;
  std::filesystem::path cuda_library;
  /// The device's total, where host memory stands in for a GPU's; empty: what this machine has.
  std::optional<Bytes> host_capacity;
};

/// What defragment() did.
struct Defragmentation {
  Bytes idle_before;  ///< reserved, but not live
  Bytes idle_after;   ///< what lies beside live memory on the same pages
  Bytes returned;     ///< to the device
};

struct MemoryStatus {
  Device device;
  bool open = false;     ///< memory was asked for; before that nothing is taken of the device
  std::string backing;   ///< "cuda", "host"; empty while it is not open
  std::string fallback;  ///< why it is the host's, though a GPU was meant
  bool pooling = true;
  AllocationStrategy strategy = AllocationStrategy::balanced;
  std::optional<Bytes> limit;
  Bytes live;
  Bytes peak;
  Bytes reserved;  ///< of the device; live where it is not pooled
  std::uint64_t live_blocks = 0;
  std::uint64_t allocations = 0;
  std::uint64_t reused = 0;  ///< allocations that a pool's quick lists met
  std::uint64_t out_of_memory = 0;
  std::uint64_t recovered = 0;  ///< out of memory, but met after something was let go of
  double fragmentation = 0;     ///< external, 0 to 1

  Bytes idle() const { return reserved - live; }
  /// Share of the reserved memory that is live, 1 where none is reserved.
  double efficiency() const { return reserved.value == 0 ? 1 : ratio(live, reserved); }
};
nlohmann::json to_json(const MemoryStatus& status);

/// Thread-safe. The device is opened with the first allocation: a CUDA context takes hundreds of megabytes of it.
class MemoryManager {
 public:
  MemoryManager(MemoryConfig config, MemoryPlace place, Clock& clock);
  MemoryManager(const MemoryManager&) = delete;
  MemoryManager& operator=(const MemoryManager&) = delete;
  /// Gives everything back, live or not.
  ~MemoryManager();

  /// Fails with invalid_argument for size 0 or a configuration that is out of its range, with unsatisfied where memory
  /// is out though everything was let go of, with unavailable where the CUDA context is gone.
  Result<memory::DeviceAddress> allocate(Bytes size, memory::StreamId stream = {});
  /// Fails with invalid_argument for what was not given out, or is given back twice.
  Result<void> deallocate(memory::DeviceAddress address, memory::StreamId stream = {});

  /// Idle memory back to the device until no more than `keep` is reserved; how much went. 0 without a pool.
  Result<Bytes> trim(Bytes keep = Bytes{});
  /// Merges free blocks and gives idle pages back; live memory stays where it is.
  Result<Defragmentation> defragment();
  /// Another share of the device's total from now on. Fails with invalid_argument for a share that is none, with
  /// unsatisfied where live memory exceeds it.
  Result<void> set_memory_fraction(double fraction);
  /// Lets go of registered things that are on this device, and of the pool's idle memory, until `needed` is free.
  ReleaseReport emergency_release(std::optional<Bytes> needed = std::nullopt);

  /// What can be let go of, the pool itself among it; shared with share_releases().
  ReleaseBook& releases();
  /// Uses another's book instead; to be called before memory is asked for.
  void share_releases(std::shared_ptr<ReleaseBook> releases);
  MemoryStatus status() const;
  const MemoryConfig& config() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpuwarden::manager
