// SPDX-License-Identifier: Apache-2.0
#include "lease/state_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "gpuwarden/base/file.hpp"

namespace gpuwarden::lease {

namespace fs = std::filesystem;

Result<StateFile> read_state_file(const fs::path& file, std::size_t largest) {
  StateFile state;
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd && (errno == ENOENT || errno == ENOTDIR)) return state;
  state.there = true;
  if (!fd && errno == ELOOP) {
    state.warning = fmt::format("{} is a symbolic link and is ignored", file.string());
    return state;
  }
  if (!fd) return fail(ErrorCode::permission_denied, std::strerror(errno));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return fail(ErrorCode::failed, std::strerror(errno));
  const bool trusted = status.st_uid == 0 || status.st_uid == ::geteuid();
  if (!S_ISREG(status.st_mode) || !trusted || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    state.warning =
        fmt::format("{} is ignored: it is not root's nor your own, or others may write to it", file.string());
    return state;
  }
  GPUWARDEN_TRY(state.text, read_descriptor(fd.get(), file.string(), largest));
  state.owner = status.st_uid;
  state.of_root = status.st_uid == 0;
  return state;
}

Result<void> make_state_folder(const fs::path& folder) {
  std::error_code error;
  // Those above it likewise: nobody gets below what others may not enter.
  if (folder.has_parent_path() && folder.parent_path() != folder && !fs::exists(folder.parent_path(), error) && !error)
    GPUWARDEN_CHECK(make_state_folder(folder.parent_path()));
  error.clear();
  const bool made = fs::create_directory(folder, error);
  if (error)
    return fail(error == std::errc::permission_denied ? ErrorCode::permission_denied : ErrorCode::failed,
                fmt::format("cannot make {}: {}", folder.string(), error.message()));
  // All must be able to read root's word, whatever root's umask is.
  if (made && ::geteuid() == 0) fs::permissions(folder, fs::perms(0755), error);
  return {};
}

Result<UniqueFd> lock_state_folder(const fs::path& folder, const char* lock_name) {
  GPUWARDEN_CHECK(make_state_folder(folder));
  const fs::path lock = folder / lock_name;
  UniqueFd fd(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return fail(ErrorCode::permission_denied, fmt::format("{}: {}", lock.string(), std::strerror(errno)));
  // Nobody else can open it, and who has it writes a small file.
  while (::flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return fail(ErrorCode::failed, fmt::format("{}: {}", lock.string(), std::strerror(errno)));
  }
  return fd;
}

Result<void> write_state_file(const fs::path& file, const std::string& text) {
  GPUWARDEN_CHECK(write_file_atomically(file, text, 0644));
  std::error_code error;
  if (::geteuid() == 0) fs::permissions(file, fs::perms(0644), error);
  if (error) return fail(ErrorCode::failed, fmt::format("{}: {}", file.string(), error.message()));
  return {};
}

}  // namespace gpuwarden::lease
