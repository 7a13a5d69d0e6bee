// SPDX-License-Identifier: Apache-2.0
// What an operation that is measured costs: off, on, nested, with readings heard, and with several threads at once.
//   bench_profile [RUNS]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "gpuwarden/profile/profiler.hpp"

namespace {

using namespace gpuwarden;
using profile::Profiler;
using profile::Scope;

/// Median of eleven rounds, in nanoseconds for each of `runs`.
double nanoseconds_each(int runs, const std::function<void()>& round) {
  std::vector<double> rounds;
  for (int i = 0; i < 11; ++i) {
    const auto start = std::chrono::steady_clock::now();
    round();
    rounds.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / runs);
  }
  std::ranges::nth_element(rounds, rounds.begin() + 5);
  return rounds[5];
}

void run_scopes(Profiler& profiler, int runs) {
  for (int i = 0; i < runs; ++i) const Scope scope("operation", profiler);
}

double on_threads(Profiler& profiler, int runs, int threads) {
  return nanoseconds_each(runs, [&] {
    std::vector<std::jthread> all;
    for (int i = 0; i < threads; ++i) all.emplace_back([&] { run_scopes(profiler, runs); });
  });
}

void print(std::string_view what, double nanoseconds) { fmt::print("{:<44}{:>10.0f} ns\n", what, nanoseconds); }

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::max(std::atoi(argv[1]), 1) : 100'000;
  Profiler off({.enabled = false});
  print("off", nanoseconds_each(runs, [&] { run_scopes(off, runs); }));
  Profiler on;
  print("on", nanoseconds_each(runs, [&] { run_scopes(on, runs); }));
  print("on, within another", nanoseconds_each(runs, [&] {
          const Scope outer("outer", on);
          run_scopes(on, runs);
        }));
  Profiler heard;
  const profile::GpuReading reading{.when = system_clock().now(), .gpu = {}, .utilization = Percent(10)};
  heard.hear({&reading, 1});
  print("on, beside a sampler", nanoseconds_each(runs, [&] { run_scopes(heard, runs); }));
  print("on, 2 threads at the same operation", on_threads(on, runs, 2));
  print("on, 8 threads at the same operation", on_threads(on, runs, 8));
}
