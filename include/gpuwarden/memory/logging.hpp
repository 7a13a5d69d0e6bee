// SPDX-License-Identifier: Apache-2.0
// Writes what goes through as a trace that can be replayed.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <mutex>
#include <ostream>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/memory/resource.hpp"

namespace gpuwarden::memory {

/// Writes CSV with the columns op (a or f), id, size, stream, time_us (since the beginning) and phase, as
/// gpuwarden memory replay reads it; what fails is not in it. All must outlive it.
template <DeviceResource Inner>
class LoggingResource {
 public:
  LoggingResource(Inner& inner, std::ostream& out, const Clock& clock)
      : inner_(inner), out_(out), clock_(clock), begin_(clock.now()) {
    out_ << "op,id,size,stream,time_us,phase\n";
  }

  Result<DeviceAddress> allocate(Bytes size, StreamId stream) {
    // One lock around both, so that the trace has the order in which things happened.
    const std::lock_guard lock(mutex_);
    auto address = inner_.allocate(size, stream);
    if (!address) return address;
    ids_[*address] = ++last_id_;
    write('a', last_id_, size, stream);
    return address;
  }

  Result<void> deallocate(DeviceAddress address, Bytes size, StreamId stream) {
    const std::lock_guard lock(mutex_);
    auto result = inner_.deallocate(address, size, stream);
    if (!result) return result;
    if (const auto found = ids_.find(address); found != ids_.end()) {
      write('f', found->second, size, stream);
      ids_.erase(found);
    }
    return result;
  }

  /// Gives what was written so far to the file behind the stream.
  void flush() {
    const std::lock_guard lock(mutex_);
    out_.flush();
  }

 private:
  void write(char operation, std::uint64_t id, Bytes size, StreamId stream) {
    const auto time = std::chrono::duration_cast<std::chrono::microseconds>(clock_.now() - begin_);
    out_ << fmt::format("{},{},{},{},{},rec\n", operation, id, size.value, stream.value, time.count());
  }

  Inner& inner_;
  std::ostream& out_;
  const Clock& clock_;
  const Clock::SteadyTime begin_;
  std::mutex mutex_;
  std::map<DeviceAddress, std::uint64_t> ids_;
  std::uint64_t last_id_ = 0;
};

}  // namespace gpuwarden::memory
