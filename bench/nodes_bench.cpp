// SPDX-License-Identifier: Apache-2.0
// GPUs on many nodes for one job:
//   bench_nodes [NODES [JOBS]]     (1250 nodes of 8 GPUs, 3000 jobs)
// How long select_on_nodes() takes for 64 GPUs on a cluster that is in use; and a stream of jobs of 1 to 64 GPUs, first
// come, first served, placed by gpuwarden's rule and by naive ones: on how many nodes more than need be the jobs are,
// and how much of what is free lies on whole nodes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <queue>
#include <random>

#include "gpuwarden/placement/nodes.hpp"
#include "support/fleet_builder.hpp"

namespace {

using namespace gpuwarden;
using placement::NodeOffer;

constexpr std::uint32_t kPerNode = 8;
using Shares = std::vector<std::uint32_t>;

/// Takes what is free from nodes in this order.
Shares in_order(const std::vector<NodeOffer>& offers, std::uint32_t count, const std::vector<std::size_t>& order) {
  Shares given(offers.size(), 0);
  for (const std::size_t i : order) {
    given[i] = std::min(count, offers[i].free);
    count -= given[i];
    if (count == 0) return given;
  }
  return {};
}

std::vector<std::size_t> numbered(const std::vector<NodeOffer>& offers) {
  std::vector<std::size_t> order(offers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

Shares first_fit(const std::vector<NodeOffer>& offers, std::uint32_t count) {
  return in_order(offers, count, numbered(offers));
}

/// As schedulers that spread load do.
Shares most_free_first(const std::vector<NodeOffer>& offers, std::uint32_t count) {
  auto order = numbered(offers);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return offers[a].free > offers[b].free; });
  return in_order(offers, count, order);
}

/// As schedulers that pack do.
Shares least_free_first(const std::vector<NodeOffer>& offers, std::uint32_t count) {
  auto order = numbered(offers);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return offers[a].free < offers[b].free; });
  return in_order(offers, count, order);
}

Shares ours(const std::vector<NodeOffer>& offers, std::uint32_t count) {
  return placement::choose_nodes(offers, count);
}

struct Rule {
  const char* name;
  Shares (*choose)(const std::vector<NodeOffer>&, std::uint32_t);
};
constexpr auto kRules = std::to_array<Rule>({{"first fit", first_fit},
                                             {"most free first", most_free_first},
                                             {"least free first", least_free_first},
                                             {"gpuwarden", ours}});

struct Tally {
  std::size_t jobs = 0;      ///< of several GPUs
  std::size_t nodes = 0;     ///< that they are on
  std::size_t fewest = 0;    ///< that would do on an empty cluster
  double free_on_whole = 0;  ///< share of the free GPUs that lie on whole nodes, summed
  std::size_t looks = 0;
};

struct Running {
  double end;
  Shares shares;
  bool operator>(const Running& other) const { return end > other.end; }
};

void count(const Shares& shares, std::uint32_t wanted, const std::vector<NodeOffer>& offers, Tally& tally) {
  const auto free = std::accumulate(offers.begin(), offers.end(), std::uint64_t{0},
                                    [](std::uint64_t sum, const NodeOffer& one) { return sum + one.free; });
  const auto whole = kPerNode * static_cast<std::uint64_t>(std::ranges::count_if(
                                    offers, [](const NodeOffer& one) { return one.free == kPerNode; }));
  if (free > 0) tally.free_on_whole += static_cast<double>(whole) / static_cast<double>(free);
  ++tally.looks;
  if (wanted < 2) return;
  ++tally.jobs;
  tally.nodes += static_cast<std::size_t>(std::ranges::count_if(shares, [](std::uint32_t n) { return n > 0; }));
  tally.fewest += (wanted + kPerNode - 1) / kPerNode;
}

Tally stream(const Rule& rule, std::size_t nodes, std::size_t jobs) {
  std::mt19937 random(7);  // NOLINT(bugprone-random-generator-seed): the same jobs for every rule
  constexpr std::array<std::uint32_t, 10> kSizes{1, 1, 2, 2, 4, 4, 6, 8, 16, 64};
  std::vector<NodeOffer> offers(nodes, {kPerNode, true});
  std::priority_queue<Running, std::vector<Running>, std::greater<>> running;
  Tally tally;
  double now = 0;
  for (std::size_t i = 0; i < jobs; ++i) {
    const std::uint32_t wanted = kSizes.at(random() % kSizes.size());
    const double service = 1 + static_cast<double>(random() % 1000);
    Shares shares = rule.choose(offers, wanted);
    while (shares.empty()) {
      now = running.top().end;
      for (std::size_t n = 0; n < nodes; ++n) offers[n].free += running.top().shares[n];
      running.pop();
      for (NodeOffer& one : offers) one.whole = one.free == kPerNode;
      shares = rule.choose(offers, wanted);
    }
    count(shares, wanted, offers, tally);
    for (std::size_t n = 0; n < nodes; ++n) offers[n].free -= shares[n];
    for (NodeOffer& one : offers) one.whole = one.free == kPerNode;
    running.push({now + service, std::move(shares)});
  }
  return tally;
}

/// Median milliseconds of CPU time, which other programs do not lengthen, of choosing `wanted` GPUs on nodes of which
/// about six in ten GPUs are leased.
double choosing_time(std::size_t nodes, std::uint32_t wanted) {
  std::mt19937 random(7);  // NOLINT(bugprone-random-generator-seed)
  std::vector<facts::Snapshot> snapshots(nodes, gpuwarden::testing::fleet(kPerNode));
  std::vector<std::vector<facts::Lease>> leases(nodes);
  const std::vector<Uuid> nobody;
  std::vector<placement::Inputs> inputs;
  for (std::size_t i = 0; i < nodes; ++i) {
    for (const facts::GpuRecord& record : snapshots[i].gpus) {
      if (random() % 10 < 6) leases[i].push_back({.uuid = record.gpu.uuid, .holders = {}});
    }
  }
  for (std::size_t i = 0; i < nodes; ++i) inputs.push_back({snapshots[i], leases[i], nobody, {}, {}});
  std::vector<double> times;
  for (int round = 0; round < 9; ++round) {
    const std::clock_t begun = std::clock();
    const auto decision = placement::select_on_nodes({.count = wanted}, inputs);
    times.push_back(1000.0 * static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC);
    if (!decision || !decision->satisfied) return -1;
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t nodes = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1250;
  const std::size_t jobs = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 3000;
  if (nodes < 8 || jobs == 0) {
    fmt::print(stderr, "usage: bench_nodes [NODES [JOBS]]   (8 nodes at least)\n");
    return 2;
  }
  fmt::print("64 of {} GPUs in {} nodes: {:.2f} ms of CPU time; 8: {:.2f} ms\n\n", nodes * kPerNode, nodes,
             choosing_time(nodes, 64), choosing_time(nodes, 8));
  fmt::print("{:<18} {:>22} {:>26}\n", "rule", "nodes / fewest of all", "free GPUs on whole nodes");
  for (const Rule& rule : kRules) {
    const Tally tally = stream(rule, nodes, jobs);
    fmt::print("{:<18} {:>22.3f} {:>24.1f} %\n", rule.name,
               static_cast<double>(tally.nodes) / static_cast<double>(tally.fewest),
               100 * tally.free_on_whole / static_cast<double>(tally.looks));
  }
  return 0;
}
