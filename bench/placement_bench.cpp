// SPDX-License-Identifier: Apache-2.0
// Streams of jobs on machines with uneven links, placed by several policies:
//   bench_placement [JOBS [SEEDS]]     (600 jobs, 10 seeds)
// A job wants 1 to 5 GPUs, six in ten need bandwidth; first come, first served. Of the jobs of several GPUs that need
// bandwidth: how many have a ring with a PCIe hop in it, and how fast ring and links are beside the machine's best.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <queue>
#include <random>

#include "wiring/policies.hpp"
#include "wiring/systems.hpp"

namespace {

using namespace gpuwarden;
using namespace gpuwarden::bench;
using placement::best_sets;

constexpr std::size_t kMostGpus = 5;

struct Job {
  Ask ask;
  double service = 0;
};

std::vector<Job> stream(unsigned seed, std::size_t jobs) {
  std::mt19937 random(seed);
  std::vector<Job> list;
  for (std::size_t i = 0; i < jobs; ++i) {
    Job job;
    job.ask.count = 1 + random() % kMostGpus;
    job.ask.bandwidth_sensitive = random() % 10 < 6;
    job.service = 1 - 100 * std::log(1 - static_cast<double>(random() % 1000000) / 1e6);
    list.push_back(job);
  }
  return list;
}

/// Of jobs that were counted.
struct Tally {
  std::size_t jobs = 0;
  std::size_t over_pcie = 0;
  double ring = 0;
  double links = 0;
};

double sum_within(const LinkGraph& graph, DeviceSet set) {
  double sum = 0;
  for (std::size_t a = 0; a < graph.size(); ++a) {
    for (std::size_t b = a + 1; b < graph.size(); ++b) {
      if ((set >> a & 1U) != 0 && (set >> b & 1U) != 0) sum += graph.worth(a, b);
    }
  }
  return sum;
}

class Machine {
 public:
  explicit Machine(const System& system) : system_(system), all_((DeviceSet{1} << system.links.size()) - 1) {
    for (std::size_t count = 2; count <= kMostGpus; ++count) {
      best_ring_[count] = best_sets(system.links, all_, 0, count).slowest;
      double most = 0;
      for (DeviceSet set = all_; set != 0; --set) {
        if (static_cast<std::size_t>(std::popcount(set)) == count) most = std::max(most, sum_within(system.links, set));
      }
      best_links_[count] = most;
    }
  }

  void run(const Policy& policy, const std::vector<Job>& jobs, Tally& tally) const {
    using Ending = std::pair<double, DeviceSet>;
    std::priority_queue<Ending, std::vector<Ending>, std::greater<>> running;
    DeviceSet free = all_;
    double now = 0;
    for (const Job& job : jobs) {
      while (static_cast<std::size_t>(std::popcount(free)) < job.ask.count) {
        now = running.top().first;
        free |= running.top().second;
        running.pop();
      }
      const DeviceSet chosen = policy.choose(system_.links, free, job.ask);
      free &= ~chosen;
      running.emplace(now + job.service, chosen);
      if (job.ask.count > 1 && job.ask.bandwidth_sensitive) count(chosen, job.ask.count, tally);
    }
  }

 private:
  void count(DeviceSet chosen, std::size_t size, Tally& tally) const {
    const double slowest = best_sets(system_.links, chosen, 0, size).slowest;
    ++tally.jobs;
    tally.over_pcie += slowest <= kPcie ? 1 : 0;
    tally.ring += slowest / best_ring_.at(size);
    tally.links += sum_within(system_.links, chosen) / best_links_.at(size);
  }

  const System& system_;
  DeviceSet all_;
  std::map<std::size_t, double> best_ring_;
  std::map<std::size_t, double> best_links_;
};

/// Milliseconds to choose 8 of 16; the median of 21.
double choosing_time(const LinkGraph& links) {
  constexpr std::size_t kRounds = 21;
  std::vector<double> times;
  for (std::size_t i = 0; i < kRounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const auto best = best_sets(links, (DeviceSet{1} << links.size()) - 1, 0, 8);
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    if (best.sets.empty()) std::abort();
  }
  std::ranges::nth_element(times, times.begin() + kRounds / 2);
  return times[kRounds / 2];
}

/// All links alike but one that is better: every set has a ring of the same links.
LinkGraph nearly_even() {
  constexpr std::size_t kGpus = 16;
  LinkGraph links(kGpus);
  for (std::size_t a = 0; a < kGpus; ++a) {
    for (std::size_t b = a + 1; b < kGpus; ++b) links.set(a, b, a == 3 && b == 11 ? 50 : 25);
  }
  return links;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t jobs = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 600;
  const unsigned seeds = argc > 2 ? static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10)) : 10;
  if (jobs == 0 || seeds == 0) {
    fmt::print(stderr, "usage: bench_placement [JOBS [SEEDS]]\n");
    return 2;
  }
  for (const Policy& policy : policies()) fmt::print("{:<16} {}\n", policy.name, policy.source);
  fmt::print("\n{:<13} {:<16} {:>9} {:>16} {:>16}\n", "machine", "policy", "PCIe hop", "ring / best", "links / best");
  for (const System& system : systems()) {
    const Machine machine(system);
    for (const Policy& policy : policies()) {
      Tally tally;
      for (unsigned seed = 0; seed < seeds; ++seed) machine.run(policy, stream(seed, jobs), tally);
      const auto all = static_cast<double>(tally.jobs);
      fmt::print("{:<13} {:<16} {:>7.1f} % {:>16.3f} {:>16.3f}\n", system.name, policy.name,
                 100 * static_cast<double>(tally.over_pcie) / all, tally.ring / all, tally.links / all);
    }
  }
  fmt::print("\n8 of 16 GPUs: {:.2f} ms (cube-mesh-16), {:.2f} ms (all links alike but one)\n",
             choosing_time(systems().back().links), choosing_time(nearly_even()));
  return 0;
}
