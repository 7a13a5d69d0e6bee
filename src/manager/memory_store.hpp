// SPDX-License-Identifier: Apache-2.0
// Where a MemoryManager's memory comes from: a pool, or the device (or the host) at every call.
#pragma once

#include <memory>
#include <string>

#include "gpuwarden/manager/memory_manager.hpp"

namespace gpuwarden::manager {

/// What a store tells of itself.
struct StoreFigures {
  Bytes live;
  Bytes peak;
  Bytes reserved;
  std::uint64_t live_blocks = 0;
  std::uint64_t allocations = 0;
  std::uint64_t reused = 0;
  double fragmentation = 0;
};

/// Thread-safe.
class MemoryStore {
 public:
  MemoryStore() = default;
  MemoryStore(const MemoryStore&) = delete;
  MemoryStore& operator=(const MemoryStore&) = delete;
  virtual ~MemoryStore() = default;

  virtual Result<memory::DeviceAddress> allocate(Bytes size, memory::StreamId stream) = 0;
  virtual Result<void> deallocate(memory::DeviceAddress address, memory::StreamId stream) = 0;
  virtual Result<Bytes> trim(Bytes keep) = 0;
  virtual Result<Defragmentation> defragment() = 0;
  virtual Result<void> set_limit(Bytes limit) = 0;
  virtual StoreFigures figures() const = 0;
  virtual Bytes limit() const = 0;
};

/// A store with its name and, where the GPU could not be used, why.
struct OpenedStore {
  std::shared_ptr<MemoryStore> store;
  std::string backing;
  std::string fallback;
  Bytes total;  ///< of the device
};

/// The store that the configuration asks for on the place. The host's memory is used where CUDA's cannot be.
Result<OpenedStore> open_store(const MemoryConfig& config, const MemoryPlace& place, Clock& clock);

/// The smaller of both limits on a device with so much memory.
Bytes limit_of(const MemoryConfig& config, Bytes total);

}  // namespace gpuwarden::manager
