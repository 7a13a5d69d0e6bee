// SPDX-License-Identifier: Apache-2.0
// How long the GPU worked on what an operation gave it, by events in its stream.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "gpuwarden/base/result.hpp"

namespace gpuwarden::profile {

/// Marks in the streams of a GPU. Implementations are thread-safe, and never start a GPU's context by themselves.
class DeviceTimer {
 public:
  /// A mark that was made; 0 is none.
  using Mark = std::uint64_t;
  /// A stream as its driver names it; 0 is the default one.
  using StreamHandle = std::uintptr_t;
  enum class State { done, pending, lost };
  struct Elapsed {
    State state = State::lost;
    std::chrono::nanoseconds time{};  ///< where done
  };

  DeviceTimer() = default;
  DeviceTimer(const DeviceTimer&) = delete;
  DeviceTimer& operator=(const DeviceTimer&) = delete;
  virtual ~DeviceTimer() = default;

  /// A mark behind all work that the stream has now. 0 where the calling thread has no context, where the stream is
  /// being captured into a graph, and where the driver refuses.
  virtual Mark mark(StreamHandle stream) = 0;
  /// Time between two marks of one stream; `wait` until the second one is reached.
  virtual Elapsed elapsed(Mark start, Mark end, bool wait) = 0;
  /// Gives a mark back; 0 is ignored.
  virtual void release(Mark mark) = 0;
};

/// Events of the CUDA driver, in whatever context the calling thread has current. Fails with not_found where the
/// library cannot be opened, with unavailable where it lacks the functions.
Result<std::shared_ptr<DeviceTimer>> open_cuda_timer(const std::filesystem::path& library = "libcuda.so.1");

}  // namespace gpuwarden::profile
