// SPDX-License-Identifier: Apache-2.0
// A .tar.gz in memory: nothing of it ever touches the disk, so that a hostile one can overwrite nothing.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::bundle {

/// A plain file.
struct ArchiveEntry {
  std::string name;  ///< with its folders
  std::string content;
};

/// What an archive may hold. A bundle has some MiB; anything beyond this is no bundle, whatever its beginning says.
struct ArchiveLimits {
  std::size_t entries = 256;
  std::size_t entry_bytes = std::size_t{128} << 20U;
  std::size_t all_bytes = std::size_t{256} << 20U;
};

/// The entries as a gzipped tar (POSIX.1-2001), each readable by its owner only.
Result<std::string> pack(const std::vector<ArchiveEntry>& entries, std::chrono::system_clock::time_point time);

/// Whether the bytes begin as a gzipped file or a tar does.
bool is_archive(std::string_view bytes);

/// Reads a tar, gzipped or not. Fails with corrupt, naming what is wrong with `name`: truncated or damaged data, a path
/// that leads out of the archive, anything but plain files and folders, one name twice, more than the limits allow.
Result<std::vector<ArchiveEntry>> unpack(std::string_view bytes, std::string_view name,
                                         const ArchiveLimits& limits = {});

/// The content of one gzipped file that is no tar (a log that was rotated). Fails like unpack.
Result<std::string> unzip(std::string_view bytes, std::string_view name, const ArchiveLimits& limits = {});

}  // namespace gpuwarden::bundle
