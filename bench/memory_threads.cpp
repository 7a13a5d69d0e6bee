// SPDX-License-Identifier: Apache-2.0
// What an allocation and its free cost a thread when others are at work: CPU time for an operation, as only the
// thread's own clock tells it, with a stream for each thread and with one for all, beside the PyTorch rules.
//   memory_threads [THREADS] [OPERATIONS]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gpuwarden/memory/host_upstreams.hpp"
#include "gpuwarden/memory/pool.hpp"
#include "memory/pytorch_rules.hpp"

namespace {

using namespace gpuwarden;
using namespace gpuwarden::bench;

constexpr std::uint64_t kDevice = std::uint64_t{80} << 30U;

double thread_nanoseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

using Allocate = std::function<std::uint64_t(std::uint64_t size, std::uint32_t stream)>;
using Free = std::function<void(std::uint64_t address, std::uint64_t size, std::uint32_t stream)>;

/// A thread's work: 64 blocks of a dozen sizes, one replaced at a time. CPU nanoseconds an operation.
double work(const Allocate& allocate, const Free& free, std::uint32_t stream, unsigned seed, unsigned operations) {
  struct Live {
    std::uint64_t address = 0;
    std::uint64_t size = 0;
  };
  std::minstd_rand random(seed);
  std::vector<Live> live(64);
  const double start = thread_nanoseconds();
  for (unsigned i = 0; i < operations / 2; ++i) {
    Live& one = live[random() % live.size()];
    if (one.address != 0) free(one.address, one.size, stream);
    one.size = (1 + random() % 12) * 300'000;
    one.address = allocate(one.size, stream);
  }
  const double taken = thread_nanoseconds() - start;
  for (const Live& one : live) {
    if (one.address != 0) free(one.address, one.size, stream);
  }
  return taken / operations;
}

double run(const Allocate& allocate, const Free& free, unsigned threads, bool shared, unsigned operations) {
  std::vector<double> taken(threads);
  {
    std::vector<std::jthread> all;
    for (unsigned i = 0; i < threads; ++i)
      all.emplace_back([&, i] { taken[i] = work(allocate, free, shared ? 0 : i + 1, i + 1, operations); });
  }
  double sum = 0;
  for (const double one : taken) sum += one;
  return sum / threads;
}

double run_pool(unsigned threads, bool shared, unsigned operations) {
  memory::ArithmeticUpstream device{Bytes(kDevice)};
  const auto pool = memory::Pool::create(device, {}).value();
  return run([&](std::uint64_t size,
                 std::uint32_t stream) { return pool->allocate(Bytes(size), memory::StreamId{stream}).value().value; },
             [&](std::uint64_t address, std::uint64_t, std::uint32_t stream) {
               if (!pool->deallocate(memory::DeviceAddress{address}, memory::StreamId{stream})) std::abort();
             },
             threads, shared, operations);
}

double run_pytorch(unsigned threads, bool shared, unsigned operations) {
  CountingDevice device(kDevice);
  PyTorchRules rules(device, false);
  return run(
      [&](std::uint64_t size, std::uint32_t stream) { return rules.allocate(size, stream); },
      [&](std::uint64_t address, std::uint64_t size, std::uint32_t stream) { rules.free(address, size, stream); },
      threads, shared, operations);
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned threads = argc > 1 ? static_cast<unsigned>(std::stoul(argv[1])) : std::thread::hardware_concurrency();
  const unsigned operations = argc > 2 ? static_cast<unsigned>(std::stoul(argv[2])) : 2'000'000;
  fmt::print("CPU ns an operation, best of 5, interleaved; {} operations a thread\n", operations);
  for (const bool shared : {false, true}) {
    double pool_one = 1e9;
    double pool_many = 1e9;
    double pytorch_one = 1e9;
    double pytorch_many = 1e9;
    for (int round = 0; round < 5; ++round) {
      pool_one = std::min(pool_one, run_pool(1, shared, operations));
      pool_many = std::min(pool_many, run_pool(threads, shared, operations));
      pytorch_one = std::min(pytorch_one, run_pytorch(1, shared, operations));
      pytorch_many = std::min(pytorch_many, run_pytorch(threads, shared, operations));
    }
    fmt::print("{:<16} 1 -> {} threads: gpuwarden {:.1f} -> {:.1f} ({:.2f}), PyTorch rules {:.1f} -> {:.1f} ({:.2f})\n",
               shared ? "one stream" : "own streams", threads, pool_one, pool_many, pool_many / pool_one, pytorch_one,
               pytorch_many, pytorch_many / pytorch_one);
  }
  return 0;
}
