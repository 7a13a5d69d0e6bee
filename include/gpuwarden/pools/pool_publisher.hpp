// SPDX-License-Identifier: Apache-2.0
// Tells other processes of a pool's status, for gpuwarden memory.
//
//   auto publisher = PoolPublisher::start(*device_pool, {}, system_clock());
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/pools/device_pool.hpp"
#include "gpuwarden/pools/status_file.hpp"

namespace gpuwarden::pools {

struct PublisherOptions {
  /// Made where it is missing (its parent has to be there); empty: own_pools_folder().
  std::filesystem::path folder;
  /// So often the pool is looked at, and its file written anew if something has changed.
  std::chrono::milliseconds interval{1000};
};

/// Writes the status of a pool into a file at the beginning, and again from a thread of its own; removes it at the end,
/// which waits for no interval. Files are replaced whole. In a forked child it does nothing.
class PoolPublisher {
 public:
  /// Fails where the folder cannot be used (permission_denied: others could put files of theirs in its place) or
  /// written to, or where no thread can be had. Pool and clock must outlive it.
  static Result<std::unique_ptr<PoolPublisher>> start(DevicePool& pool, const PublisherOptions& options, Clock& clock);
  PoolPublisher(const PoolPublisher&) = delete;
  PoolPublisher& operator=(const PoolPublisher&) = delete;
  ~PoolPublisher();

  const std::filesystem::path& file() const { return file_->file(); }

 private:
  PoolPublisher(DevicePool& pool, std::unique_ptr<StatusFile> file, Clock& clock);
  Result<void> publish();

  DevicePool& pool_;
  const std::unique_ptr<StatusFile> file_;
  Clock& clock_;
  const pid_t process_;
  std::jthread thread_;
};

}  // namespace gpuwarden::pools
