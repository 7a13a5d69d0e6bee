// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/pools/status_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <iterator>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "gpuwarden/base/file.hpp"

namespace gpuwarden::pools {
namespace {

/// Of this process's files, so that each has a name of its own.
std::atomic<unsigned> next_number = 0;

/// So often a file's time is set anew while nothing changes, long before others take it for left behind.
constexpr std::chrono::hours kTouchEvery{1};

/// Others must not be able to put files of theirs in the place of ours. `may_be_shared`: a folder that all write to
/// will do where nobody but root can replace what is not theirs.
Result<void> prepare(const std::filesystem::path& folder, bool may_be_shared) {
  const auto refuse = [&] { return std::unexpected(error_from_errno(errno, "cannot use " + folder.string())); };
  if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) return refuse();
  struct stat info{};
  if (::lstat(folder.c_str(), &info) != 0) return refuse();
  const bool is_own = info.st_uid == ::geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  // In a sticky folder its owner, too, may remove what is not theirs.
  const bool is_shared =
      may_be_shared && (info.st_mode & S_ISVTX) != 0 && (info.st_uid == 0 || info.st_uid == ::geteuid());
  if (S_ISDIR(info.st_mode) && (is_own || is_shared)) return {};
  return fail(ErrorCode::permission_denied,
              fmt::format("{} is not a directory that only this user can write to", folder.string()),
              "remove it, or name another one in GPUWARDEN_MEMORY_DIR");
}

/// The number in "pid:[4026531836]": containers may share the folder, and have the same process IDs.
std::string number_of(std::string_view pid_namespace) {
  std::string digits;
  std::ranges::copy_if(pid_namespace, std::back_inserter(digits), [](char one) { return one >= '0' && one <= '9'; });
  return digits.empty() ? "0" : digits;
}

}  // namespace

StatusFile::StatusFile(std::filesystem::path file, Clock& clock)
    : file_(std::move(file)), clock_(clock), process_(::getpid()) {
  last_.process = own_mark();
}

Result<std::unique_ptr<StatusFile>> StatusFile::create(const std::filesystem::path& folder, Clock& clock) {
  const std::filesystem::path used = folder.empty() ? own_pools_folder() : folder;
  GPUWARDEN_CHECK(prepare(used, !folder.empty()));
  // What killed processes left.
  static_cast<void>(published_pools({used}));
  std::filesystem::path file =
      used / fmt::format("pool-{}-{}-{}", number_of(own_mark().pid_namespace), ::getpid(), next_number.fetch_add(1));
  return std::unique_ptr<StatusFile>(new StatusFile(std::move(file), clock));
}

StatusFile::~StatusFile() {
  // A forked child has the object, but not the file.
  if (::getpid() == process_) ::unlink(file_.c_str());
}

Result<void> StatusFile::write(PublishedPool status) try {
  if (::getpid() != process_) return {};
  status.process = last_.process;
  status.time_unix_ms = last_.time_unix_ms;
  const Clock::WallTime wall = clock_.wall_now();
  if (status == last_) {
    if (wall - touched_ < kTouchEvery) return {};
    touched_ = wall;
    // Where that fails, the file is gone: it is written again.
    if (::utimensat(AT_FDCWD, file_.c_str(), nullptr, AT_SYMLINK_NOFOLLOW) == 0) return {};
  }
  touched_ = wall;
  status.time_unix_ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(wall.time_since_epoch()).count());
  GPUWARDEN_CHECK(write_file_atomically(file_, to_text(status), 0644));
  last_ = std::move(status);
  return {};
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::failed, "out of host memory");
}

}  // namespace gpuwarden::pools
