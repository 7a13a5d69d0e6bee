// SPDX-License-Identifier: Apache-2.0
// The file in which a process tells others of its memory on a GPU, for gpuwarden memory: of a pool
// (pool_publisher.hpp), or of an allocator that is not gpuwarden's, as PyTorch's.
//
//   auto file = StatusFile::create({}, system_clock());
//   if (file) (*file)->write({.gpu = uuid, .strategy = "pytorch", .live = allocated, .reserved = reserved});
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <memory>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/pools/published_pool.hpp"

namespace gpuwarden::pools {

/// Is replaced whole at each change and removed at the end. In a forked child it does nothing. Not thread-safe.
class StatusFile {
 public:
  /// A name in a folder, which is made where it is missing (its parent has to be there); empty: own_pools_folder().
  /// Fails where it cannot be used (permission_denied: others could put files of theirs in its place). The clock must
  /// outlive it.
  static Result<std::unique_ptr<StatusFile>> create(const std::filesystem::path& folder, Clock& clock);
  StatusFile(const StatusFile&) = delete;
  StatusFile& operator=(const StatusFile&) = delete;
  ~StatusFile();

  /// Tells `status`; its process and time are filled in. Writes nothing where nothing has changed, but once an hour
  /// sets the file's time: other pid namespaces take a file that is a day old for left behind.
  Result<void> write(PublishedPool status);

  const std::filesystem::path& file() const { return file_; }

 private:
  StatusFile(std::filesystem::path file, Clock& clock);

  const std::filesystem::path file_;
  Clock& clock_;
  const pid_t process_;
  PublishedPool last_;       ///< as written
  Clock::WallTime touched_;  ///< when the file was last written, or its time set
};

}  // namespace gpuwarden::pools
