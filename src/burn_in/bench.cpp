// SPDX-License-Identifier: Apache-2.0
#include "burn_in/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "gpuwarden/base/text.hpp"

namespace gpuwarden::burn_in {

namespace {

constexpr std::size_t kLogSize = 4096;
constexpr int kLeastRuns = 3;

Result<int> attribute(const cuda::Functions& cuda, int which, cuda::Device device) {
  int value = 0;
  GPUWARDEN_CUDA(cuda, device_attribute, &value, which, device);
  return value;
}

}  // namespace

Result<Buffer> Buffer::allocate(const cuda::Functions& cuda, std::size_t bytes) {
  cuda::DevicePointer address = 0;
  const cuda::Result code = cuda.allocate(&address, bytes);
  if (code == cuda::kSuccess) return Buffer(cuda, address, bytes);
  return std::unexpected(cuda_error(cuda, fmt::format("{} of device memory", format_size(Bytes(bytes))), code));
}

Buffer::Buffer(Buffer&& other) noexcept
    : cuda_(other.cuda_), address_(std::exchange(other.address_, 0)), bytes_(other.bytes_) {}

Buffer::~Buffer() {
  if (address_ != 0) cuda_->release(address_);
}

Result<PinnedBuffer> PinnedBuffer::allocate(const cuda::Functions& cuda, std::size_t bytes) {
  void* data = nullptr;
  const cuda::Result code = cuda.allocate_host(&data, bytes);
  if (code == cuda::kSuccess) return PinnedBuffer(cuda, data, bytes);
  return std::unexpected(cuda_error(cuda, fmt::format("{} of pinned host memory", format_size(Bytes(bytes))), code));
}

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept
    : cuda_(other.cuda_), data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

PinnedBuffer::~PinnedBuffer() {
  if (data_ != nullptr) cuda_->release_host(data_);
}

Result<Bench> Bench::open(const cuda::Functions& cuda, cuda::Device device, Clock::SteadyTime deadline, Clock& clock) {
  Bench bench(cuda, deadline, clock);
  GPUWARDEN_TRY(bench.multiprocessors_, attribute(cuda, cuda::kMultiprocessorCount, device));
  GPUWARDEN_TRY(const int major, attribute(cuda, cuda::kCapabilityMajor, device));
  GPUWARDEN_TRY(const int minor, attribute(cuda, cuda::kCapabilityMinor, device));
  bench.capability_ = major * 10 + minor;
  // The primary context is the one that cuBLAS looks for. It ends with the process.
  cuda::Context context = nullptr;
  GPUWARDEN_CUDA(cuda, retain_context, &context, device);
  GPUWARDEN_CUDA(cuda, set_context, context);
  GPUWARDEN_CUDA(cuda, create_stream, &bench.stream_, 0);
  GPUWARDEN_CUDA(cuda, create_event, &bench.begin_, 0);
  GPUWARDEN_CUDA(cuda, create_event, &bench.end_, 0);
  return bench;
}

Result<void> Bench::finish() const {
  GPUWARDEN_CUDA(*cuda_, finish_stream, stream_);
  return {};
}

Result<cuda::Function> Bench::compile(const std::string& ptx, std::string_view function) const {
  std::array<char, kLogSize> log{};
  std::array<int, 2> options{cuda::kJitErrorLogBuffer, cuda::kJitErrorLogBufferSize};
  std::array<void*, 2> values{log.data(), std::bit_cast<void*>(log.size())};
  cuda::Module module = nullptr;
  const cuda::Result code = cuda_->load_module(&module, ptx.c_str(), options.size(), options.data(), values.data());
  if (code != cuda::kSuccess) {
    log.back() = '\0';
    Error error = cuda_error(*cuda_, fmt::format("compiling {} for this GPU", function), code);
    if (const std::string_view words = trim(log.data()); !words.empty())
      error.message += fmt::format(": {}", printable(words.substr(0, words.find('\n'))));
    const bool unfit =
        code == cuda::kInvalidPtx || code == cuda::kUnsupportedPtxVersion || code == cuda::kNoBinaryForGpu;
    if (unfit) error.code = ErrorCode::unsatisfied;
    return std::unexpected(std::move(error));
  }
  cuda::Function result = nullptr;
  GPUWARDEN_CUDA(*cuda_, find_function, &result, module, std::string(function).c_str());
  return result;
}

Result<void> Bench::launch(cuda::Function function, unsigned blocks, std::vector<void*> arguments) const {
  GPUWARDEN_CUDA(*cuda_, launch, function, blocks, 1, 1, kThreads, 1, 1, 0, stream_, arguments.data(), nullptr);
  return {};
}

Result<Timing> Bench::time(const std::function<Result<void>()>& work, std::chrono::milliseconds duration) const {
  // The first time loads code and wakes clocks: it does not count.
  GPUWARDEN_CHECK(work());
  GPUWARDEN_CHECK(finish());
  const auto start = clock_->now();
  double sum = 0;
  double best = 0;
  int runs = 0;
  while (!out_of_time() && (runs < kLeastRuns || clock_->now() - start < duration * pace)) {
    GPUWARDEN_CUDA(*cuda_, record_event, begin_, stream_);
    GPUWARDEN_CHECK(work());
    GPUWARDEN_CUDA(*cuda_, record_event, end_, stream_);
    GPUWARDEN_CHECK(finish());
    float milliseconds = 0;
    GPUWARDEN_CUDA(*cuda_, elapsed, &milliseconds, begin_, end_);
    if (!(milliseconds > 0)) return fail(ErrorCode::failed, "cuEventElapsedTime returned no time");
    sum += milliseconds / 1e3;
    best = runs == 0 ? milliseconds / 1e3 : std::min(best, milliseconds / 1e3);
    ++runs;
  }
  if (runs == 0) return fail(ErrorCode::timed_out, "time ran out before it was done once");
  return Timing{best, sum / runs};
}

Result<Bench::Memory> Bench::memory() const {
  Memory memory;
  GPUWARDEN_CUDA(*cuda_, memory_info, &memory.free, &memory.total);
  return memory;
}

}  // namespace gpuwarden::burn_in
