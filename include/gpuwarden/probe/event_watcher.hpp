// SPDX-License-Identifier: Apache-2.0
// Tells of what happens to this machine's GPUs - Xids, memory errors, changes of clocks, P-state and MIG - the moment
// the driver reports it. NVML waits in a child process that can be killed, so that nothing the driver does hangs the
// caller.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "gpuwarden/base/ids.hpp"
#include "gpuwarden/base/result.hpp"
#include "gpuwarden/facts/gpu_event.hpp"
#include "gpuwarden/probe/nvml_reader.hpp"

namespace gpuwarden::probe {

/// Watches from its making until it is stopped or destroyed. GPUs that report no events (many GeForce report only
/// Xids), and those that sleep, are left out.
class EventWatcher {
 public:
  /// Called from the watcher's thread, one at a time; they must not throw. Either may be empty.
  struct Handlers {
    /// All GPUs are being watched from now on: what happens later will be told.
    std::function<void()> watching;
    std::function<void(const facts::GpuEvent&)> event;
    /// Watching ended by itself, called once and as the last: unavailable (no driver, no GPU that reports events, the
    /// child process was killed), timed_out (the driver does not answer).
    std::function<void(const Error&)> ended;
  };

  /// `only`: the GPUs to watch, by UUID (no MIG instances); none: all of the machine.
  EventWatcher(ReaderOptions options, Handlers handlers, std::vector<Uuid> only = {});
  EventWatcher(const EventWatcher&) = delete;
  EventWatcher& operator=(const EventWatcher&) = delete;
  ~EventWatcher();

  /// Stops at once, whatever the driver does. When it has returned no handler is called any more; a handler may call
  /// it.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpuwarden::probe
