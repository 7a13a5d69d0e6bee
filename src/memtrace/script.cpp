// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memtrace/script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "gpuwarden/memory/pool.hpp"

namespace gpuwarden::memtrace {
namespace {

std::uint64_t in_grains(std::uint64_t size) {
  const std::uint64_t grain = memory::kGrain.value;
  return (size + grain - 1) / grain * grain;
}

/// Gives blocks their slots: those live before keep theirs for all steps, the others take what is free. So every step
/// uses the same slots, however often it is run.
class ScriptMaker {
 public:
  explicit ScriptMaker(const Trace& trace) : trace_(trace), slot_of_(trace.blocks), live_(trace.blocks, false) {
    for (const Event& event : trace.before) {
      slot_of_[event.block] = script_.slots++;
      live_[event.block] = true;
    }
    plan_slots();
  }

  Script make(std::span<const unsigned> lengths) {
    const auto length_of = [&](unsigned given) { return trace_.depends_on_tokens() ? given : 0; };
    script_.parts.push_back(part(length_of(lengths.front()), true));
    std::map<unsigned, std::uint32_t> known;
    for (const unsigned given : lengths) {
      const unsigned length = length_of(given);
      const auto [found, fresh] = known.try_emplace(length, static_cast<std::uint32_t>(script_.parts.size()));
      if (fresh) script_.parts.push_back(part(length, false));
      script_.again.push_back(found->second);
    }
    script_.order = script_.again;
    script_.order.front() = 0;
    count();
    return std::move(script_);
  }

 private:
  void plan_slots() {
    std::vector<std::uint32_t> free;
    for (const Event& event : trace_.events) {
      if (event.frees) {
        live_[event.block] = false;
        if (!was_before(event.block)) free.push_back(slot_of_[event.block]);
        continue;
      }
      live_[event.block] = true;
      slot_of_[event.block] = free.empty() ? script_.slots++ : free.back();
      if (!free.empty()) free.pop_back();
    }
  }

  /// Their slots are the first ones.
  bool was_before(std::uint32_t block) const { return slot_of_[block] < trace_.before.size(); }

  std::uint64_t size_of(const Event& event, unsigned length) const {
    return trace_.depends_on_tokens() ? trace_.formulas[event.block].at(length) : event.size;
  }

  std::vector<Operation> part(unsigned length, bool first) const {
    std::vector<Operation> operations;
    operations.reserve(trace_.before.size() + trace_.events.size());
    // What the step before left, in the order in which it was allocated.
    for (const Event& event : trace_.events) {
      if (!first && !event.frees && live_[event.block])
        operations.push_back({.slot = slot_of_[event.block], .stream = event.stream});
    }
    for (const Event& event : trace_.before) {
      if (first || !live_[event.block])
        operations.push_back({size_of(event, length), slot_of_[event.block], event.stream});
    }
    for (const Event& event : trace_.events)
      operations.push_back({event.frees ? 0 : size_of(event, length), slot_of_[event.block], event.stream});
    return operations;
  }

  void count() {
    std::vector<std::uint64_t> sizes(script_.slots);
    std::uint64_t live = 0;
    std::uint64_t requested = 0;
    for (const std::uint32_t number : script_.order) {
      for (const Operation& operation : script_.parts[number]) {
        ++script_.operations;
        std::uint64_t& size = sizes[operation.slot];
        live -= in_grains(size);
        requested -= size;
        size = operation.size;
        live += in_grains(size);
        requested += size;
        if (operation.size == 0) continue;
        ++script_.allocations;
        script_.peak_requested = std::max(script_.peak_requested, Bytes(requested));
        if (Bytes(live) <= script_.peak_live) continue;
        script_.peak_live = Bytes(live);
        script_.peak_operation = script_.operations;
      }
    }
  }

  const Trace& trace_;
  Script script_;
  std::vector<std::uint32_t> slot_of_;
  std::vector<bool> live_;  ///< at the end of a step
};

}  // namespace

Script make_script(const Trace& trace, std::span<const unsigned> lengths) { return ScriptMaker(trace).make(lengths); }

Result<void> check_streams(const Script& script) {
  std::set<std::uint32_t> streams;
  for (const auto& part : script.parts) {
    for (const Operation& operation : part) streams.insert(operation.stream);
  }
  if (streams.size() <= memory::kMostStreams) return {};
  return fail(
      ErrorCode::invalid_argument,
      fmt::format("the trace is on {} streams, but a pool serves at most {}", streams.size(), memory::kMostStreams),
      "replay the part of it that one pool had to serve");
}

std::vector<unsigned> random_lengths(unsigned least, unsigned most, unsigned count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<unsigned> length(least, most);
  std::vector<unsigned> lengths(count);
  std::ranges::generate(lengths, [&] { return length(random); });
  return lengths;
}

}  // namespace gpuwarden::memtrace
