// SPDX-License-Identifier: Apache-2.0
#include "placement/rings.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <optional>

namespace gpuwarden::placement {
namespace {

constexpr double kNoPath = -1;

DeviceSet only(std::size_t device) { return DeviceSet{1} << device; }
std::size_t first_of(DeviceSet set) { return static_cast<std::size_t>(std::countr_zero(set)); }
std::size_t size_of(DeviceSet set) { return static_cast<std::size_t>(std::popcount(set)); }

/// The sum of the links among the devices of a set.
double sum_within(const LinkGraph& graph, DeviceSet set) {
  double sum = 0;
  for (DeviceSet left = set; left != 0; left &= left - 1) {
    for (DeviceSet others = left & (left - 1); others != 0; others &= others - 1)
      sum += graph.worth(first_of(left), first_of(others));
  }
  return sum;
}

/// The members of `within` whose places among these are set in `chosen`.
DeviceSet spread(DeviceSet chosen, DeviceSet within) {
  DeviceSet set = 0;
  for (DeviceSet left = within; left != 0; left &= left - 1, chosen >>= 1U) {
    if ((chosen & 1U) != 0) set |= left & (~left + 1);
  }
  return set;
}

/// Calls `visit` with every subset of `within` that has `count` members.
template <class Visit>
void each_subset(DeviceSet within, std::size_t count, const Visit& visit) {
  const std::size_t of = size_of(within);
  if (count > of) return;
  for (DeviceSet chosen = 0; chosen < DeviceSet{1} << of; ++chosen) {
    if (size_of(chosen) == count) visit(spread(chosen, within));
  }
}

/// Links of no less than some worth, and the rings that they form.
class Rings {
 public:
  Rings(const LinkGraph& graph, double least) : graph_(graph), neighbours_(graph.size()) {
    for (std::size_t a = 0; a < graph.size(); ++a) {
      for (std::size_t b = 0; b < graph.size(); ++b) {
        if (a != b && graph.worth(a, b) >= least) neighbours_[a] |= only(b);
      }
    }
  }

  /// For every set of up to `most` of the devices `free`, the devices at which a path may end that begins with the
  /// set's first one and visits all (Held and Karp's recurrence, without lengths).
  std::vector<std::uint16_t> path_ends(DeviceSet free, std::size_t most) const {
    std::vector<std::uint16_t> ends(std::size_t{1} << graph_.size());
    for (DeviceSet left = free; left != 0; left &= left - 1)
      ends[only(first_of(left))] = static_cast<std::uint16_t>(only(first_of(left)));
    for_each_larger_set(free, most, [&](DeviceSet set, DeviceSet last, std::size_t at) {
      if ((ends[set & ~last] & neighbours_[at]) != 0) ends[set] = static_cast<std::uint16_t>(ends[set] | last);
    });
    return ends;
  }

  /// Whether the ends of the paths through a set close a ring. A pair's only link is its ring, one device needs none.
  bool closes(DeviceSet set, const std::vector<std::uint16_t>& ends) const {
    return size_of(set) < 2 || (ends[set] & neighbours_[first_of(set)]) != 0;
  }

  /// The largest sum of a ring through the set; kNoPath where there is none.
  double largest_sum(DeviceSet set) const {
    std::vector<std::size_t> members;
    for (DeviceSet left = set; left != 0; left &= left - 1) members.push_back(first_of(left));
    const std::size_t count = members.size();
    if (count < 2) return 0;
    if (count == 2) return linked(members[0], members[1]) ? graph_.worth(members[0], members[1]) : kNoPath;
    // Of the members but the first, which is the ring's beginning: sums_[subset][last].
    const std::size_t others = count - 1;
    std::vector<double> sums((std::size_t{1} << others) * others, kNoPath);
    for (std::size_t i = 0; i < others; ++i) {
      if (linked(members[0], members[i + 1]))
        sums[(std::size_t{1} << i) * others + i] = graph_.worth(members[0], members[i + 1]);
    }
    for (std::size_t subset = 1; subset < std::size_t{1} << others; ++subset) {
      for (std::size_t last = 0; last < others; ++last) {
        const double so_far = sums[subset * others + last];
        if (so_far < 0) continue;
        for (std::size_t next = 0; next < others; ++next) {
          if ((subset >> next & 1U) != 0 || !linked(members[last + 1], members[next + 1])) continue;
          double& sum = sums[(subset | std::size_t{1} << next) * others + next];
          sum = std::max(sum, so_far + graph_.worth(members[last + 1], members[next + 1]));
        }
      }
    }
    double best = kNoPath;
    const std::size_t all = (std::size_t{1} << others) - 1;
    for (std::size_t last = 0; last < others; ++last) {
      const double path = sums[all * others + last];
      if (path >= 0 && linked(members[last + 1], members[0]))
        best = std::max(best, path + graph_.worth(members[last + 1], members[0]));
    }
    return best;
  }

