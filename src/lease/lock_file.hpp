// SPDX-License-Identifier: Apache-2.0
// Lock files in a directory that all users of a machine share.
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
/// The same, but nothing when the file does not exist.
std::optional<UniqueFd> open_existing_lock_file(const std::filesystem::path& path);

/// flock without waiting; true when it was had.
bool try_lock(const UniqueFd& fd, bool exclusive);

}  // namespace gpuwarden::lease
