// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/placement/nodes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "gpuwarden/base/text.hpp"
#include "placement/fitting.hpp"

namespace gpuwarden::placement {
namespace {

constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

/// Nodes that offer alike.
struct Kind {
  std::uint32_t free = 0;
  bool whole = false;
  std::vector<std::size_t> nodes;  ///< in the order of the input
};

/// The kinds, those that give most first; of these, nodes that are broken already.
std::vector<Kind> kinds_of(std::span<const NodeOffer> offers) {
  std::map<std::pair<std::uint32_t, bool>, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < offers.size(); ++i) {
    if (offers[i].free > 0) groups[{offers[i].free, offers[i].whole}].push_back(i);
  }
  std::vector<Kind> kinds;
  for (auto& [key, nodes] : groups) kinds.push_back({key.first, key.second, std::move(nodes)});
  std::ranges::stable_sort(
      kinds, [](const Kind& a, const Kind& b) { return a.free != b.free ? a.free > b.free : a.whole < b.whole; });
  return kinds;
}

/// The fewest nodes that have `count` GPUs; nothing: all of them have not.
std::optional<std::uint32_t> fewest_nodes(const std::vector<Kind>& kinds, std::uint32_t count) {
  std::uint64_t left = count;
  std::uint32_t nodes = 0;
  for (const Kind& kind : kinds) {
    const std::uint64_t needed = (left + kind.free - 1) / kind.free;
    const std::uint64_t taken = std::min<std::uint64_t>(needed, kind.nodes.size());
    nodes += static_cast<std::uint32_t>(taken);
    left -= std::min<std::uint64_t>(left, taken * kind.free);
    if (left == 0) return nodes;
  }
  return std::nullopt;
}

/// How many of each kind: `nodes` nodes with at least `count` GPUs, the least left over, then the fewest whole ones.
/// Exact: the fewest whole nodes for each number of nodes and GPUs, kind by kind.
class Packing {
 public:
  Packing(const std::vector<Kind>& kinds, std::uint32_t nodes, std::uint32_t count)
      : kinds_(kinds), nodes_(nodes), most_(count + (kinds.empty() ? 0 : kinds[0].free)) {
    std::vector<std::uint32_t> best(cells(), kNever);
    best[0] = 0;
    for (const Kind& kind : kinds_) best = with(kind, best);
    for (std::uint32_t sum = count; sum <= most_; ++sum) {
      if (best[cell(nodes_, sum)] == kNever) continue;
      sum_ = sum;
      break;
    }
  }

  std::vector<std::uint32_t> counts() const {
    std::vector<std::uint32_t> counts(kinds_.size(), 0);
    if (!sum_) return counts;
    std::uint32_t nodes = nodes_;
    std::uint32_t sum = *sum_;
    for (std::size_t i = kinds_.size(); i-- > 0;) {
      counts[i] = taken_[i][cell(nodes, sum)];
      nodes -= counts[i];
      sum -= counts[i] * kinds_[i].free;
    }
    return counts;
  }

 private:
  std::size_t cells() const { return (std::size_t{nodes_} + 1) * (std::size_t{most_} + 1); }
  std::size_t cell(std::uint32_t nodes, std::uint32_t sum) const {
    return std::size_t{nodes} * (std::size_t{most_} + 1) + sum;
  }

  std::vector<std::uint32_t> with(const Kind& kind, const std::vector<std::uint32_t>& before) {
    std::vector<std::uint32_t> after = before;
    std::vector<std::uint32_t> taken(cells(), 0);
    const auto there = static_cast<std::uint32_t>(std::min<std::size_t>(kind.nodes.size(), nodes_));
    for (std::uint32_t nodes = 0; nodes <= nodes_; ++nodes) {
      for (std::uint32_t sum = 0; sum <= most_; ++sum) {
        if (before[cell(nodes, sum)] == kNever) continue;
        for (std::uint32_t more = 1; more <= there && nodes + more <= nodes_; ++more) {
          if (std::uint64_t{sum} + std::uint64_t{more} * kind.free > most_) break;
          const std::uint32_t whole = before[cell(nodes, sum)] + (kind.whole ? more : 0);
          const std::size_t at = cell(nodes + more, sum + more * kind.free);
          if (whole >= after[at]) continue;
          after[at] = whole;
          taken[at] = more;
        }
      }
    }
    taken_.push_back(std::move(taken));
    return after;
  }

