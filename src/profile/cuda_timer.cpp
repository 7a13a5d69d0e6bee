// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "gpuwarden/profile/device_timer.hpp"
#include "nvidia/cuda_library.hpp"

namespace gpuwarden::profile {
namespace {

using cuda::kSuccess;

/// The calling thread's context is made another one for a moment.
class Entered {
 public:
  Entered(const cuda::Symbols& driver, cuda::Context context)
      : driver_(driver), entered_(driver.cuCtxPushCurrent_v2(context) == kSuccess) {}
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  ~Entered() {
    cuda::Context before = nullptr;
    if (entered_) driver_.cuCtxPopCurrent_v2(&before);
  }
  explicit operator bool() const { return entered_; }

 private:
  const cuda::Symbols& driver_;
  bool entered_;
};

class CudaTimer final : public DeviceTimer {
 public:
  explicit CudaTimer(const cuda::Symbols& driver) : driver_(driver) {}

  // Events are left to their contexts, which may be gone before this is.

  Mark mark(StreamHandle stream) override {
    cuda::Context context = nullptr;
    if (driver_.cuCtxGetCurrent(&context) != kSuccess || context == nullptr) return 0;
    auto* const queue =
        reinterpret_cast<cuda::Stream>(stream);  // NOLINT(performance-no-int-to-ptr): as a number from Python
    int capture = cuda::kCaptureNone;
    if (driver_.cuStreamIsCapturing != nullptr &&
        (driver_.cuStreamIsCapturing(queue, &capture) != kSuccess || capture != cuda::kCaptureNone))
      return 0;
    const auto slot = take(context);
    if (!slot) return 0;
    if (driver_.cuEventRecord(slot->event, queue) == kSuccess) return slot->number;
    // An event of a context that is gone cannot be recorded, and a new context may have its address.
    const auto fresh = make(context);
    if (fresh && driver_.cuEventRecord(fresh->event, queue) == kSuccess) {
      forget(context);
      return fresh->number;
    }
    // The stream is at fault, not the event.
    release(slot->number);
    if (fresh) release(fresh->number);
    return 0;
  }

  Elapsed elapsed(Mark start, Mark end, bool wait) override {
    const auto from = find(start);
    const auto to = find(end);
    if (!from || !to || from->context != to->context) return {};
    const Entered entered(driver_, to->context);
    if (!entered) return {};
    const auto asked = wait ? driver_.cuEventSynchronize(to->event) : driver_.cuEventQuery(to->event);
    if (asked == cuda::kNotReady) return {.state = State::pending, .time = {}};
    float milliseconds = 0;
    if (asked != kSuccess || driver_.cuEventElapsedTime(&milliseconds, from->event, to->event) != kSuccess) return {};
    return {.state = State::done, .time = std::chrono::nanoseconds(static_cast<std::int64_t>(milliseconds * 1e6F))};
  }

  void release(Mark mark) override {
    const std::scoped_lock lock(mutex_);
    if (mark == 0 || mark > slots_.size()) return;
    free_[slots_[mark - 1].context].push_back(mark);
  }

 private:
  struct Slot {
    Mark number = 0;
    cuda::Context context = nullptr;
    cuda::Event event = nullptr;
  };

  /// An event of the context, one that was given back if there is one.
  std::optional<Slot> take(cuda::Context context) {
    {
      const std::scoped_lock lock(mutex_);
      auto& free = free_[context];
      if (!free.empty()) {
        const Mark number = free.back();
        free.pop_back();
        return slots_[number - 1];
      }
    }
    return make(context);
  }

  std::optional<Slot> make(cuda::Context context) {
    cuda::Event event = nullptr;
    if (driver_.cuEventCreate(&event, 0) != kSuccess) return std::nullopt;
    const std::scoped_lock lock(mutex_);
    slots_.push_back({.number = slots_.size() + 1, .context = context, .event = event});
    return slots_.back();
  }

  /// What was given back of a context that was at this address before.
  void forget(cuda::Context context) {
    const std::scoped_lock lock(mutex_);
    free_.erase(context);
  }

  std::optional<Slot> find(Mark mark) {
    const std::scoped_lock lock(mutex_);
    if (mark == 0 || mark > slots_.size()) return std::nullopt;
    return slots_[mark - 1];
  }

  const cuda::Symbols driver_;
  std::mutex mutex_;
  std::vector<Slot> slots_;
  std::map<cuda::Context, std::vector<Mark>> free_;
};

}  // namespace

Result<std::shared_ptr<DeviceTimer>> open_cuda_timer(const std::filesystem::path& library) {
  GPUWARDEN_TRY(void* const handle, cuda::open_library(library));
  const cuda::Symbols driver = cuda::find_symbols(handle);
  const auto needed = {driver.cuCtxGetCurrent != nullptr,    driver.cuCtxPushCurrent_v2 != nullptr,
                       driver.cuCtxPopCurrent_v2 != nullptr, driver.cuEventCreate != nullptr,
                       driver.cuEventRecord != nullptr,      driver.cuEventQuery != nullptr,
                       driver.cuEventSynchronize != nullptr, driver.cuEventElapsedTime != nullptr};
  if (std::ranges::find(needed, false) != needed.end())
    return fail(ErrorCode::unavailable,
                fmt::format("{} lacks functions for events: it is not CUDA's driver library", library.string()));
  return std::make_shared<CudaTimer>(driver);
}

}  // namespace gpuwarden::profile
