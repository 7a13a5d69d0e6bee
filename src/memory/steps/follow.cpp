// SPDX-License-Identifier: Apache-2.0
// How a lane follows its script, and how it leaves it. All of it is behind the lane's lock alone.
#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "memory/lane.hpp"

namespace gpuwarden::memory {
namespace {

constexpr std::uint32_t kLong = std::uint32_t{1} << 30U;

}  // namespace

Attention Lane::look() {
  // Memory of graphs stays as it is; and without host memory there is nothing to learn.
  if (!learns_steps || usual != nullptr) {
    tape.wake_at(tape.op() + kLong);
    return Attention::none;
  }
  try {
    if (!finder.has_started()) finder.start(tape, live());
    return finder.look(tape, live()) ? Attention::begin : Attention::none;
  } catch (const std::bad_alloc&) {
    learns_steps = false;
    tape.switch_off(tape.op());
    return Attention::none;
  }
}

void Lane::end_pass() {
  catch_up();
  begin_crest(live());
  cursor.store(script.entries.data(), std::memory_order_relaxed);
  learned.counted = 0;
  learned.first_op += script.period() + static_cast<std::uint32_t>(learned.strays.size());
  learned.strays.clear();
  ++learned.passes;
}

void Lane::step_over() {
  const ScriptEntry* const next = cursor.load(std::memory_order_relaxed);
  tape.switch_off(next_op());
  cursor.store(next + 1, std::memory_order_relaxed);
}

void Lane::stray(std::uint64_t word) {
  if (learned.strays.size() == LearnedStep::kMostStrays) {
    leave_script();
    return;
  }
  tape.switch_off(next_op());
  learned.strays.emplace_back(position(), word);
}

Attention Lane::attend_allocation(std::uint64_t bytes, DeviceAddress& address) {
  if (!follows()) return look();
  if (position() == script.period()) end_pass();
  const ScriptEntry& next = *cursor.load(std::memory_order_relaxed);
  if (next.key == bytes) {
    address = {next.value};
    cursor.store(&next + 1, std::memory_order_relaxed);
    return Attention::followed;
  }
  catch_up();
  learned.expects_ordinary = next.key == (bytes | word::kApart);
  if (learned.expects_ordinary) {
    step_over();
  } else {
    stray(bytes);
  }
  return Attention::none;
}

void Lane::attend_apart(std::uint64_t bytes) {
  if (!follows()) return;
  if (position() == script.period()) end_pass();
  catch_up();
  learned.expects_ordinary = cursor.load(std::memory_order_relaxed)->key == (bytes | word::kApart);
  if (learned.expects_ordinary) {
    step_over();
  } else {
    stray(word::kApart | bytes);
  }
}

Attention Lane::attend_free(unsigned region, Grains start, DeviceAddress address, const Bytes* size) {
  if (!follows()) return look();
  if (position() == script.period()) end_pass();
  const ScriptEntry& next = *cursor.load(std::memory_order_relaxed);
  if (next.key == (word::kFree | address.value) && (size == nullptr || size->value == next.value)) {
    cursor.store(&next + 1, std::memory_order_relaxed);
    return Attention::followed;
  }
  if (covers(region, start)) {
    leave_script();
    return Attention::none;
  }
  catch_up();
  const BlockNumber block_number = regions[region].find(start);
  if (block_number == kNoBlock || !is_given_out(regions[region][block_number].state)) return Attention::none;
  const Block& block = regions[region][block_number];
  const std::uint64_t bytes = (std::uint64_t{block.size} << kGrainShift) - block.left;
  if (next.key == (word::kFree | word::kApart | bytes)) {
    step_over();
  } else {
    stray(word::kFree | word::kDistance | bytes);
  }
  return Attention::none;
}

void Lane::expect_foreign_free(std::uint64_t bytes) {
  if (!follows()) return;
  if (position() == script.period()) end_pass();
  catch_up();
  if (cursor.load(std::memory_order_relaxed)->key == (word::kFree | word::kApart | bytes)) step_over();
}

void Lane::follow(unsigned region, BlockNumber arena, std::uint64_t base) {
  Block& block = regions[region][arena];
  block.state = BlockState::planned;
  auto strays = std::move(learned.strays);
  strays.clear();
  learned = {.region = region,
             .base = base,
             .arena = arena,
             .start = block.start,
             .size = block.size,
             .first_op = tape.op(),
             .strays = std::move(strays),
             .operations = learned.operations};
  tape.switch_off(tape.op());
  cursor.store(script.entries.data(), std::memory_order_relaxed);
}

void Lane::catch_up() {
  if (!follows()) return;
  const std::uint32_t end = position();
  const std::uint64_t ordinary = counters.live.load(std::memory_order_relaxed);
  learned.operations += end - learned.counted;
  const auto see = [&](std::uint64_t live) {
    if (live > counters.crest) counters.trough = counters.crest = live;
    counters.trough = std::min(counters.trough, live);
  };
  if (learned.counted == 0 && end == script.period()) {
    counters.allocations += script.planned;
    counters.frees += script.planned;
    see(ordinary + script.crest);
    learned.operations -= end - 2 * std::uint64_t{script.planned};
  } else {
    see(ordinary + script.live_at[learned.counted]);
    for (std::uint32_t at = learned.counted; at < end; ++at) {
      if (script.partner[at] == Script::kNone) {
        --learned.operations;
        continue;
      }
      const bool birth = script.is_birth(at);
      const ScriptEntry& entry = script.entries[at];
      const std::uint64_t bytes = birth ? entry.key : entry.value;
      const std::uint64_t waste = (std::uint64_t{grains(Bytes(bytes))} << kGrainShift) - bytes;
      counters.waste = birth ? counters.waste + waste : counters.waste - waste;
      ++(birth ? counters.allocations : counters.frees);
      see(ordinary + script.live_at[at + 1]);
    }
  }
  see(ordinary + script.live_at[end]);
  learned.counted = end;
}

std::optional<Bytes> Lane::planned_size(DeviceAddress address) const {
  // All places are free when a pass begins: the last operation on this one decides.
  for (std::uint32_t at = position(); at-- > 0;) {
    const ScriptEntry& entry = script.entries[at];
    if (script.partner[at] == Script::kNone) continue;
    if (script.is_birth(at) && entry.value == address.value) return Bytes(entry.key);
    if (entry.key == (word::kFree | address.value)) return std::nullopt;
  }
  return std::nullopt;
}

void Lane::rewrite_tape() {
  const std::uint32_t end = next_op();
  const std::uint64_t followed = learned.passes * script.period() + position() + learned.strays.size();
  const auto& strays = learned.strays;
  std::size_t strays_left = strays.size();
  std::uint32_t at = position();
  for (std::uint32_t back = 1; back <= std::min<std::uint64_t>(followed, tape.capacity()); ++back) {
    if (strays_left != 0 && strays[strays_left - 1].first == at) {
      tape[end - back] = strays[--strays_left].second;
      continue;
    }
    if (at == 0) at = script.period();
    tape[end - back] = script.word(--at);
  }
  tape.switch_on(end);
  finder.left(tape, followed);
}

void Lane::leave_script() {
  if (!follows()) return;
  catch_up();
  const std::uint32_t at = position();
  std::vector<LivePart> parts;
  std::uint32_t strays = 0;
  for (std::uint32_t i = 0; i < at; ++i) {
    while (strays < learned.strays.size() && learned.strays[strays].first <= i) ++strays;
    if (!script.is_birth(i) || script.partner[i] < at) continue;
    const ScriptEntry& entry = script.entries[i];
    const Grains size = grains(Bytes(entry.key));
    parts.push_back({.start = static_cast<Grains>((entry.value - learned.base) >> kGrainShift),
                     .size = size,
                     .waste = static_cast<std::uint32_t>((std::uint64_t{size} << kGrainShift) - entry.key),
                     .op = learned.first_op + i + strays,
                     .epoch = static_cast<std::uint32_t>(counters.allocations)});
  }
  std::ranges::sort(parts, {}, &LivePart::start);
  Region& region = regions[learned.region];
  region.prepare(learned.arena, 2 * parts.size());
  {
    // Threads that give planned blocks back without the lock see all of them as they are from now on, or none.
    inbox.gate.lock_in_passing();
    const std::lock_guard gated(inbox.gate, std::adopt_lock);
    region.scatter(learned.arena, parts, epoch.load(std::memory_order_relaxed));
  }
  const std::uint64_t all = live();
  rewrite_tape();
  counters.live.store(all, std::memory_order_relaxed);
  cursor.store(&kNoEntry, std::memory_order_relaxed);
}

}  // namespace gpuwarden::memory
