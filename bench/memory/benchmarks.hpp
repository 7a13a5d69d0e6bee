// SPDX-License-Identifier: Apache-2.0
// The benchmarks of memory_bench. Each runs its contenders in interleaved rounds, of which the best counts, prints its
// tables as it goes (unless JSON is wanted), and returns them with the goals.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "memory/contestant.hpp"
#include "memory/report.hpp"

namespace gpuwarden::bench {

struct Options {
  unsigned rounds = 3;
  unsigned steps = 60;           ///< of the traces with random lengths
  std::uint64_t operations = 0;  ///< 0: the benchmark's own number
  std::vector<unsigned> threads{1, 2, 4, 8, 16};
  std::string only;      ///< contenders whose name contains this; "|" between alternatives
  std::string workload;  ///< workloads whose name contains this
  std::filesystem::path traces;
  bool json = false;
  std::vector<Contender> contenders;
};

/// The contenders that `only` names.
std::vector<Contender> chosen(const Options& options);
/// Adds a table and prints it.
void publish(Report& report, const Options& options, Table table);

Report bench_traces(const Options& options);
Report bench_symbolic(const Options& options);
Report bench_grid(const Options& options);
Report bench_serving(const Options& options);
Report bench_inference(const Options& options);
Report bench_threads(const Options& options);
Report bench_pingpong(const Options& options);
Report bench_capped(const Options& options);
Report bench_soak(const Options& options);
/// Re-implementations and libraries against published figures; goals are at most 2 % apart.
Report bench_validate(const Options& options);

}  // namespace gpuwarden::bench
