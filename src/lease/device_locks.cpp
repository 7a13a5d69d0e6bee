// SPDX-License-Identifier: Apache-2.0
#include "lease/device_locks.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "lease/inherited.hpp"

namespace gpuwarden::lease {
namespace {

namespace fs = std::filesystem;

/// A UUID that is safe as a file name.
bool is_plain(const Uuid& uuid) {
  return !uuid.value.empty() && uuid.value.size() < 128 && uuid.value[0] != '.' &&
         uuid.value.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") ==
             std::string::npos;
}

std::string reason_of(int error) { return std::generic_category().message(error); }

/// False where somebody else has it. A process that is out of descriptors gets no lease with a gap.
Result<bool> lock_kernel_file(DeviceLock& lock, bool exclusive) {
  const fs::path& path = lock.device.kernel_file;
  if (path.empty()) {
    lock.without_kernel = "the kernel has no file of it";
    return true;
  }
  auto fd = open_existing_lock_file(path, false);
  if (!fd && (errno == EMFILE || errno == ENFILE))
    return std::unexpected(error_from_errno(errno, "cannot lock " + path.string()));
  const LockResult result = fd ? try_lock(*fd, exclusive) : LockResult::impossible;
  if (result == LockResult::taken) return false;
  if (result == LockResult::had)
    lock.kernel = std::move(*fd);
  else
    lock.without_kernel = fmt::format("{}: {}", path.string(), reason_of(errno));
  return true;
}

/// The same in the directory.
Result<bool> lock_folder_file(const fs::path& path, DeviceLock& lock, bool exclusive) {
  for (int attempt = 0; attempt < 5; ++attempt) {
    GPUWARDEN_TRY(UniqueFd fd, open_lock_file(path, false));
    const LockResult result = try_lock(fd, exclusive);
    if (result == LockResult::taken) return false;
    if (result == LockResult::impossible)
      return std::unexpected(error_from_errno(errno, "cannot lock " + path.string()));
    // Removed or replaced in between: others would lock another file.
    if (!is_at(fd, path)) continue;
    lock.shared_folder = std::move(fd);
    return true;
  }
  return fail(ErrorCode::failed, fmt::format("{} keeps being replaced", path.string()));
}

}  // namespace

std::string record_prefix(const StoreOptions& options, const Uuid& uuid) { return options.prefix + uuid.value + "@"; }

fs::path lock_path(const StoreOptions& options, const Uuid& uuid) {
  return options.directory / (options.prefix + uuid.value + ".lock");
}

std::vector<fs::path> lock_files(const StoreOptions& options, const Device& device) {
  std::vector<fs::path> files;
  if (!device.kernel_file.empty()) files.push_back(device.kernel_file);
  if (!is_within(options)) files.push_back(lock_path(options, device.uuid));
  return files;
}

namespace {

/// The next level's lock; false where another command of the same lease has it.
Result<bool> lock_ground(DeviceLock& lock, const std::vector<int>& inherited, bool exclusive) {
  for (const int fd : inherited) {
    lock.inherited.emplace_back(::fcntl(fd, F_DUPFD, 3));
    if (!lock.inherited.back())
      return std::unexpected(error_from_errno(errno, "cannot keep the lease of " + lock.device.uuid.value));
  }
  if (lock.device.kernel_file.empty()) {
    lock.without_folder = "the lease above brought no file for it";
    return true;
  }
  GPUWARDEN_TRY(const bool had, lock_kernel_file(lock, exclusive));
  lock.without_folder = std::exchange(lock.without_kernel, "");
  return had;
}

}  // namespace

Result<std::optional<DeviceLock>> lock_device(const StoreOptions& options, const std::optional<Error>& no_directory,
                                              const Device& device, bool exclusive) {
  if (!is_plain(device.uuid))
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a GPU's UUID", printable(device.uuid.value)));
  Level level = level_of(options, device);
  DeviceLock lock{std::move(level.options), std::move(level.device), {}, {}, {}, {}, {}, {}};
  if (exclusive) {
    GPUWARDEN_TRY(lock.ground, make_ground(lock.options, device.uuid));
  }
  if (!level.inherited.empty()) {
    GPUWARDEN_TRY(const bool had, lock_ground(lock, level.inherited, exclusive));
    return had ? std::optional(std::move(lock)) : std::nullopt;
  }
  GPUWARDEN_TRY(const bool alone, lock_kernel_file(lock, exclusive));
  if (!alone) return std::nullopt;
  std::optional<Error> problem = no_directory;
  if (!problem) {
    auto had = lock_folder_file(lock_path(lock.options, device.uuid), lock, exclusive);
    if (had && !*had) return std::nullopt;
    if (!had) problem = std::move(had.error());
  }
  if (problem && !lock.kernel) return std::unexpected(std::move(*problem));
  if (problem) lock.without_folder = problem->message;
  return lock;
}

std::vector<std::string> gaps_of(const StoreOptions& options, const std::vector<DeviceLock>& locks) {
  std::vector<std::string> sentences;
  const DeviceLock* no_kernel = nullptr;
  const DeviceLock* no_folder = nullptr;
  std::size_t count = 0;
  for (const DeviceLock& lock : locks) {
    if (!lock.without_kernel.empty() && ++count == 1) no_kernel = &lock;
    if (!lock.without_folder.empty() && (no_folder == nullptr || lock.inherited.empty())) no_folder = &lock;
  }
  if (no_kernel != nullptr) {
    const std::string others = count > 1 ? fmt::format(" and {} more", count - 1) : "";
    sentences.push_back(
        fmt::format("{}{}: reserved through the lease directory {} alone ({}): users who remove lock files there can "
                    "take it",
                    no_kernel->device.uuid.value, others, options.directory.string(), no_kernel->without_kernel));
  }
  if (no_folder != nullptr)
    sentences.push_back(fmt::format("not reserved against other {}: {}",
                                    no_folder->inherited.empty() ? "containers" : "commands of the same lease",
                                    no_folder->without_folder));
  return sentences;
}

}  // namespace gpuwarden::lease
