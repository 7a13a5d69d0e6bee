// SPDX-License-Identifier: Apache-2.0
// How long the search for a strategy takes, and how many candidates it looks at.
//   plan_search [ROUNDS]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "gpuwarden/planning/search.hpp"
#include "planner/models.hpp"

namespace {

using namespace gpuwarden;
using namespace gpuwarden::planning;

struct Case {
  std::string_view name;
  std::string_view model;
  Task task;
  std::uint32_t gpus;
  std::uint32_t sequence;
};

constexpr Case kCases[]{
    {"8B, 8 GPUs, full training", "Llama-3.1-8B", Task::full_training, 8, 8192},
    {"8x7B, 8 GPUs, LoRA", "Mixtral-8x7B", Task::adapters, 8, 4096},
    {"70B, 8 GPUs, full training (does not fit)", "Llama-3.1-70B", Task::full_training, 8, 8192},
    {"70B, 1,024 GPUs, full training", "Llama-3.1-70B", Task::full_training, 1024, 8192},
    {"405B, 1,024 GPUs, 131,072 tokens", "Llama-3.1-405B", Task::full_training, 1024, 131072},
};

Result<void> run(const Case& c, int rounds) {
  GPUWARDEN_TRY(const ModelShape shape, bench::model_named(c.model, 0));
  const ModelFigures figures = figures_of(shape);
  SearchRequest request;
  request.gpu = {Bytes(84'990'000'000)};  // 79.15 GiB
  request.gpus = c.gpus;
  request.settings.task = c.task;
  request.settings.sequence = c.sequence;
  std::vector<double> times;
  Search found;
  for (int i = 0; i < rounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    GPUWARDEN_TRY(found, plan(figures, request));
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  std::ranges::sort(times);
  fmt::print("{:<44} {:>8.3f} ms (worst {:.3f})  {:>5} strategies, {:>6} settings\n  {}\n", c.name,
             times[times.size() / 2], times.back(), found.candidates.size(), found.searched, found.reason);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 20;
  for (const Case& c : kCases) {
    if (const auto result = run(c, rounds); !result) {
      fmt::print(stderr, "plan_search: {}\n", result.error().message);
      return 1;
    }
  }
  return 0;
}