  const std::vector<Kind>& kinds_;
  const std::uint32_t nodes_;
  const std::uint32_t most_;
  std::vector<std::vector<std::uint32_t>> taken_;  ///< of each kind, by nodes and GPUs so far
  std::optional<std::uint32_t> sum_;
};

/// More nodes than that are filled from the largest on, and only the last of them are weighed against each other.
constexpr std::uint32_t kWeighed = 24;

std::vector<std::uint32_t> pack(std::vector<Kind> kinds, std::size_t offers, std::uint32_t count) {
  std::vector<std::uint32_t> given(offers, 0);
  const auto give = [&](Kind& kind, std::uint32_t nodes) {
    for (std::uint32_t i = 0; i < nodes; ++i) given[kind.nodes[i]] = kind.free;
    kind.nodes.erase(kind.nodes.begin(), kind.nodes.begin() + nodes);
  };
  auto nodes = fewest_nodes(kinds, count);
  if (!nodes) return {};
  std::uint32_t left = count;
  for (Kind& kind : kinds) {
    if (*nodes <= kWeighed) break;
    const auto first = static_cast<std::uint32_t>(std::min<std::size_t>(*nodes - kWeighed, kind.nodes.size()));
    give(kind, first);
    *nodes -= first;
    left -= first * kind.free;
  }
  const std::vector<std::uint32_t> counts = Packing(kinds, *nodes, left).counts();
  for (std::size_t i = 0; i < kinds.size(); ++i) give(kinds[i], counts[i]);
  // What is over stays on the node that has most, where there is most to choose from.
  const auto sum = std::accumulate(given.begin(), given.end(), std::uint64_t{0});
  *std::ranges::max_element(given) -= static_cast<std::uint32_t>(sum - count);
  return given;
}

/// How many of the requested GPUs can be had; where the nodes have not even as many, that.
std::string how_few_on_nodes(const NodesDecision& decision, std::uint32_t count, std::size_t nodes, std::size_t all) {
  const std::string on = counted(nodes, "node");
  if (count > all && decision.left_out.empty())
    return fmt::format("{} were requested, but the {} {} {}", counted(count, "GPU"), on, nodes == 1 ? "has" : "have",
                       all);
  return fmt::format("only {} of the {} requested GPUs are available on {}", decision.available, count, on);
}

}  // namespace

std::vector<std::uint32_t> choose_nodes(std::span<const NodeOffer> offers, std::uint32_t count) {
  if (count == 0) return {};
  return pack(kinds_of(offers), offers.size(), count);
}

Result<NodesDecision> select_on_nodes(const NodesRequest& request, std::span<const Inputs> nodes) {
  if (request.count == 0) return fail(ErrorCode::invalid_argument, "0 GPUs were requested");
  if (!request.gpus.gpu_ids.empty() || request.gpus.work || request.gpus.model_size || request.gpus.force_cpu)
    return fail(ErrorCode::invalid_argument, "GPUs on many nodes are asked for by their number",
                "named GPUs and models are for one machine");
  Request each = request.gpus;
  each.count = 1;
  each.all = false;
  NodesDecision decision;
  std::size_t all = 0;
  std::vector<NodeOffer> offers(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto fitting = count_fitting(each, nodes[i]);
    if (!fitting && fitting.error().code == ErrorCode::invalid_argument) return std::unexpected(fitting.error());
    if (!fitting) {
      decision.left_out.emplace_back(i, fitting.error().message);
      continue;
    }
    decision.available += fitting->count;
    all += fitting->all;
    offers[i] = {fitting->count, fitting->count == fitting->all};
  }
  const std::vector<std::uint32_t> given = choose_nodes(offers, request.count);
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] == 0) continue;
    each.count = given[i];
    GPUWARDEN_TRY(Decision own, select(each, nodes[i]));
    decision.shares.push_back({i, std::move(own)});
  }
  decision.satisfied = !given.empty();
  if (!decision.satisfied) decision.missing = how_few_on_nodes(decision, request.count, nodes.size(), all);
  return decision;
}

}  // namespace gpuwarden::placement
