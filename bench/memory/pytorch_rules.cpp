// SPDX-License-Identifier: Apache-2.0
#include "memory/pytorch_rules.hpp"

#include <algorithm>

namespace gpuwarden::bench {
namespace {

constexpr std::uint64_t kSmall = kMiB;
constexpr std::uint64_t kSmallSegment = 2 * kMiB;
constexpr std::uint64_t kMiddle = 10 * kMiB;
constexpr std::uint64_t kMiddleSegment = 20 * kMiB;
constexpr std::uint64_t kGrain = 512;

}  // namespace

PyTorchRules::~PyTorchRules() {
  std::set<Block*> blocks;
  for (const Pool* pool : {&small_, &large_}) {
    blocks.insert(pool->free.begin(), pool->free.end());
    blocks.insert(pool->unmapped.begin(), pool->unmapped.end());
  }
  for (const auto& [address, block] : live_) blocks.insert(block);
  for (Block* block : blocks) delete block;
}

PyTorchRules::Block* PyTorchRules::find(Pool& pool, std::uint64_t size, std::uint32_t stream) {
  Block key{.stream = stream, .size = size};
  auto at = pool.free.lower_bound(&key);
  if (at == pool.free.end() || (*at)->stream != stream) return nullptr;
  if (expandable_) {
    // A block that can still grow counts as large as it can become, so that others are preferred.
    const auto grown = [](const Block* block) {
      return block->size + (block->after != nullptr && !block->after->mapped ? block->after->size : 0);
    };
    for (auto next = std::next(at); next != pool.free.end() && (*next)->stream == stream && grown(*next) < grown(*at);)
      at = next++;
  }
  Block* const block = *at;
  pool.free.erase(at);
  return block;
}

PyTorchRules::Block* PyTorchRules::make_segment(Pool& pool, std::uint64_t size, std::uint32_t stream) {
  std::uint64_t segment = round_up(size, 2 * kMiB);
  if (pool.small) segment = kSmallSegment;
  if (!pool.small && size < kMiddle) segment = kMiddleSegment;
  std::uint64_t address = device_.allocate(segment);
  if (address == 0) {
    release_cached();
    address = device_.allocate(segment);
  }
  if (address == 0) throw OutOfMemory("the PyTorch rules ran out of memory");
  return new Block{.stream = stream, .size = segment, .address = address, .pool = &pool};
}

void PyTorchRules::release_cached() {
  for (Pool* pool : {&small_, &large_}) {
    for (auto at = pool->free.begin(); at != pool->free.end();) {
      Block* const block = *at;
      if (block->before != nullptr || block->after != nullptr) {
        ++at;
        continue;
      }
      at = pool->free.erase(at);
      device_.free(block->size);
      delete block;
    }
  }
}

PyTorchRules::Block* PyTorchRules::find_expandable(Pool& pool, std::uint64_t size, std::uint32_t stream) {
  const auto has_room = [size](const Block* block) {
    std::uint64_t room = 0;
    for (; room < size && block != nullptr && !block->allocated; block = block->after) room += block->size;
    return room >= size;
  };
  for (Block* block : pool.unmapped) {
    if (block->stream != stream) continue;
    if (block->before != nullptr && !block->before->allocated) block = block->before;
    if (has_room(block)) return block;
  }
  const std::uint64_t room = device_.capacity() / 8 * 9;
  auto* const segment = new Block{.stream = stream,
                                  .size = round_up(room, kMiddleSegment),
                                  .address = device_.reserve_addresses(round_up(room, kMiddleSegment)),
                                  .pool = &pool,
                                  .mapped = false};
  pool.unmapped.insert(segment);
  return segment;
}

bool PyTorchRules::map(Block* block, std::uint64_t size) {
  Pool& pool = *block->pool;
  const std::uint64_t granule = pool.small ? kSmallSegment : kMiddleSegment;
  const std::uint64_t mapped = std::min(round_up(size, granule), block->size);
  if (!device_.map(mapped, granule)) return false;
  pool.unmapped.erase(block);
  block->mapped = true;
  if (mapped < block->size) {
    auto* const rest = new Block{.stream = block->stream,
                                 .size = block->size - mapped,
                                 .address = block->address + mapped,
                                 .pool = &pool,
                                 .before = block,
                                 .after = block->after,
                                 .mapped = false};
    if (block->after != nullptr) block->after->before = rest;
    block->after = rest;
    block->size = mapped;
    pool.unmapped.insert(rest);
  }
  if (block->before != nullptr && !block->before->allocated && block->before->mapped) {
    pool.free.erase(block->before);
    merge(block, block->before);
  }
  if (block->after != nullptr && !block->after->allocated && block->after->mapped) {
    pool.free.erase(block->after);
    merge(block, block->after);
  }
  return true;
}

PyTorchRules::Block* PyTorchRules::expand(Pool& pool, std::uint64_t size, std::uint32_t stream) {
  Block* block = find_expandable(pool, size, stream);
  if (block->mapped) {
    pool.free.erase(block);
  } else if (!map(block, std::min(block->size, size))) {
    throw OutOfMemory("the expandable PyTorch rules ran out of memory");
  }
  while (block->size < size) {
    Block* const next = block->after;
    // map() merges with free blocks only; this one is taken already.
    block->allocated = true;
    const bool mapped = map(next, std::min(size - block->size, next->size));
    block->allocated = false;
    if (!mapped) throw OutOfMemory("the expandable PyTorch rules ran out of memory");
    merge(block, next);
  }
  return block;
}

void PyTorchRules::merge(Block* into, Block* gone) {
  if (into->before == gone) {
    into->address = gone->address;
    into->before = gone->before;
    if (into->before != nullptr) into->before->after = into;
  } else {
    into->after = gone->after;
    if (into->after != nullptr) into->after->before = into;
  }
  into->size += gone->size;
  delete gone;
}

void PyTorchRules::split(Block* block, std::uint64_t size) {
  auto* const rest = new Block{.stream = block->stream,
                               .size = block->size - size,
                               .address = block->address + size,
                               .pool = block->pool,
                               .before = block,
                               .after = block->after};
  if (block->after != nullptr) block->after->before = rest;
  block->after = rest;
  block->size = size;
  block->pool->free.insert(rest);
}

std::uint64_t PyTorchRules::allocate(std::uint64_t size, std::uint32_t stream) {
  const std::lock_guard lock(mutex_);
  size = round_up(size, kGrain);
  Pool& pool = size <= kSmall ? small_ : large_;
  Block* block = find(pool, size, stream);
  if (block == nullptr) block = expandable_ ? expand(pool, size, stream) : make_segment(pool, size, stream);
  const std::uint64_t rest = block->size - size;
  if (pool.small || expandable_ ? rest >= kGrain : rest > kSmall) split(block, size);
  block->allocated = true;
  live_[block->address] = block;
  return block->address;
}

void PyTorchRules::free(std::uint64_t address, std::uint64_t, std::uint32_t) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(address);
  Block* const block = found->second;
  live_.erase(found);
  block->allocated = false;
  Pool& pool = *block->pool;
  for (Block* other : {block->before, block->after}) {
    if (other == nullptr || other->allocated || !other->mapped) continue;
    pool.free.erase(other);
    merge(block, other);
  }
  pool.free.insert(block);
}

}  // namespace gpuwarden::bench
