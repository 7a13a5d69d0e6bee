// SPDX-License-Identifier: Apache-2.0
// What others are told of a pool, as the environment asks: its status while it lives, a snapshot at its end and where
// memory ran out.
#pragma once

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "gpuwarden/pools/device_pool.hpp"
#include "gpuwarden/pools/pool_publisher.hpp"

namespace gpuwarden::bindings {

struct ObserverSettings {
  /// GPUWARDEN_MEMORY_STATUS: "on" (once a second), "off", or the interval; empty: off.
  std::optional<std::chrono::milliseconds> publish_every = std::chrono::milliseconds(1000);
  bool asks_to_publish = false;  ///< a variable asks for it: it is said if that fails
  std::filesystem::path folder;  ///< GPUWARDEN_MEMORY_DIR; empty: the user's own
  /// GPUWARDEN_MEMORY_SNAPSHOT: a file; empty: none.
  std::filesystem::path snapshot;
};

/// invalid_argument: a variable has a value that makes no sense; its name is in the message.
Result<ObserverSettings> read_observer_settings();

/// Whatever it cannot do it says on stderr in a line, and leaves the pool as it is. In a forked child it does nothing.
class PoolObserver {
 public:
  explicit PoolObserver(ObserverSettings settings) : settings_(std::move(settings)) {}
  PoolObserver(const PoolObserver&) = delete;
  PoolObserver& operator=(const PoolObserver&) = delete;
  ~PoolObserver() { finish(); }

  /// What the pool is to call (DevicePoolOptions::on_out_of_memory); empty where nobody wants to know. This must
  /// outlive it.
  std::function<void(const memory::OutOfMemoryReport&)> on_out_of_memory();
  /// Begins to tell. `number`: of the pool in its process, from 0; others than 0 have it behind their files' names. The
  /// pool must live until finish().
  void start(pools::DevicePool& pool, unsigned number);
  /// Stops, and writes the snapshot of the end; once.
  void finish() noexcept;

 private:
  void write(const std::filesystem::path& file, const memory::OutOfMemoryReport* report);

  const ObserverSettings settings_;
  std::mutex mutex_;
  pools::DevicePool* pool_ = nullptr;  ///< while it is told of
  pid_t process_ = 0;
  std::filesystem::path at_end_;            ///< empty: no snapshot
  std::filesystem::path at_out_of_memory_;  ///< the latest one
  std::optional<std::chrono::steady_clock::time_point> written_;
  std::unique_ptr<pools::PoolPublisher> publisher_;
};

}  // namespace gpuwarden::bindings
