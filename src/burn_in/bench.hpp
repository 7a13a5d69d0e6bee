// SPDX-License-Identifier: Apache-2.0
// One GPU's tests, as the forked child runs them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "burn_in/cuda_driver.hpp"
#include "burn_in/kernels.hpp"
#include "gpuwarden/base/clock.hpp"
#include "gpuwarden/facts/burn_in.hpp"

namespace gpuwarden::burn_in {

/// Device memory, given back at the end of its scope.
class Buffer {
 public:
  static Result<Buffer> allocate(const cuda::Functions& cuda, std::size_t bytes);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer();
  cuda::DevicePointer address() const { return address_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Buffer(const cuda::Functions& cuda, cuda::DevicePointer address, std::size_t bytes)
      : cuda_(&cuda), address_(address), bytes_(bytes) {}
  const cuda::Functions* cuda_;
  cuda::DevicePointer address_;
  std::size_t bytes_;
};

/// Host memory that the GPU reaches without a copy in between.
class PinnedBuffer {
 public:
  static Result<PinnedBuffer> allocate(const cuda::Functions& cuda, std::size_t bytes);
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&&) = delete;
  ~PinnedBuffer();
  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  PinnedBuffer(const cuda::Functions& cuda, void* data, std::size_t bytes) : cuda_(&cuda), data_(data), bytes_(bytes) {}
  const cuda::Functions* cuda_;
  void* data_;
  std::size_t bytes_;
};

/// How long a piece of work took the GPU.
struct Timing {
  double best = 0;  ///< seconds
  double mean = 0;
};

/// The GPU under test: its context, a stream, a clock, and where the results go.
class Bench {
 public:
  static Result<Bench> open(const cuda::Functions& cuda, cuda::Device device, Clock::SteadyTime deadline, Clock& clock);

  const cuda::Functions& cuda() const { return *cuda_; }
  cuda::Stream stream() const { return stream_; }
  int multiprocessors() const { return multiprocessors_; }
  /// 90 for compute capability 9.0.
  int capability() const { return capability_; }
  /// From here on the time is up then.
  void set_deadline(Clock::SteadyTime deadline) { deadline_ = deadline; }
  bool out_of_time() const { return clock_->now() >= deadline_; }

  /// Options::pace.
  double pace = 1;
  /// Called with "pcie" and "load" when that begins: the moment to read the GPU's clocks from outside.
  std::function<void(std::string_view)> announce = [](std::string_view) {};

  Result<void> finish() const;
  /// Compiles PTX for this GPU; the compiler's words stand in the error.
  Result<cuda::Function> compile(const std::string& ptx, std::string_view function) const;
  Result<void> launch(cuda::Function function, unsigned blocks, std::vector<void*> arguments) const;
  /// Does the work again and again for `duration`, three times at least; fails with timed_out where the deadline came
  /// before it was done once.
  Result<Timing> time(const std::function<Result<void>()>& work, std::chrono::milliseconds duration) const;
  struct Memory {
    std::size_t free = 0;
    std::size_t total = 0;
  };
  Result<Memory> memory() const;

 private:
  Bench(const cuda::Functions& cuda, Clock::SteadyTime deadline, Clock& clock)
      : cuda_(&cuda), clock_(&clock), deadline_(deadline) {}
  const cuda::Functions* cuda_;
  Clock* clock_;
  Clock::SteadyTime deadline_;
  cuda::Stream stream_ = nullptr;
  cuda::Event begin_ = nullptr;
  cuda::Event end_ = nullptr;
  int multiprocessors_ = 0;
  int capability_ = 0;
};

/// Threads of a block, in every launch.
inline constexpr unsigned kThreads = 256;

/// A way to fill memory: see pattern_word().
struct Pattern {
  std::string_view name;
  unsigned long long keep;
  unsigned long long flip;
  bool scramble;
};
extern const std::array<Pattern, 8> kPatterns;

/// The tests: each writes what it found into `gpu`. They fail where CUDA does; what cannot be done here becomes a note.
Result<void> test_memory(const Bench& bench, double share, facts::BurnInGpu& gpu);
Result<void> test_transfers(const Bench& bench, facts::BurnInGpu& gpu);
Result<void> test_bandwidth(const Bench& bench, facts::BurnInGpu& gpu);
Result<void> test_arithmetic(const Bench& bench, facts::BurnInGpu& gpu);
Result<void> test_matrix_product(const Bench& bench, const std::vector<std::filesystem::path>& cublas, bool all_types,
                                 facts::BurnInGpu& gpu);

}  // namespace gpuwarden::burn_in
