// SPDX-License-Identifier: Apache-2.0
// Files that are locked: the kernel's own of a device, and those in a directory that all users of a machine share.
#pragma once

#include <filesystem>
#include <optional>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/base/unique_fd.hpp"

namespace gpuwarden::lease {

/// Makes the directory with mode 01777 where it is missing. Fails with permission_denied and a hint.
Result<void> prepare_directory(const std::filesystem::path& directory);

/// Opens a lock file for flock, making it (0666, whatever the umask) if need be. An existing one is opened without
/// O_CREAT, which fs.protected_regular refuses on other users' files in sticky directories. Symbolic links are refused.
Result<UniqueFd> open_lock_file(const std::filesystem::path& path, bool close_on_exec);

/// A path that opens the file behind a descriptor of this process anew, with locks of its own.
std::filesystem::path path_of_descriptor(int descriptor);
bool is_path_of_descriptor(const std::filesystem::path& path);

/// An existing file, to be locked only (flock needs no right to write); nothing when it is missing, no regular file, or
/// not readable, with errno as its reason.
std::optional<UniqueFd> open_existing_lock_file(const std::filesystem::path& path, bool close_on_exec = true);

/// Whether the path still names the open file: it may have been removed, or replaced by another.
bool is_at(const UniqueFd& fd, const std::filesystem::path& path);

enum class LockResult { had, taken, impossible };
/// flock without waiting; `impossible` where the file system has no such locks, with errno as its reason.
LockResult try_lock(const UniqueFd& fd, bool exclusive);

enum class LockState { free, shared, exclusive };
/// By trying, under the gate, where that cannot make a claim fail; nothing where the file cannot be locked at all.
std::optional<LockState> state_of(const std::filesystem::path& path);
/// The same without the gate: only a shared lock is tried, so that those who look at the same moment do not take each
/// other for holders. Shared holders are not seen.
std::optional<LockState> glance_at(const std::filesystem::path& path);

}  // namespace gpuwarden::lease
