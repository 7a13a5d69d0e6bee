// SPDX-License-Identifier: Apache-2.0
#include "memory/pytorch_rules.hpp"

#include <algorithm>

namespace gpuwarden::bench {
namespace {

constexpr std::uint64_t kSmall = kMiB;
constexpr std::uint64_t kMiddle = 10 * kMiB;
constexpr std::uint64_t kGrain = 512;

}  // namespace

PyTorchRules::~PyTorchRules() {
  std::set<Block*> blocks;
  for (const Pool* pool : {&small_, &large_}) {
    blocks.insert(pool->free.begin(), pool->free.end());
    blocks.insert(pool->unmapped.begin(), pool->unmapped.end());
  }
  for (const auto& [address, block] : live_) blocks.insert(block);
  for (const auto& [stream, waiting] : pending_) {
    for (const auto& [event, block] : waiting) blocks.insert(block);
  }
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
  const std::uint64_t segment = pool.small || size < kMiddle ? pool.granule() : round_up(size, 2 * kMiB);
  const std::uint64_t address = device_.allocate(segment);
  if (address == 0) return nullptr;
  return new Block{.stream = stream, .size = segment, .address = address, .segment = address, .pool = &pool};
}

void PyTorchRules::release_cached() {
  for (auto& [stream, waiting] : pending_) {
    for (const auto& [event, block] : waiting) {
      device_.driver.synchronize(event);
      give_back(block);
    }
    waiting.clear();
  }
  for (Pool* pool : {&small_, &large_}) {
    const std::vector<Block*> blocks(pool->free.begin(), pool->free.end());
    for (Block* block : blocks) {
      if (expandable_) {
        unmap(block);
      } else if (block->before == nullptr && block->after == nullptr) {
        pool->free.erase(block);
        device_.free(block->size);
        delete block;
      }
    }
  }
}

/// Gives back the whole granules in a free block; what is left at its ends stays.
void PyTorchRules::unmap(Block* block) {
  Pool& pool = *block->pool;
  const std::uint64_t granule = pool.granule();
  const std::uint64_t begin = block->segment + round_up(block->address - block->segment, granule);
  const std::uint64_t end = block->segment + (block->address + block->size - block->segment) / granule * granule;
  if (begin >= end) return;
  pool.free.erase(block);
  if (begin > block->address) {
    Block* const rest = cut(block, begin - block->address);
    pool.free.insert(block);
    block = rest;
  }
  if (end < block->address + block->size) pool.free.insert(cut(block, end - block->address));
  device_.unmap(end - begin, granule);
  block->mapped = false;
  for (Block* other : {block->before, block->after}) {
    if (other == nullptr || other->mapped) continue;
    pool.unmapped.erase(other);
    merge(block, other);
  }
  pool.unmapped.insert(block);
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
  const std::uint64_t room = round_up(device_.capacity() / 8 * 9, 20 * kMiB);
  const std::uint64_t address = device_.reserve_addresses(room);
  auto* const segment =
      new Block{.stream = stream, .size = room, .address = address, .segment = address, .pool = &pool, .mapped = false};
  pool.unmapped.insert(segment);
  return segment;
}

/// Memory for at least `size` bytes at the begin of an unmapped block, which then is free.
bool PyTorchRules::map(Block* block, std::uint64_t size) {
  Pool& pool = *block->pool;
  const std::uint64_t mapped = std::min(round_up(size, pool.granule()), block->size);
  if (!device_.map(mapped, pool.granule())) return false;
  pool.unmapped.erase(block);
  if (mapped < block->size) {
    Block* const rest = cut(block, mapped);
    rest->mapped = false;
    pool.unmapped.insert(rest);
  }
  block->mapped = true;
  merge_neighbours(block);
  pool.free.insert(block);
  return true;
}

PyTorchRules::Block* PyTorchRules::expand(Pool& pool, std::uint64_t size, std::uint32_t stream) {
  Block* block = find_expandable(pool, size, stream);
  if (!block->mapped && !map(block, std::min(block->size, size))) return nullptr;
  while (block->size < size) {
    Block* const next = block->after;
    // Mapping merges `block` into `next`.
    if (!map(next, std::min(size - block->size, next->size))) return nullptr;
    block = next;
  }
  pool.free.erase(block);
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

void PyTorchRules::merge_neighbours(Block* block) {
  Pool& pool = *block->pool;
  for (Block* other : {block->before, block->after}) {
    if (other == nullptr || other->allocated || !other->mapped) continue;
    pool.free.erase(other);
    merge(block, other);
  }
}

/// Shortens a block that is in no set to `size`; the rest.
PyTorchRules::Block* PyTorchRules::cut(Block* block, std::uint64_t size) {
  auto* const rest = new Block{.stream = block->stream,
                               .size = block->size - size,
                               .address = block->address + size,
                               .segment = block->segment,
                               .pool = block->pool,
                               .before = block,
                               .after = block->after,
                               .mapped = block->mapped};
  if (block->after != nullptr) block->after->before = rest;
  block->after = rest;
  block->size = size;
  return rest;
}

std::uint64_t PyTorchRules::allocate(std::uint64_t size, std::uint32_t stream) {
  const std::lock_guard lock(mutex_);
  poll_pending();
  size = round_up(size, kGrain);
  Pool& pool = size <= kSmall ? small_ : large_;
  const auto grow = [&] { return expandable_ ? expand(pool, size, stream) : make_segment(pool, size, stream); };
  Block* block = find(pool, size, stream);
  if (block == nullptr) block = grow();
  if (block == nullptr) {
    release_cached();
    block = grow();
  }
  if (block == nullptr) throw OutOfMemory("the PyTorch rules ran out of memory");
  const std::uint64_t rest = block->size - size;
  if (pool.small || expandable_ ? rest >= kGrain : rest > kSmall) pool.free.insert(cut(block, size));
  block->allocated = true;
  live_[block->address] = block;
  return block->address;
}

void PyTorchRules::free(std::uint64_t address, std::uint64_t, std::uint32_t stream) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(address);
  Block* const block = found->second;
  live_.erase(found);
  if (stream == block->stream) {
    give_back(block);
    // What waits stays marked as allocated until its event is done.
  } else {
    pending_[stream].emplace_back(device_.driver.record(stream), block);
  }
}

void PyTorchRules::give_back(Block* block) {
  block->allocated = false;
  merge_neighbours(block);
  block->pool->free.insert(block);
}

void PyTorchRules::poll_pending() {
  for (auto& [stream, waiting] : pending_) {
    while (!waiting.empty() && device_.driver.is_done(waiting.front().first)) {
      give_back(waiting.front().second);
      waiting.pop_front();
    }
  }
}

}  // namespace gpuwarden::bench
