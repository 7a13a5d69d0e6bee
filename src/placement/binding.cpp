// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/placement/binding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace gpuwarden::placement {
namespace {

using facts::Cpu;
using Cpus = std::vector<Cpu>;

constexpr auto kBindNames =
    std::to_array<std::pair<BindTo, std::string_view>>({{BindTo::node, "node"},
                                                        {BindTo::socket, "socket"},
                                                        {BindTo::exclusive, "exclusive"},
                                                        {BindTo::core_complex, "core-complex"}});

/// What the CPUs agree upon; nothing where they differ or one of them does not know.
std::optional<int> common(const Cpus& cpus, std::optional<int> Cpu::* field) {
  if (cpus.empty()) return std::nullopt;
  const bool agree = std::ranges::all_of(cpus, [&](const Cpu& cpu) { return cpu.*field == cpus[0].*field; });
  return agree ? cpus[0].*field : std::nullopt;
}

Cpus where(const Cpus& cpus, std::optional<int> Cpu::* field, std::optional<int> value) {
  Cpus found;
  std::ranges::copy_if(cpus, std::back_inserter(found), [&](const Cpu& cpu) { return cpu.*field == value; });
  return found;
}

/// The hardware threads of each core, in the order of the cores' first CPUs. A CPU of an unknown core counts as one.
std::vector<Cpus> by_core(const Cpus& cpus) {
  std::map<int, std::size_t> known;
  std::vector<Cpus> cores;
  for (const Cpu& cpu : cpus) {
    const int core = cpu.core ? *cpu.core : -1 - static_cast<int>(cpu.number);
    const auto [at, is_new] = known.try_emplace(core, cores.size());
    if (is_new) cores.emplace_back();
    cores[at->second].push_back(cpu);
  }
  return cores;
}

/// The CPUs near one GPU, before ranks divide them.
struct Near {
  std::optional<int> node;
  Cpus cpus;
  std::string problem;
};

Near near(const RankPlace& place, const Cpus& all) {
  Cpus listed;
  if (place.cpu_list) {
    const auto numbers = facts::cpu_numbers(*place.cpu_list);
    std::ranges::copy_if(all, std::back_inserter(listed),
                         [&](const Cpu& cpu) { return std::ranges::binary_search(numbers, cpu.number); });
  }
  // The kernel's -1 is no node.
  const auto told = place.numa_node.value_or(-1) >= 0 ? place.numa_node : std::nullopt;
  Near found{.node = told ? told : common(listed, &Cpu::numa_node), .cpus = {}, .problem = {}};
  if (!found.node && !listed.empty() && listed.size() < all.size()) {
    // The kernel tells no nodes, but the driver tells which CPUs are near.
    found.cpus = listed;
    return found;
  }
  if (!found.node) found.node = common(all, &Cpu::numa_node);
  if (!found.node) {
    found.problem = "its GPU's NUMA node is unknown";
    return found;
  }
  found.cpus = where(all, &Cpu::numa_node, found.node);
  if (found.cpus.empty()) found.cpus = listed;
  if (found.cpus.empty()) found.problem = fmt::format("no CPU of NUMA node {} can be used here", *found.node);
  return found;
}

/// The part of `number` when `all` things are divided among `ranks`, those before getting one more where it is uneven.
std::pair<std::size_t, std::size_t> part(std::size_t all, std::size_t number, std::size_t ranks) {
  if (all < ranks) return {number % all, number % all + 1};
  const std::size_t each = all / ranks;
  const std::size_t more = all % ranks;
  const std::size_t first = number * each + std::min(number, more);
  return {first, first + each + (number < more ? 1 : 0)};
}

Cpus of_socket(const Near& near, const Cpus& all) {
  const auto package = common(near.cpus, &Cpu::package);
  return package ? where(all, &Cpu::package, package) : near.cpus;
}

/// `number`: of the rank among the `ranks` that are near the same CPUs.
Cpus divided(const Near& near, std::size_t number, std::size_t ranks, RankBinding& binding) {
  const auto cores = by_core(near.cpus);
  if (cores.size() < ranks) binding.reason = fmt::format("{} cores for {} ranks: some share one", cores.size(), ranks);
  const auto [first, end] = part(cores.size(), number, ranks);
  Cpus own;
  for (std::size_t i = first; i < end; ++i) own.insert(own.end(), cores[i].begin(), cores[i].end());
  return own;
}

Cpus of_complex(const Near& near, std::size_t number, RankBinding& binding) {
  std::set<int> caches;
  for (const Cpu& cpu : near.cpus) {
    if (cpu.cache) caches.insert(*cpu.cache);
  }
  if (caches.empty()) {
    binding.reason = "which CPUs share a last-level cache is unknown: bound to the NUMA node";
    return near.cpus;
  }
  return where(near.cpus, &Cpu::cache, *std::next(caches.begin(), static_cast<std::ptrdiff_t>(number % caches.size())));
}

Cpus taken(const Near& near, const Cpus& all, std::pair<std::size_t, std::size_t> turn, BindTo bind,
           RankBinding& binding) {
  switch (bind) {
    case BindTo::node:
      return near.cpus;
    case BindTo::socket:
      return of_socket(near, all);
    case BindTo::exclusive:
      return divided(near, turn.first, turn.second, binding);
    case BindTo::core_complex:
      return of_complex(near, turn.first, binding);
  }
  return {};
}

}  // namespace

std::string_view to_string(BindTo bind) {
  return std::ranges::find(kBindNames, bind, &std::pair<BindTo, std::string_view>::first)->second;
}

std::optional<BindTo> bind_to_from(std::string_view name) {
  if (name == "core_complex") return BindTo::core_complex;
  const auto* const found = std::ranges::find(kBindNames, name, &std::pair<BindTo, std::string_view>::second);
  if (found == kBindNames.end()) return std::nullopt;
  return found->first;
}

RankPlace place_of(const facts::Gpu& gpu) { return {gpu.numa_node, gpu.cpu_affinity}; }

std::vector<RankBinding> bind_ranks(std::span<const RankPlace> ranks, std::span<const facts::Cpu> cpus, BindTo bind) {
  Cpus all(cpus.begin(), cpus.end());
  std::ranges::sort(all, {}, &Cpu::number);
  std::vector<Near> places;
  std::map<std::vector<unsigned>, std::size_t> ranks_near;
  const auto key = [](const Near& near) {
    std::vector<unsigned> numbers;
    for (const Cpu& cpu : near.cpus) numbers.push_back(cpu.number);
    return numbers;
  };
  for (const RankPlace& rank : ranks) {
    places.push_back(near(rank, all));
    ++ranks_near[key(places.back())];
  }
  std::map<std::vector<unsigned>, std::size_t> turn;
  std::vector<RankBinding> bindings;
  for (const Near& place : places) {
    RankBinding& binding = bindings.emplace_back();
    binding.numa_node = place.node;
    binding.reason = place.problem;
    if (place.cpus.empty()) continue;
    const auto at = key(place);
    Cpus own = taken(place, all, {turn[at]++, ranks_near[at]}, bind, binding);
    std::ranges::sort(own, {}, &Cpu::number);
    for (const Cpu& cpu : own) binding.cpus.push_back(cpu.number);
    binding.cores = by_core(own).size();
  }
  return bindings;
}

}  // namespace gpuwarden::placement
