// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/clock.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <thread>

namespace gpuwarden::cuda::server {
namespace {

Moment steady_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Waits longer than this sleep first; what is left is spun.
constexpr Moment kSpinNs = 100'000;

struct Price {
  std::string_view function;
  double microseconds;               ///< for each piece of memory that the call is about
  double microseconds_per_mebibyte;  ///< of the size that the call is about
};

// Sources. [V]: vAttention (arXiv 2405.04437), table of VMM latencies for 2 MiB pages on an A100, as remembered:
// reserve 2, create 29, map 2, set access 38, unmap 34, release 23, address free 1. [G]: GMLake (arXiv 2401.08156), as
// remembered: 2 GiB in pieces of 2 MiB, 128 MiB and 1 GiB cost 115, 9.1 and 1.5 times a cuMemAlloc, so that nearly all
// of a price is for the piece and little for its size; the part for the size is from there, unmap and release alike.
// [U]: cs.virginia.edu, "Memory allocation overhead": cudaMalloc about 50 us up to 512 KiB and growing above; pinned
// memory 2,300 us up to 1 MiB. [S]: sgl-project/sglang issue 25225: cudaMemGetInfo 7.5 to 12.5 us. [D]: DualPath (arXiv
// 2602.21548): a cudaMemcpyAsync costs its caller 5 to 7 us. [J]: JuliaGPU/CUDA.jl pull request 746: stream-ordered
// allocation 1.7 us, free 1.2 us. [E]: estimate of the same kind of call, not measured; replace on a real GPU.
constexpr auto kPrices = std::to_array<Price>({
    {"cuCtxCreate_v2", 150'000, 0},             // E
    {"cuDevicePrimaryCtxRetain", 0.2, 0},       // E; the first one of a device is priced as cuCtxCreate_v2
    {"cuEventCreate", 0.5, 0},                  // E
    {"cuEventDestroy_v2", 0.5, 0},              // E
    {"cuEventQuery", 0.5, 0},                   // E
    {"cuEventRecord", 1, 0},                    // E
    {"cuLaunchKernel", 2.5, 0},                 // E
    {"cuMemAddressFree", 1, 0},                 // V
    {"cuMemAddressReserve", 2, 0},              // V
    {"cuMemAllocAsync", 1.7, 0},                // J
    {"cuMemAllocFromPoolAsync", 1.7, 0},        // J
    {"cuMemAllocHost_v2", 2300, 118},           // U: 61 ms at 512 MiB
    {"cuMemAlloc_v2", 50, 0.5},                 // U; growth E
    {"cuMemCreate", 28, 0.5},                   // V at 2 MiB; growth G
    {"cuMemExportToShareableHandle", 10, 0},    // E
    {"cuMemFreeAsync", 1.2, 0},                 // J
    {"cuMemFreeHost", 1000, 50},                // E
    {"cuMemFree_v2", 50, 0.25},                 // E
    {"cuMemGetInfo_v2", 8, 0},                  // S
    {"cuMemHostAlloc", 2300, 118},              // U
    {"cuMemHostRegister_v2", 1000, 60},         // E
    {"cuMemImportFromShareableHandle", 20, 0},  // E
    {"cuMemMap", 2, 0},                         // V
    {"cuMemRelease", 21, 1},                    // V at 2 MiB; growth E
    {"cuMemSetAccess", 35, 1.5},                // V at 2 MiB, for each piece mapped there; growth G
    {"cuMemUnmap", 32, 1},                      // V at 2 MiB, for each piece mapped there; growth E
    {"cuMemcpyAsync", 6, 0},                    // D
    {"cuMemcpyDtoDAsync_v2", 6, 0},             // D
    {"cuMemcpyDtoD_v2", 6, 0},                  // D
    {"cuMemcpyDtoHAsync_v2", 6, 0},             // D
    {"cuMemcpyDtoH_v2", 8, 0},                  // E
    {"cuMemcpyHtoDAsync_v2", 6, 0},             // D
    {"cuMemcpyHtoD_v2", 8, 0},                  // E
    {"cuMemsetD32Async", 4, 0},                 // E
    {"cuMemsetD8Async", 4, 0},                  // E
    {"cuMemsetD8_v2", 4, 0},                    // E
    {"cuStreamCreate", 10, 0},                  // E
    {"cuStreamCreateWithPriority", 10, 0},      // E
    {"cuStreamDestroy_v2", 10, 0},              // E
    {"cuStreamSynchronize", 2, 0},              // E
    {"cuStreamWaitEvent", 1, 0},                // E
});
static_assert(std::ranges::is_sorted(kPrices, {}, &Price::function));

}  // namespace

Moment DeviceClock::now() const { return manual_.load() ? manual_now_.load() : steady_now(); }

void DeviceClock::wait_until(Moment moment) {
  if (manual_.load()) {
    Moment now = manual_now_.load();
    while (now < moment && !manual_now_.compare_exchange_weak(now, moment)) continue;
    return;
  }
  const Moment left = moment - steady_now();
  if (left > kSpinNs) std::this_thread::sleep_for(std::chrono::nanoseconds(left - kSpinNs));
  while (steady_now() < moment) continue;
}

void DeviceClock::spend(double nanoseconds) {
  if (nanoseconds >= 1) wait_until(now() + static_cast<Moment>(nanoseconds));
}

void DeviceClock::make_manual(bool manual) {
  if (manual && !manual_.load()) manual_now_.store(steady_now());
  manual_.store(manual);
}

double Latencies::of_call(const char* function, double mebibytes, double pieces) const {
  const double factor = factor_.load();
  if (factor <= 0) return 0;
  const std::string_view name(function);
  const auto* const found = std::ranges::lower_bound(kPrices, name, {}, &Price::function);
  if (found == kPrices.end() || found->function != name) return 0;
  return factor * 1000 * (pieces * found->microseconds + mebibytes * found->microseconds_per_mebibyte);
}

std::int64_t Latencies::of_bytes(std::uint64_t bytes, double bytes_per_second) const {
  return static_cast<std::int64_t>(factor_.load() * 1e9 * static_cast<double>(bytes) / bytes_per_second);
}

}  // namespace gpuwarden::cuda::server
