// SPDX-License-Identifier: Apache-2.0
#include "placement/ranking.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "placement/rings.hpp"

namespace gpuwarden::placement {
namespace {

std::size_t position(const std::vector<Uuid>& list, const Uuid& uuid) {
  return static_cast<std::size_t>(std::ranges::find(list, uuid) - list.begin());
}

auto key_of(const Candidate& c, const Wanted& wanted) {
  const auto free_gib = static_cast<std::int64_t>(c.free.value >> 30U);
  const auto load = c.record->sample.utilization_gpu.value_or(Percent(0)).value / 10;
  return std::tuple(position(wanted.ids, c.device.uuid), position(wanted.prefer, c.device.uuid), -free_gib, load);
}

/// How the GPUs of these candidates are linked. Two MIG instances of one GPU are nearer than any two GPUs.
LinkGraph graph_of(const std::vector<Candidate>& candidates, const std::vector<facts::Link>& links) {
  constexpr double kSameGpu = 10000;
  LinkGraph graph(candidates.size());
  for (std::size_t a = 0; a < candidates.size(); ++a) {
    for (std::size_t b = a + 1; b < candidates.size(); ++b) {
      const GpuIndex one = candidates[a].device.index;
      const GpuIndex other = candidates[b].device.index;
      if (one == other) graph.set(a, b, kSameGpu);
      for (const facts::Link& link : links) {
        if ((link.a == one && link.b == other) || (link.a == other && link.b == one)) graph.set(a, b, worth(link));
      }
    }
  }
  return graph;
}

/// What decides between sets whose links are as good: fewer NUMA nodes, nearer network adapters, cooler GPUs.
struct Surroundings {
  std::size_t nodes = 0;
  int from_network = 0;
  std::int64_t heat = 0;
  auto operator<=>(const Surroundings&) const = default;
};

/// What of a candidate's place counts for the sets that it is in.
struct Place {
  std::uint32_t node = 0;  ///< a bit for each NUMA node
  int from_network = 0;
  std::int64_t heat = 0;
};

int from_network(const Candidate& candidate, const facts::Snapshot& snapshot) {
  std::optional<int> nearest;
  for (const facts::Nic& nic : snapshot.nics) {
    for (const auto& distance : nic.distances) {
      const int level = static_cast<int>(distance.level);
      if (distance.gpu == candidate.device.index) nearest = std::min(nearest.value_or(level), level);
    }
  }
  return nearest.value_or(0);
}

std::vector<Place> places_of(const std::vector<Candidate>& candidates, const facts::Snapshot& snapshot) {
  constexpr std::int64_t kStep = 5;  // degrees; less is noise
  std::vector<Place> places;
  std::vector<int> nodes;
  for (const Candidate& candidate : candidates) {
    Place& place = places.emplace_back();
    if (const auto node = candidate.record->gpu.numa_node) {
      const auto known = std::ranges::find(nodes, *node);
      place.node = std::uint32_t{1} << (known - nodes.begin());
      if (known == nodes.end()) nodes.push_back(*node);
    }
    place.from_network = from_network(candidate, snapshot);
    const auto& heat = candidate.record->sample.temperature;
    place.heat = heat ? heat->value / kStep : 0;
  }
  return places;
}

Surroundings surroundings_of(DeviceSet set, const std::vector<Place>& places) {
  Surroundings result;
  std::uint32_t nodes = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if ((set >> i & 1U) == 0) continue;
    nodes |= places[i].node;
    result.from_network += places[i].from_network;
    result.heat = std::max(result.heat, places[i].heat);
  }
  result.nodes = static_cast<std::size_t>(std::popcount(nodes));
  return result;
}

std::vector<Candidate> members(const std::vector<Candidate>& candidates, DeviceSet set) {
  std::vector<Candidate> chosen;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if ((set >> i & 1U) != 0) chosen.push_back(candidates[i]);
  }
  return chosen;
}

