// SPDX-License-Identifier: Apache-2.0
// What the kernel tells of locks and of the processes that hold them: /proc/locks, /proc/PID. No user writes these.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/unique_fd.hpp"

namespace gpuwarden::lease {

/// A file as /proc/locks names it.
struct FileKey {
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  std::uint64_t inode = 0;
  auto operator<=>(const FileKey&) const = default;
};
/// Of an open file. Its device is that of the mount, which on btrfs and overlayfs is not what stat() tells.
std::optional<FileKey> key_of(const UniqueFd& fd);

/// A flock and the process that took it. That process may have ended, while those that inherited the descriptor live;
/// its pid is 0 where it is in another pid namespace.
struct KernelLock {
  Pid pid;
  FileKey file;
};
/// "1: FLOCK  ADVISORY  WRITE 16300 00:16:4777 0 EOF"; nothing for locks of other kinds.
std::optional<KernelLock> parse_lock(std::string_view line);
/// All that the caller may see.
std::vector<KernelLock> read_locks(const std::filesystem::path& proc_root);

/// A process that lives.
struct Process {
  Pid pid;
  std::uint32_t uid = 0;
  std::string command;
};
/// Nothing for one that has ended or is hidden from the caller.
std::optional<Process> find_process(const std::filesystem::path& proc_root, Pid pid);

enum class Holds { yes, no, not_told };
/// Whether one of a process's descriptors holds a lock of the open file; not_told where its descriptors are hidden.
Holds holds_lock(const std::filesystem::path& proc_root, Pid pid, const UniqueFd& file, const FileKey& key);

/// All processes that the caller can see holding a lock of the file: those that took it, and where these have ended,
/// those that inherited it.
std::vector<Process> lock_holders(const std::filesystem::path& proc_root, const std::vector<KernelLock>& locks,
                                  const UniqueFd& file);

/// The user's name; the number where there is none.
std::string user_name(std::uint32_t uid);

}  // namespace gpuwarden::lease
