// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/pools/pool_publisher.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <system_error>
#include <utility>

namespace gpuwarden::pools {
namespace {

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

PoolPublisher::PoolPublisher(DevicePool& pool, std::unique_ptr<StatusFile> file, Clock& clock)
    : pool_(pool), file_(std::move(file)), clock_(clock), process_(::getpid()) {}

Result<std::unique_ptr<PoolPublisher>> PoolPublisher::start(DevicePool& pool, const PublisherOptions& options,
                                                            Clock& clock) try {
  GPUWARDEN_TRY(auto file, StatusFile::create(options.folder, clock));
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
    // A forked child has the object, but not the thread.
    if (thread_.joinable()) thread_.detach();
    return;
  }
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

Result<void> PoolPublisher::publish() { return file_->write(status_of(pool_)); }

}  // namespace gpuwarden::pools
