// SPDX-License-Identifier: Apache-2.0
// Waiting in the thread that called, while Ctrl-C is heard: for work that must not move to another thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <stop_token>

#include "gpuwarden/base/clock.hpp"
#include "support/support.hpp"

namespace gpuwarden::python {

/// A call that is under way in this thread, and what a signal handler of Python raised in it.
class AttentiveCall {
 public:
  AttentiveCall();
  AttentiveCall(const AttentiveCall&) = delete;
  AttentiveCall& operator=(const AttentiveCall&) = delete;
  ~AttentiveCall();
  /// That of the calling thread; nullptr outside one.
  static AttentiveCall* current();

  std::stop_token stop() const { return stop_.get_token(); }
  /// Runs signal handlers; one that raises stops the call. Without the interpreter's lock.
  void look();
  /// Throws what was raised. With the interpreter's lock.
  void rethrow();

 private:
  std::stop_source stop_;
  std::optional<nb::python_error> raised_;
  AttentiveCall* before_;
};

/// The machine's clock; it hears signals while it waits within an AttentiveCall.
Clock& attentive_clock();

/// `work(stop)` in this thread; raises what a signal handler raised meanwhile.
template <class Work>
auto attentive(Work work) {
  AttentiveCall call;
  auto result = work(call.stop());
  call.rethrow();
  return result;
}

/// Whether `wait(time)`, which is called again and again without the interpreter's lock, said yes within `time`.
template <class Wait>
bool wait_attentively(std::chrono::milliseconds time, Wait wait) {
  const auto deadline = system_clock().now() + time;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - system_clock().now());
    if (without_gil([&] { return wait(std::clamp(left, std::chrono::milliseconds(0), kSignalPeriod)); })) return true;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (left <= kSignalPeriod) return false;
  }
}

}  // namespace gpuwarden::python
