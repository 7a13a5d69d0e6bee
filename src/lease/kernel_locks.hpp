// SPDX-License-Identifier: Apache-2.0
// What the kernel tells of locks and of the processes that hold them: /proc/locks, /proc/PID. No user writes these.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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
/// A flock and the process that took it. That process may have ended, while those that inherited the descriptor live;
/// its pid is 0 where it is in another pid namespace.
struct KernelLock {
  Pid pid;
  FileKey file;
};
/// "1: FLOCK  ADVISORY  WRITE 16300 00:16:4777 0 EOF"; nothing for locks of other kinds.
std::optional<KernelLock> parse_lock(std::string_view line);
/// A process that lives.
struct Process {
  Pid pid;
  std::uint32_t uid = 0;
  std::string command;
};
/// Nothing for one that has ended or is hidden from the caller.
std::optional<Process> find_process(const std::filesystem::path& proc_root, Pid pid);

/// Its parent, that one's parent and so on, but for init.
std::vector<Pid> ancestors_of(const std::filesystem::path& proc_root, Pid pid);

/// Whether the process is that user's, as far as the caller may know.
bool is_of_user(const std::filesystem::path& proc_root, Pid pid, std::uint32_t uid);

/// All locks that the caller may see, at one moment.
class LockTable {
 public:
  explicit LockTable(std::filesystem::path proc_root);
  /// How /proc/locks names an open file: its device is that of the mount, which on btrfs and overlayfs is not what
  /// stat() tells.
  std::optional<FileKey> key_of(const UniqueFd& file) const;
  /// Those that took a lock of the file.
  std::vector<Pid> on(const UniqueFd& file) const;
  /// Those of them that live and, as far as the caller may know, still hold it.
  std::vector<Process> takers_of(const UniqueFd& file) const;
  /// Whether the process is seen to hold a lock of the file.
  bool is_held_by(Pid pid, const UniqueFd& file) const;
  /// All processes that the caller can see holding a lock of the file: those that took it, and where these have ended,
  /// those that inherited it.
  std::vector<Process> holders_of(const UniqueFd& file) const;

 private:
  std::filesystem::path proc_root_;
  std::vector<KernelLock> locks_;
  /// By the device that stat() tells.
  mutable std::map<std::uint64_t, std::pair<std::uint32_t, std::uint32_t>> devices_;
};

/// The user's name; the number where there is none.
std::string user_name(std::uint32_t uid);

}  // namespace gpuwarden::lease
