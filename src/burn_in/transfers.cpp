// SPDX-License-Identifier: Apache-2.0
// How fast bytes move: between host and GPU, and within the GPU's memory.
#include <fmt/format.h>

#include <algorithm>

#include "burn_in/bench.hpp"
#include "gpuwarden/base/text.hpp"

namespace gpuwarden::burn_in {

namespace {

constexpr std::size_t kHostBytes = std::size_t{128} << 20U;
constexpr std::size_t kLeastBytes = std::size_t{1} << 20U;
constexpr std::size_t kCopyBytes = std::size_t{1} << 30U;
/// Long enough for the link to leave its idle state, and for its state to be read meanwhile.
constexpr std::chrono::milliseconds kLinkTime{700};
constexpr std::chrono::milliseconds kCopyTime{400};

double gigabytes_per_second(std::size_t bytes, double seconds) { return static_cast<double>(bytes) / seconds / 1e9; }

/// `allocate(bytes)`, halved until it can be had.
template <class Allocate>
auto as_much_as_fits(std::size_t bytes, Allocate allocate) -> decltype(allocate(bytes)) {
  auto result = allocate(bytes);
  if (result || result.error().code != ErrorCode::unsatisfied || bytes / 2 < kLeastBytes) return result;
  return as_much_as_fits(bytes / 2, allocate);
}

}  // namespace

Result<void> test_transfers(const Bench& bench, facts::BurnInGpu& gpu) {
  const auto& cuda = bench.cuda();
  GPUWARDEN_TRY(const Bench::Memory memory, bench.memory());
  const std::size_t most = std::max(std::min(kHostBytes, memory.free / 4), kLeastBytes);
  GPUWARDEN_TRY(const PinnedBuffer host,
                as_much_as_fits(most, [&](std::size_t bytes) { return PinnedBuffer::allocate(cuda, bytes); }));
  GPUWARDEN_TRY(const Buffer device,
                as_much_as_fits(host.bytes(), [&](std::size_t bytes) { return Buffer::allocate(cuda, bytes); }));
  const std::string method = fmt::format("copies of {} of pinned host memory", format_size(Bytes(device.bytes())));
  bench.announce("pcie");
  GPUWARDEN_TRY(const Timing to_device, bench.time(
                                            [&]() -> Result<void> {
                                              GPUWARDEN_CUDA(cuda, to_device, device.address(), host.data(),
                                                             device.bytes(), bench.stream());
                                              return {};
                                            },
                                            kLinkTime));
  gpu.figures.push_back({.id = "pcie_to_device",
                         .value = gigabytes_per_second(device.bytes(), to_device.best),
                         .unit = "GB/s",
                         .method = method});
  GPUWARDEN_TRY(const Timing to_host, bench.time(
                                          [&]() -> Result<void> {
                                            GPUWARDEN_CUDA(cuda, to_host, host.data(), device.address(), device.bytes(),
                                                           bench.stream());
                                            return {};
                                          },
                                          kLinkTime));
  gpu.figures.push_back({.id = "pcie_to_host",
                         .value = gigabytes_per_second(device.bytes(), to_host.best),
                         .unit = "GB/s",
                         .method = method});
  return {};
}

Result<void> test_bandwidth(const Bench& bench, facts::BurnInGpu& gpu) {
  const auto& cuda = bench.cuda();
  GPUWARDEN_TRY(const Bench::Memory memory, bench.memory());
  const std::size_t most = std::max(std::min(kCopyBytes, memory.free / 4), kLeastBytes);
  GPUWARDEN_TRY(const Buffer from,
                as_much_as_fits(most, [&](std::size_t bytes) { return Buffer::allocate(cuda, bytes); }));
  GPUWARDEN_TRY(const Buffer to, Buffer::allocate(cuda, from.bytes()));
  GPUWARDEN_CUDA(cuda, set_bytes, from.address(), 0x5A, from.bytes(), bench.stream());
  GPUWARDEN_TRY(const Timing copy, bench.time(
                                       [&]() -> Result<void> {
                                         GPUWARDEN_CUDA(cuda, within_device, to.address(), from.address(), from.bytes(),
                                                        bench.stream());
                                         return {};
                                       },
                                       kCopyTime));
  // Every byte is read once and written once.
  gpu.figures.push_back(
      {.id = "memory_bandwidth",
       .value = gigabytes_per_second(2 * from.bytes(), copy.best),
       .unit = "GB/s",
       .method = fmt::format("copies of {} within the GPU, read and write", format_size(Bytes(from.bytes())))});
  return {};
}

}  // namespace gpuwarden::burn_in
