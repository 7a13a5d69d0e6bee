// SPDX-License-Identifier: Apache-2.0
#include "placement/rings.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <optional>

namespace gpuwarden::placement {
namespace {

constexpr float kNoPath = -1;

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

  /// For every set of up to `most` of the devices `free` and each of its members, the largest sum of a path from the
  /// set's first one to that member that visits all; kNoPath where there is none.
  std::vector<float> path_sums(DeviceSet free, std::size_t most) const {
    const std::size_t size = graph_.size();
    std::vector<float> sums((std::size_t{1} << size) * size, kNoPath);
    for (DeviceSet left = free; left != 0; left &= left - 1) sums[only(first_of(left)) * size + first_of(left)] = 0;
    for_each_larger_set(free, most, [&](DeviceSet set, DeviceSet last, std::size_t at) {
      const float* before = &sums[(set & ~last) * size];
      float best = kNoPath;
      for (DeviceSet left = set & ~last & neighbours_[at]; left != 0; left &= left - 1) {
        const std::size_t from = first_of(left);
        if (before[from] >= 0) best = std::max(best, before[from] + static_cast<float>(graph_.worth(from, at)));
      }
      sums[set * size + at] = best;
    });
    return sums;
  }

  /// The largest sum of a ring through the set, by the sums of its paths; kNoPath where there is none.
  double largest_sum(DeviceSet set, const std::vector<float>& sums) const {
    const std::size_t first = first_of(set);
    if (size_of(set) < 2) return 0;
    // A pair's only link is its ring: there and back it is one.
    const bool pair = size_of(set) == 2;
    double best = kNoPath;
    for (DeviceSet left = set & (set - 1) & neighbours_[first]; left != 0; left &= left - 1) {
      const std::size_t last = first_of(left);
      const double path = sums[set * graph_.size() + last];
      if (path >= 0) best = std::max(best, path + (pair ? 0 : graph_.worth(last, first)));
    }
    return best;
  }

 private:
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
  const std::vector<float> sums = rings.path_sums(free, count);
  const auto ring_sum = [&](DeviceSet set) { return rings.largest_sum(set, sums); };
  const auto left_over = [&](DeviceSet set) { return sum_within(graph, free & ~set); };
  // Where all links are alike every set is, and what it leaves.
  const bool alike = worths(graph, free).size() < 2;
  if (!alike) best.sets = largest(largest(best.sets, ring_sum), left_over);
  best.sum = ring_sum(best.sets.front());
  best.left = left_over(best.sets.front());
  return best;
}

}  // namespace gpuwarden::placement
