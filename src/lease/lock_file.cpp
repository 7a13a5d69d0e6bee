// SPDX-License-Identifier: Apache-2.0
#include "lease/lock_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "gpuwarden/base/scope_guard.hpp"

namespace gpuwarden::lease {
namespace {

constexpr const char* kDirectoryHint =
    "leases need a directory that all users can write: ask the administrator for systemd-tmpfiles --create, or name "
    "another one with GPUWARDEN_LEASE_DIR";

constexpr const char* kDescriptors = "/proc/self/fd";

bool is_regular(const UniqueFd& fd) {
  struct stat info{};
  return ::fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode);
}

/// An existing file, read-write if permitted: flock works on either.
UniqueFd open_existing(const std::filesystem::path& path, int flags) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | flags));
  if (!fd && errno == EACCES) fd.reset(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | flags));
  return fd;
}

}  // namespace

Result<void> prepare_directory(const std::filesystem::path& directory) {
  const auto refuse = [&](int error) {
    Error told = error_from_errno(error, "the lease directory " + directory.string() + " cannot be used");
    told.code = ErrorCode::permission_denied;
    told.hint = kDirectoryHint;
    return std::unexpected(std::move(told));
  };
  std::error_code ignored;
  if (directory.has_parent_path()) std::filesystem::create_directories(directory.parent_path(), ignored);
  if (::mkdir(directory.c_str(), 0777) == 0) {
    // mkdir's mode is cut by the umask; chmod's is not.
    if (::chmod(directory.c_str(), 01777) != 0) return refuse(errno);
  } else if (errno != EEXIST) {
    return refuse(errno);
  }
  struct stat info{};
  if (::stat(directory.c_str(), &info) != 0) return refuse(errno);
  if (!S_ISDIR(info.st_mode)) return refuse(ENOTDIR);
  if (::access(directory.c_str(), R_OK | W_OK | X_OK) != 0) return refuse(errno);
  return {};
}

std::filesystem::path path_of_descriptor(int descriptor) { return fmt::format("{}/{}", kDescriptors, descriptor); }

bool is_path_of_descriptor(const std::filesystem::path& path) { return path.parent_path() == kDescriptors; }

std::optional<UniqueFd> open_existing_lock_file(const std::filesystem::path& path, bool close_on_exec) {
  const int links = is_path_of_descriptor(path) ? 0 : O_NOFOLLOW;
  UniqueFd fd(::open(path.c_str(), O_RDONLY | links | O_NONBLOCK | (close_on_exec ? O_CLOEXEC : 0)));
  if (fd && is_regular(fd)) return fd;
  if (fd) errno = EINVAL;
  return std::nullopt;
}

Result<UniqueFd> open_lock_file(const std::filesystem::path& path, bool close_on_exec) {
  const int flags = close_on_exec ? O_CLOEXEC : 0;
  for (int attempt = 0; attempt < 3; ++attempt) {
    UniqueFd fd = open_existing(path, flags);
    if (fd && is_regular(fd)) return fd;
    if (fd)
      return fail(ErrorCode::permission_denied, fmt::format("{} is not a regular file", path.string()), kDirectoryHint);
    if (errno != ENOENT) break;
    fd.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | flags, 0666));
    if (fd) {
      ::fchmod(fd.get(), 0666);
      return fd;
    }
    if (errno != EEXIST) break;
  }
  Error error = error_from_errno(errno, "cannot open the lease file " + path.string());
  error.code = ErrorCode::permission_denied;
  error.hint = kDirectoryHint;
  return std::unexpected(std::move(error));
}

bool is_at(const UniqueFd& fd, const std::filesystem::path& path) {
  struct stat open{};
  struct stat named{};
  return ::fstat(fd.get(), &open) == 0 && ::lstat(path.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

LockResult try_lock(const UniqueFd& fd, bool exclusive) {
  int result = 0;
  do {
    result = ::flock(fd.get(), (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return LockResult::had;
  return errno == EWOULDBLOCK ? LockResult::taken : LockResult::impossible;
}

std::optional<LockState> state_of(const std::filesystem::path& path) {
  const auto fd = open_existing_lock_file(path);
  if (!fd) return std::nullopt;
  // A child that was started meanwhile has the descriptor too: closing it would not be enough.
  const ScopeGuard unlock([&] { ::flock(fd->get(), LOCK_UN); });
  const LockResult alone = try_lock(*fd, true);
  if (alone == LockResult::impossible) return std::nullopt;
  if (alone == LockResult::had) return LockState::free;
  return try_lock(*fd, false) == LockResult::had ? LockState::shared : LockState::exclusive;
}

std::optional<LockState> glance_at(const std::filesystem::path& path) {
  const auto fd = open_existing_lock_file(path);
  if (!fd) return std::nullopt;
  const ScopeGuard unlock([&] { ::flock(fd->get(), LOCK_UN); });
  const LockResult beside = try_lock(*fd, false);
  if (beside == LockResult::impossible) return std::nullopt;
  return beside == LockResult::had ? LockState::free : LockState::exclusive;
}

}  // namespace gpuwarden::lease
