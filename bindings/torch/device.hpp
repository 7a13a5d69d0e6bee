// SPDX-License-Identifier: Apache-2.0
// One device's pool with what PyTorch needs beside it: a trace, and memory apart for its graphs.
#pragma once

#include <unistd.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/memory/logging.hpp"
#include "gpuwarden/pools/device_pool.hpp"
#include "settings.hpp"

namespace gpuwarden::torch {

/// PyTorch's name for a group of graphs that share memory (c10::cuda::MempoolId_t).
using GroupId = std::pair<unsigned long long, unsigned long long>;
/// Whether a stream belongs to a capture.
using StreamFilter = std::function<bool(memory::StreamId)>;

class Device {
 public:
  /// The pool of CUDA's device `ordinal`. Its trace goes to the settings' file, for other devices than 0 with their
  /// number behind the name.
  static Result<std::unique_ptr<Device>> open(unsigned ordinal, const Settings& settings);

  ~Device();

  Result<memory::DeviceAddress> allocate(Bytes size, memory::StreamId stream);
  Result<void> deallocate(memory::DeviceAddress address, Bytes size, memory::StreamId stream);
  memory::Pool& pool() { return on_device_->pool(); }
  Result<void> set_limit(const memory::MemoryLimit& limit) { return on_device_->set_limit(limit); }

  /// From now on memory for the streams that the filter lets through belongs to the group, until end().
  void begin(GroupId group, StreamFilter filter);
  Result<void> end(GroupId group);
  /// The group's graphs are gone: their memory can be used by all once the device has done its work.
  Result<void> release(GroupId group);

  /// The program ends: writes what of the trace is still in memory, and what is asked for at the end.
  void finish();

 private:
  struct Trace {
    std::ofstream file;
    memory::LoggingResource<memory::Pool> resource;
    pid_t process;  ///< the one that writes it

    Trace(std::ofstream opened, memory::Pool& pool)
        : file(std::move(opened)), resource(pool, file, system_clock()), process(::getpid()) {}
  };
  struct Group {
    StreamFilter filter;  ///< empty: no capture is under way
    std::optional<memory::CaptureId> capture;
    std::vector<memory::StreamId> streams;  ///< in the capture under way
  };

  explicit Device(const Settings& settings) : observer_(settings.observer) {}
  Result<void> join_captures(memory::StreamId stream);

  bindings::PoolObserver observer_;
  std::unique_ptr<pools::DevicePool> on_device_;
  std::unique_ptr<Trace> trace_;
  std::mutex mutex_;  ///< of the groups
  std::map<GroupId, Group> groups_;
  std::atomic<unsigned> captures_ = 0;  ///< under way
};

}  // namespace gpuwarden::torch