/// Whether `a` takes the better ranked one where the two first differ.
bool ranks_before(DeviceSet a, DeviceSet b) {
  const DeviceSet differ = a ^ b;
  return (a & differ & (~differ + 1)) != 0;
}

/// The best of the sets that are as well connected.
std::vector<Candidate> best_of(const std::vector<Candidate>& candidates, const std::vector<DeviceSet>& sets,
                               const facts::Snapshot& snapshot) {
  const std::vector<Place> places = places_of(candidates, snapshot);
  std::optional<std::pair<Surroundings, DeviceSet>> best;
  for (const DeviceSet set : sets) {
    const Surroundings now = surroundings_of(set, places);
    if (!best || now < best->first || (now == best->first && ranks_before(set, best->second))) best.emplace(now, set);
  }
  return members(candidates, best->second);
}

/// As many of the pool as can be compared: those that are best connected with one of them, and the one itself; in the
/// order of the pool.
std::vector<Candidate> around(const std::vector<Candidate>& pool, std::size_t centre, std::size_t most,
                              const std::vector<facts::Link>& links) {
  std::vector<std::pair<double, std::size_t>> near;
  for (std::size_t i = 0; i < pool.size(); ++i) {
    const auto graph = graph_of({pool[centre], pool[i]}, links);
    near.emplace_back(i == centre ? -std::numeric_limits<double>::infinity() : -graph.worth(0, 1), i);
  }
  std::ranges::stable_sort(near, {}, &std::pair<double, std::size_t>::first);
  near.resize(std::min(near.size(), most));
  std::ranges::sort(near, {}, &std::pair<double, std::size_t>::second);
  std::vector<Candidate> chosen;
  for (const auto& [worth, i] : near) chosen.push_back(pool[i]);
  return chosen;
}

/// The best connected `count` of fixed and pool, with all of the fixed ones. Of a pool that is too large to try every
/// set of it, the neighbourhoods of its members are tried.
std::vector<Candidate> best_connected(const std::vector<Candidate>& fixed, const std::vector<Candidate>& pool,
                                      std::size_t count, const facts::Snapshot& snapshot) {
  constexpr std::size_t kMostCentres = 12;
  const std::size_t most = LinkGraph::kMost - fixed.size();
  const bool all = pool.size() <= most;
  std::vector<Candidate> chosen;
  BestSets best;
  for (std::size_t centre = 0; centre < (all ? 1 : std::min(pool.size(), kMostCentres)); ++centre) {
    std::vector<Candidate> candidates = fixed;
    const auto near =
        all ? pool : around(pool, centre * pool.size() / std::min(pool.size(), kMostCentres), most, *snapshot.links);
    candidates.insert(candidates.end(), near.begin(), near.end());
    const DeviceSet free = static_cast<DeviceSet>((std::uint64_t{1} << candidates.size()) - 1);
    const DeviceSet kept = static_cast<DeviceSet>((std::uint64_t{1} << fixed.size()) - 1);
    BestSets now = best_sets(graph_of(candidates, *snapshot.links), free, kept, count);
    if (now.sets.empty()) continue;
    if (!chosen.empty() && std::tie(now.slowest, now.sum) <= std::tie(best.slowest, best.sum)) continue;
    chosen = best_of(candidates, now.sets, snapshot);
    best = std::move(now);
  }
  return chosen;
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
  if (count == 0 || count == ranked.size() || count > LinkGraph::kMost || !links || !wanted.ids.empty()) return first;
  // Only where the ranking is tied at the cut do connections decide.
  const auto tie = key_of(ranked[count - 1], wanted);
  std::vector<Candidate> fixed;
  std::vector<Candidate> pool;
  for (const Candidate& c : ranked) {
    if (key_of(c, wanted) < tie)
      fixed.push_back(c);
    else if (key_of(c, wanted) == tie)
      pool.push_back(c);
  }
  if (fixed.size() >= count || pool.size() + fixed.size() < count) return first;
  const auto chosen = best_connected(fixed, pool, count, wanted.inputs.snapshot);
  return chosen.size() == count ? chosen : first;
}

}  // namespace gpuwarden::placement
