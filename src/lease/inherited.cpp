// SPDX-License-Identifier: Apache-2.0
#include "lease/inherited.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <string>

#include "gpuwarden/base/file.hpp"
#include "gpuwarden/base/text.hpp"
#include "lease/device_locks.hpp"
#include "lease/lock_file.hpp"

namespace gpuwarden::lease {
namespace {

namespace fs = std::filesystem;

/// Stands before the UUID in the names of the next level's files, once for each level.
constexpr const char* kWithin = "within-";
constexpr int kMostLevels = 16;

struct OpenLock {
  int descriptor = -1;
  dev_t device = 0;
  ino_t inode = 0;
};

/// "lock:  1: FLOCK  ADVISORY  WRITE 16300 00:16:4777 0 EOF": told of the very open file that has the lock.
bool has_exclusive_lock(int descriptor) {
  const auto told = read_file(fmt::format("/proc/self/fdinfo/{}", descriptor));
  if (!told) return false;
  return std::ranges::any_of(split(*told, '\n'), [](std::string_view line) {
    return line.starts_with("lock:") && line.contains(" FLOCK ") && line.contains(" WRITE ");
  });
}

std::vector<OpenLock> find_open_locks() {
  std::vector<OpenLock> found;
  for (const fs::path& path : list_directory("/proc/self/fd")) {
    const auto number = parse_integer(path.filename().string());
    struct stat info{};
    if (!number || *number < 3 || ::fstat(static_cast<int>(*number), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    const int descriptor = static_cast<int>(*number);
    if (has_exclusive_lock(descriptor)) found.push_back({descriptor, info.st_dev, info.st_ino});
  }
  return found;
}

const std::vector<OpenLock>& inherited_locks() {
  static const std::vector<OpenLock> locks = find_open_locks();
  return locks;
}

/// The descriptor that was inherited with a lock of the file, and still has it.
std::optional<int> inherited_lock_of(const fs::path& path) {
  struct stat named{};
  if (inherited_locks().empty() || ::lstat(path.c_str(), &named) != 0) return std::nullopt;
  for (const OpenLock& lock : inherited_locks()) {
    struct stat open{};
    if (lock.device != named.st_dev || lock.inode != named.st_ino) continue;
    const bool is_same =
        ::fstat(lock.descriptor, &open) == 0 && open.st_dev == lock.device && open.st_ino == lock.inode;
    if (is_same && has_exclusive_lock(lock.descriptor)) return lock.descriptor;
  }
  return std::nullopt;
}

/// Those that hold the device; none where somebody else holds one of its files.
std::vector<int> inherited_of(const StoreOptions& options, const Device& device) {
  std::vector<int> descriptors;
  if (inherited_locks().empty()) return descriptors;
  for (const fs::path& path : {device.kernel_file, lock_path(options, device.uuid)}) {
    if (path.empty()) continue;
    if (const auto own = inherited_lock_of(path))
      descriptors.push_back(*own);
    else if (glance_at(path).value_or(LockState::free) != LockState::free)
      return {};
  }
  return descriptors;
}

}  // namespace

void note_inherited_locks() { inherited_locks(); }

Level level_of(const StoreOptions& options, const Device& device) {
  Level level{options, device, {}};
  for (int i = 0; i < kMostLevels; ++i) {
    const std::vector<int> own = inherited_of(level.options, level.device);
    if (own.empty()) break;
    level.inherited.insert(level.inherited.end(), own.begin(), own.end());
    level.options.prefix += kWithin;
    level.device.kernel_file.clear();
  }
  return level;
}

}  // namespace gpuwarden::lease
