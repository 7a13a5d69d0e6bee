// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/pools/pool_publisher.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <iterator>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "gpuwarden/base/file.hpp"

namespace gpuwarden::pools {
namespace {

namespace fs = std::filesystem;

/// Of this process's pools, so that each has a file of its own.
std::atomic<unsigned> next_number = 0;

/// So often a file's time is set anew while nothing changes, long before others take it for left behind.
constexpr std::chrono::hours kTouchEvery{1};

/// Others must not be able to put files of theirs in the place of ours. `may_be_shared`: a folder that all write to
/// will do where nobody but root can replace what is not theirs.
Result<void> prepare(const fs::path& folder, bool may_be_shared) {
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

PublishedPool status_of(DevicePool& on_device) {
  memory::Pool& pool = on_device.pool();
  const memory::PoolStatus status = pool.status();
  return {.process = {},
          .gpu = on_device.device().uuid(),
          .strategy = std::string(on_device.strategy().name),
          .time_unix_ms = 0,
          .live = status.live,
          .peak_live = status.peak_live,
          .requested = status.requested,
          .cached = status.cached,
          .free = status.free,
          .largest_free = status.largest_free,
          .reserved = status.reserved,
          .peak_reserved = status.peak_reserved,
          .limit = status.limit,
          .segments = pool.segments(),
          .live_blocks = status.live_blocks,
          .allocations = status.allocations,
          .out_of_memory = status.out_of_memory};
}

/// Keeps signals away from the threads that are begun meanwhile: the program's own threads are to take them.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace

PoolPublisher::PoolPublisher(DevicePool& pool, fs::path file, Clock& clock)
    : pool_(pool), file_(std::move(file)), clock_(clock), process_(::getpid()) {
  last_.process = own_mark();
}

Result<std::unique_ptr<PoolPublisher>> PoolPublisher::start(DevicePool& pool, const PublisherOptions& options,
                                                            Clock& clock) try {
  const fs::path folder = options.folder.empty() ? own_pools_folder() : options.folder;
  GPUWARDEN_CHECK(prepare(folder, !options.folder.empty()));
  // What killed processes left.
  static_cast<void>(published_pools({folder}));
  fs::path file =
      folder / fmt::format("pool-{}-{}-{}", number_of(own_mark().pid_namespace), ::getpid(), next_number.fetch_add(1));
  std::unique_ptr<PoolPublisher> publisher(new PoolPublisher(pool, std::move(file), clock));
  GPUWARDEN_CHECK(publisher->publish());
  const SignalsBlocked blocked;
  publisher->thread_ = std::jthread([self = publisher.get(), options](const std::stop_token& stop) {
    // What cannot be written now is written the next time.
    while (self->clock_.sleep_for(options.interval, stop)) static_cast<void>(self->publish());
  });
  return publisher;
} catch (const std::system_error& error) {
  return fail(ErrorCode::failed, fmt::format("cannot publish a pool's status: {}", error.what()));
}

PoolPublisher::~PoolPublisher() {
  if (::getpid() != process_) {
    // A forked child has the object, but neither the thread nor the file.
    if (thread_.joinable()) thread_.detach();
    return;
  }
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  ::unlink(file_.c_str());
}

Result<void> PoolPublisher::publish() try {
  PublishedPool now = status_of(pool_);
  now.process = last_.process;
  now.time_unix_ms = last_.time_unix_ms;
  const Clock::WallTime wall = clock_.wall_now();
  if (now == last_) {
    if (wall - touched_ < kTouchEvery) return {};
    touched_ = wall;
    // Where that fails, the file is gone: it is written again.
    if (::utimensat(AT_FDCWD, file_.c_str(), nullptr, AT_SYMLINK_NOFOLLOW) == 0) return {};
  }
  touched_ = wall;
  now.time_unix_ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(wall.time_since_epoch()).count());
  GPUWARDEN_CHECK(write_file_atomically(file_, to_text(now), 0644));
  last_ = std::move(now);
  return {};
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::failed, "out of host memory");
}

}  // namespace gpuwarden::pools
