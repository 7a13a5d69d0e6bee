// SPDX-License-Identifier: Apache-2.0
#include "placement/ranking.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace gpuwarden::placement {
namespace {

/// Brute force over sets is bounded: C(16, 8) sets of 7! / 2 rings would be far too many, so rings are built greedily.
constexpr std::size_t kMaxPool = 16;

std::size_t position(const std::vector<Uuid>& list, const Uuid& uuid) {
  return static_cast<std::size_t>(std::ranges::find(list, uuid) - list.begin());
}

auto key_of(const Candidate& c, const Wanted& wanted) {
  const auto free_gib = static_cast<std::int64_t>(c.free.value >> 30U);
  const auto load = c.record->sample.utilization_gpu.value_or(Percent(0)).value / 10;
  return std::tuple(position(wanted.ids, c.device.uuid), position(wanted.prefer, c.device.uuid), -free_gib, load);
}

double link_worth(GpuIndex a, GpuIndex b, const std::vector<facts::Link>& links) {
  if (a == b) return 1000;
  const auto found = std::ranges::find_if(
      links, [&](const facts::Link& link) { return (link.a == a && link.b == b) || (link.a == b && link.b == a); });
  return found == links.end() ? 0 : worth(*found);
}

struct Score {
  double bottleneck = -1;
  double sum = 0;
  auto operator<=>(const Score&) const = default;
};

/// The ring is found by going to the best-connected unvisited GPU each time, from every start; exact for the sizes and
/// shapes that real machines have, where links come in a few classes.
double best_ring(const std::vector<GpuIndex>& set, const std::vector<facts::Link>& links) {
  double best = 0;
  for (std::size_t start = 0; start < set.size(); ++start) {
    std::vector<GpuIndex> left = set;
    GpuIndex at = left[start];
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(start));
    double bottleneck = std::numeric_limits<double>::max();
    while (!left.empty()) {
      const auto next = std::ranges::max_element(left, {}, [&](GpuIndex gpu) { return link_worth(at, gpu, links); });
      bottleneck = std::min(bottleneck, link_worth(at, *next, links));
      at = *next;
      left.erase(next);
    }
    best = std::max(best, std::min(bottleneck, link_worth(at, set[start], links)));
  }
  return best;
}

Score score(const std::vector<GpuIndex>& set, const std::vector<facts::Link>& links) {
  Score result{best_ring(set, links), 0};
  for (std::size_t i = 0; i < set.size(); ++i) {
    for (std::size_t j = i + 1; j < set.size(); ++j) result.sum += link_worth(set[i], set[j], links);
  }
  return result;
}

/// Tries every choice of `count` out of `pool` that keeps `fixed`; the first of the best wins, which is the one with
/// the lowest ranks.
std::vector<Candidate> best_connected(const std::vector<Candidate>& fixed, const std::vector<Candidate>& pool,
                                      std::size_t count, const std::vector<facts::Link>& links) {
  std::vector<bool> taken(pool.size());
  std::fill(taken.begin(), taken.begin() + static_cast<std::ptrdiff_t>(count), true);
  std::vector<Candidate> best;
  Score best_score;
  do {
    std::vector<Candidate> set = fixed;
    for (std::size_t i = 0; i < pool.size(); ++i) {
      if (taken[i]) set.push_back(pool[i]);
    }
    std::vector<GpuIndex> indices;
    for (const Candidate& c : set) indices.push_back(c.device.index);
    const Score now = score(indices, links);
    if (best.empty() || now > best_score) {
      best = std::move(set);
      best_score = now;
    }
  } while (std::prev_permutation(taken.begin(), taken.end()));
  return best;
}

}  // namespace

double worth(const facts::Link& link) {
  if (link.nvlinks > 0) return 100.0 * link.nvlinks;
  if (!link.level) return 0;
  switch (*link.level) {
    case facts::LinkLevel::internal:
      return 60;
    case facts::LinkLevel::single_switch:
      return 50;
    case facts::LinkLevel::multiple_switches:
      return 40;
    case facts::LinkLevel::host_bridge:
      return 30;
    case facts::LinkLevel::node:
      return 20;
    case facts::LinkLevel::system:
      return 10;
  }
  return 0;
}

void rank(std::vector<Candidate>& fitting, const Wanted& wanted) {
  // The place in the machine decides where nothing else does, so that the same question gets the same answer.
  const auto whole_key = [&](const Candidate& c) {
    return std::tuple(key_of(c, wanted), c.device.index, c.device.mig);
  };
  std::ranges::sort(fitting, [&](const Candidate& a, const Candidate& b) { return whole_key(a) < whole_key(b); });
}

std::vector<Candidate> pick(const std::vector<Candidate>& ranked, std::size_t count, const Wanted& wanted) {
  std::vector<Candidate> first(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(count));
  const auto& links = wanted.inputs.snapshot.links;
  if (count < 2 || count == ranked.size() || !links || !wanted.ids.empty()) return first;
  // Only where the ranking is tied at the cut do connections decide.
  const auto tie = key_of(ranked[count - 1], wanted);
  std::vector<Candidate> fixed;
  std::vector<Candidate> pool;
  for (const Candidate& c : ranked) {
    if (key_of(c, wanted) < tie)
      fixed.push_back(c);
    else if (key_of(c, wanted) == tie && pool.size() < kMaxPool)
      pool.push_back(c);
  }
  if (fixed.size() >= count || pool.size() + fixed.size() < count) return first;
  return best_connected(fixed, pool, count - fixed.size(), *links);
}

}  // namespace gpuwarden::placement
