// SPDX-License-Identifier: Apache-2.0
#include "support/attentive.hpp"

#include <utility>

namespace gpuwarden::python {

namespace {

thread_local AttentiveCall* current_call = nullptr;

class AttentiveClock final : public Clock {
 public:
  SteadyTime now() const override { return system_clock().now(); }
  WallTime wall_now() const override { return system_clock().wall_now(); }
  bool sleep_for(std::chrono::nanoseconds duration, const std::stop_token& stop) override {
    AttentiveCall* const call = AttentiveCall::current();
    if (call == nullptr) return system_clock().sleep_for(duration, stop);
    const auto deadline = now() + duration;
    for (;;) {
      const auto left = deadline - now();
      if (left <= left.zero()) return !stop.stop_requested();
      if (!system_clock().sleep_for(std::min<std::chrono::nanoseconds>(left, kSignalPeriod), stop)) return false;
      call->look();
    }
  }
};

}  // namespace

AttentiveCall::AttentiveCall() : before_(std::exchange(current_call, this)) {}
AttentiveCall::~AttentiveCall() { current_call = before_; }
AttentiveCall* AttentiveCall::current() { return current_call; }

void AttentiveCall::look() {
  const nb::gil_scoped_acquire locked;
  if (raised_ || PyErr_CheckSignals() == 0) return;
  raised_.emplace();
  stop_.request_stop();
}

void AttentiveCall::rethrow() {
  if (raised_) throw nb::python_error(std::move(*raised_));
}

Clock& attentive_clock() {
  static AttentiveClock clock;
  return clock;
}

}  // namespace gpuwarden::python
