// SPDX-License-Identifier: Apache-2.0
// Reading and writing whole files, with errors that name the file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden {

inline constexpr std::size_t kDefaultFileCap = std::size_t{64} << 20U;

/// The whole file as bytes; fails with not_found / permission_denied, or invalid_argument beyond `cap` bytes.
Result<std::string> read_file(const std::filesystem::path& path, std::size_t cap = kDefaultFileCap);

/// All that comes from an open descriptor until its end, waiting for it; fails like read_file, naming `name`.
Result<std::string> read_descriptor(int fd, const std::string& name, std::size_t cap = kDefaultFileCap);

/// All of the content into an open descriptor; fails with the system's reason, naming `name`.
Result<void> write_descriptor(int fd, std::string_view content, const std::string& name);

/// The file's first line without white space at its ends, as /proc and /sys files are read; nothing where unreadable.
std::optional<std::string> read_line(const std::filesystem::path& path);

/// Writes beside `path` and renames over it, so that a reader sees the old or the new content, never half of one. The
/// file gets `mode` without what the process's umask takes.
Result<void> write_file_atomically(const std::filesystem::path& path, std::string_view content, unsigned mode = 0666);

/// Writes to where a user points: "-" is standard output, a link is followed (but not another user's in a folder that
/// all may write to: permission_denied), and what is no regular file (a pipe, a device) is written into as it stands,
/// as are /dev/stdout and its kin; a file is replaced as above.
Result<void> write_output(const std::filesystem::path& path, std::string_view content);
/// Whether write_output() would be allowed to write there, tried before work that takes long.
bool can_write_output(const std::filesystem::path& path);

/// The entries of a folder, sorted; empty where it cannot be read. Never throws, unlike the standard iterators.
std::vector<std::filesystem::path> list_directory(const std::filesystem::path& folder);

}  // namespace gpuwarden