 private:
  bool linked(std::size_t a, std::size_t b) const { return (neighbours_[a] & only(b)) != 0; }

  template <class Visit>
  void for_each_larger_set(DeviceSet free, std::size_t most, const Visit& visit) const {
    for (DeviceSet set = 1; set < DeviceSet{1} << graph_.size(); ++set) {
      if ((set & ~free) != 0 || size_of(set) < 2 || size_of(set) > most) continue;
      for (DeviceSet left = set & (set - 1); left != 0; left &= left - 1)
        visit(set, only(first_of(left)), first_of(left));
    }
  }

  const LinkGraph& graph_;
  std::vector<DeviceSet> neighbours_;
};

/// What links are worth, best first, each once.
std::vector<double> worths(const LinkGraph& graph, DeviceSet free) {
  std::vector<double> all;
  for (DeviceSet left = free; left != 0; left &= left - 1) {
    for (DeviceSet others = left & (left - 1); others != 0; others &= others - 1)
      all.push_back(graph.worth(first_of(left), first_of(others)));
  }
  std::ranges::sort(all, std::greater{});
  const auto [first, last] = std::ranges::unique(all);
  all.erase(first, last);
  return all;
}

/// Of these sets those for which `value` is the largest.
template <class Value>
std::vector<DeviceSet> largest(const std::vector<DeviceSet>& sets, const Value& value) {
  std::vector<DeviceSet> best;
  std::optional<double> most;
  for (const DeviceSet set : sets) {
    const double now = value(set);
    if (!most || now > *most) {
      most = now;
      best.clear();
    }
    if (now == *most) best.push_back(set);
  }
  return best;
}

/// The sets with a ring of the best links that form one.
std::vector<DeviceSet> with_best_ring(const LinkGraph& graph, DeviceSet free, DeviceSet fixed, std::size_t count,
                                      double& least) {
  std::vector<DeviceSet> sets;
  for (const double worth : worths(graph, free)) {
    const Rings rings(graph, worth);
    const auto ends = rings.path_ends(free, count);
    each_subset(free & ~fixed, count - size_of(fixed), [&](DeviceSet rest) {
      if (rings.closes(rest | fixed, ends)) sets.push_back(rest | fixed);
    });
    least = worth;
    if (!sets.empty()) break;
  }
  return sets;
}

}  // namespace

void LinkGraph::set(std::size_t a, std::size_t b, double worth) {
  const double before = this->worth(a, b);
  const double now = before > 0 ? std::min(before, worth) : worth;
  worth_[a * size_ + b] = worth_[b * size_ + a] = now;
}

BestSets best_sets(const LinkGraph& graph, DeviceSet free, DeviceSet fixed, std::size_t count) {
  BestSets best;
  double least = 0;
  if (count == 1)
    each_subset(free & ~fixed, count - size_of(fixed), [&](DeviceSet rest) { best.sets.push_back(rest | fixed); });
  else
    best.sets = with_best_ring(graph, free, fixed, count, least);
  if (best.sets.empty()) return best;
  best.slowest = least;
  const Rings rings(graph, least);
  // Where all links are alike every set is, and what it leaves.
  const bool alike = worths(graph, free).size() < 2;
  if (count > 1 && !alike) best.sets = largest(best.sets, [&](DeviceSet set) { return rings.largest_sum(set); });
  if (!alike) best.sets = largest(best.sets, [&](DeviceSet set) { return sum_within(graph, free & ~set); });
  best.sum = rings.largest_sum(best.sets.front());
  best.left = sum_within(graph, free & ~best.sets.front());
  return best;
}

}  // namespace gpuwarden::placement
