// SPDX-License-Identifier: Apache-2.0
#include "wiring/policies.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <vector>

#include "wiring/systems.hpp"

namespace gpuwarden::bench {
namespace {

std::vector<std::size_t> members(DeviceSet set) {
  std::vector<std::size_t> list;
  for (DeviceSet left = set; left != 0; left &= left - 1)
    list.push_back(static_cast<std::size_t>(std::countr_zero(left)));
  return list;
}

std::size_t size_of(DeviceSet set) { return static_cast<std::size_t>(std::popcount(set)); }

/// Every choice, those with the lowest numbers first.
std::vector<DeviceSet> choices(DeviceSet free, std::size_t count) {
  std::vector<DeviceSet> sets;
  for (DeviceSet set = free; set != 0; set = (set - 1) & free) {
    if (size_of(set) == count) sets.push_back(set);
  }
  std::ranges::sort(sets, {}, members);
  return sets;
}

/// The first choice with the largest value.
template <class Value>
DeviceSet best_choice(DeviceSet free, std::size_t count, const Value& value) {
  std::optional<decltype(value(free))> most;
  DeviceSet best = 0;
  for (const DeviceSet set : choices(free, count)) {
    const auto now = value(set);
    if (most && !(now > *most)) continue;
    most = now;
    best = set;
  }
  return best;
}

template <class Worth>
double sum_of_pairs(DeviceSet set, const Worth& worth) {
  double sum = 0;
  const auto list = members(set);
  for (std::size_t i = 0; i < list.size(); ++i) {
    for (std::size_t j = i + 1; j < list.size(); ++j) sum += worth(list[i], list[j]);
  }
  return sum;
}

DeviceSet lowest(const LinkGraph&, DeviceSet free, const Ask& ask) { return choices(free, ask.count).front(); }

/// From the lowest free one, always the one with the most NVLinks to those taken.
DeviceSet slurm_links(const LinkGraph& links, DeviceSet free, const Ask& ask) {
  constexpr double kOneLink = 20;
  DeviceSet taken = free & (~free + 1);
  while (size_of(taken) < ask.count) {
    double most = -1;
    std::size_t next = 0;
    for (const std::size_t gpu : members(free & ~taken)) {
      double now = 0;
      for (const std::size_t other : members(taken)) {
        const double worth = links.worth(gpu, other);
        now += worth > kPcie ? worth / kOneLink : 0;
      }
      if (now > most) {
        most = now;
        next = gpu;
      }
    }
    taken |= DeviceSet{1} << next;
  }
  return taken;
}

/// Parts of all free GPUs of the size asked for (one part may be smaller), together worth the most; then the best part.
class BestEffort {
 public:
  BestEffort(const LinkGraph& links, std::size_t count) : links_(links), count_(count) {}

  DeviceSet choose(DeviceSet free) {
    DeviceSet best = 0;
    double most = -1;
    for (DeviceSet left = free; left != 0;) {
      const DeviceSet part = split(left).part;
      if (size_of(part) == count_ && value(part) > most) {
        most = value(part);
        best = part;
      }
      left &= ~part;
    }
    return best;
  }

 private:
  struct Split {
    double worth = 0;
    DeviceSet part = 0;
  };

  /// 100 for each NVLink, 20 for a pair without.
  double value(DeviceSet set) const {
    return sum_of_pairs(set, [&](std::size_t a, std::size_t b) {
      const double worth = links_.worth(a, b);
      return worth > kPcie ? 100 * (worth >= 50 ? 2 : 1) : 20;
    });
  }

  Split split(DeviceSet left) {
    if (left == 0) return {};
    if (const auto known = known_.find(left); known != known_.end()) return known->second;
    Split best{-1, 0};
    const DeviceSet lowest_one = left & (~left + 1);
    const std::size_t rest = size_of(left) % count_;
    for (DeviceSet part = left; part != 0; part = (part - 1) & left) {
      const std::size_t size = size_of(part);
      if ((part & lowest_one) == 0 || (size != count_ && size != rest)) continue;
      const double worth = value(part) + split(left & ~part).worth;
      if (worth > best.worth) best = {worth, part};
    }
    return known_[left] = best;
  }

  const LinkGraph& links_;
  std::size_t count_;
  std::map<DeviceSet, Split> known_;
};

DeviceSet best_effort(const LinkGraph& links, DeviceSet free, const Ask& ask) {
  // Of more the original gives up, too: the number of partitions explodes.
  constexpr std::size_t kMost = 8;
  const auto worth = [&](std::size_t a, std::size_t b) { return links.worth(a, b); };
  if (ask.count == 1 || size_of(free) > kMost)
    return best_choice(free, ask.count, [&](DeviceSet set) { return sum_of_pairs(set, worth); });
  return BestEffort(links, ask.count).choose(free);
}

/// MAPA's fit of what NCCL reaches with so many double, single and PCIe links in a ring, in GB/s (source:
/// socal-ucr/MAPA@15e58ab src/Props.hh, its 14 coefficients).
double predicted(double x, double y, double z) {
  return 16.39670455 * x + 4.536821878 * y + 1.55623404 * z - 20.69484581 / (x + 1) - 9.467461958 / (y + 1) +
         7.615106783 / (z + 1) - 7.973335727 * x * y + 12.73323772 * y * z - 4.195655221 * x * z -
         8.413419363 / (x * y + 1) + 62.85125807 / (y * z + 1) + 27.41832588 / (x * z + 1) - 5.114108079 * x * y * z -
         46.97390071 / (x * y * z + 1);
}

double best_prediction(const LinkGraph& links, DeviceSet set) {
  std::vector<std::size_t> order = members(set);
  double best = -1e300;
  do {
    double counts[3] = {0, 0, 0};
    const std::size_t hops = order.size() == 2 ? 1 : order.size();
    for (std::size_t i = 0; i < hops; ++i) {
      const double worth = links.worth(order[i], order[(i + 1) % order.size()]);
      ++counts[worth >= 50 ? 0 : worth > kPcie ? 1 : 2];
    }
    best = std::max(best, predicted(counts[0], counts[1], counts[2]));
  } while (std::next_permutation(order.begin() + 1, order.end()));
  return best;
}

DeviceSet mapa_preserve(const LinkGraph& links, DeviceSet free, const Ask& ask) {
  const auto worth = [&](std::size_t a, std::size_t b) { return links.worth(a, b); };
  if (ask.bandwidth_sensitive && ask.count > 1)
    return best_choice(free, ask.count, [&](DeviceSet set) { return best_prediction(links, set); });
  return best_choice(free, ask.count, [&](DeviceSet set) {
    return std::pair(sum_of_pairs(free & ~set, worth), sum_of_pairs(set, worth));
  });
}

DeviceSet ours(const LinkGraph& links, DeviceSet free, const Ask& ask) {
  const auto best = placement::best_sets(links, free, 0, ask.count);
  return std::ranges::min(best.sets, {}, members);
}

constexpr Policy kPolicies[] = {
    {"lowest number", "what most pickers do", lowest},
    {"Slurm's Links", "slurm 22.05.8 as observed: from the lowest free GPU, the most linked ones", slurm_links},
    {"go-gpuallocator", "NVIDIA/go-gpuallocator besteffort_policy.go: the best partition of all that is free",
     best_effort},
    {"MAPA preserve", "socal-ucr/MAPA src/MapaPolicies.hh; knows which jobs need bandwidth", mapa_preserve},
    {"gpuwarden", "placement/rings.cpp; does not know", ours},
};

}  // namespace

std::span<const Policy> policies() { return kPolicies; }

}  // namespace gpuwarden::bench
