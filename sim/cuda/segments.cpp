// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/segments.hpp"

#include <algorithm>

#include "sim/cuda/space.hpp"

namespace gpuwarden::cuda::server {
namespace {

/// How many free blocks are looked at before a stream is made to wait or a segment is taken.
constexpr int kCandidates = 64;

}  // namespace

Segments::Segments(std::uint64_t segment_size, std::uint64_t alignment, Upstream upstream)
    : segment_size_(segment_size), alignment_(alignment), upstream_(std::move(upstream)) {}

std::uint64_t Segments::rounded(std::uint64_t size) const {
  return round_up(std::max<std::uint64_t>(size, 1), alignment_);
}

bool Segments::is_usable(const Block& block, const StreamState* stream, Moment now, const ReuseRules& rules) const {
  if (block.stream == 0) return true;
  if (stream == nullptr) return block.at <= now;
  if (block.stream == stream->id) return true;
  if (rules.allow_opportunistic && block.at <= now) return true;
  const auto known = stream->known.find(block.stream);
  return rules.follow_event_dependencies && known != stream->known.end() && known->second >= block.work;
}

Segments::Blocks::iterator Segments::find(std::uint64_t size, const StreamState* stream, Moment now,
                                          const ReuseRules& rules) {
  int looked_at = 0;
  for (auto candidate = free_.lower_bound({size, 0}); candidate != free_.end() && looked_at < kCandidates;
       ++candidate, ++looked_at) {
    const auto block = blocks_.find(candidate->second);
    if (is_usable(block->second, stream, now, rules)) return block;
  }
  return blocks_.end();
}

std::uint64_t Segments::carve(Blocks::iterator block, std::uint64_t size) {
  free_.erase({block->second.size, block->first});
  Block& taken = block->second;
  if (taken.size > size) {
    Block rest = taken;
    rest.size -= size;
    taken.size = size;
    const auto behind = blocks_.emplace(block->first + size, rest).first;
    free_.insert({rest.size, behind->first});
  }
  taken.free = false;
  used_ += size;
  used_high = std::max(used_high, used_);
  return block->first;
}

bool Segments::grow(std::uint64_t size) {
  const std::uint64_t whole = std::max(segment_size_, round_up(size, kPage));
  // Where no full segment is left, as much as is needed may be.
  for (const std::uint64_t wanted : {whole, round_up(size, kPage)}) {
    const std::uint64_t address = upstream_.grow(wanted);
    if (address == 0) continue;
    segments_[address] = wanted;
    reserved_ += wanted;
    reserved_high = std::max(reserved_high, reserved_);
    set_free(blocks_.emplace(address, Block{.size = wanted, .segment = address}).first);
    return true;
  }
  return false;
}

std::uint64_t Segments::take(std::uint64_t size, StreamState* stream, Moment now, const ReuseRules& rules) {
  if (size >= kTooLarge) return 0;
  size = rounded(size);
  auto block = find(size, stream, now, rules);
  if (block == blocks_.end()) {
    settle(now);
    block = find(size, stream, now, rules);
  }
  if (block == blocks_.end() && stream != nullptr && rules.allow_internal_dependencies) {
    const auto candidate = free_.lower_bound({size, 0});
    if (candidate != free_.end()) {
      block = blocks_.find(candidate->second);
      stream->busy_until = std::max(stream->busy_until, block->second.at);
      learn(stream->known, {{block->second.stream, block->second.work}});
    }
  }
  if (block == blocks_.end() && grow(size)) block = find(size, stream, now, rules);
  return block == blocks_.end() ? 0 : carve(block, size);
}

void Segments::set_free(Blocks::iterator block) {
  block->second.free = true;
  free_.insert({block->second.size, block->first});
}

/// With free neighbours that wait for the same.
Segments::Blocks::iterator Segments::merge(Blocks::iterator block) {
  const auto joins = [&](Blocks::iterator a, Blocks::iterator b) {
    return a->second.free && b->second.free && a->second.segment == b->second.segment &&
           a->second.stream == b->second.stream;
  };
  const auto join = [&](Blocks::iterator a, Blocks::iterator b) {
    free_.erase({a->second.size, a->first});
    free_.erase({b->second.size, b->first});
    a->second.size += b->second.size;
    a->second.work = std::max(a->second.work, b->second.work);
    a->second.at = std::max(a->second.at, b->second.at);
    blocks_.erase(b);
    free_.insert({a->second.size, a->first});
    return a;
  };
  if (const auto behind = std::next(block); behind != blocks_.end() && joins(block, behind)) join(block, behind);
  if (block != blocks_.begin() && joins(std::prev(block), block)) block = join(std::prev(block), block);
  return block;
}

bool Segments::give(std::uint64_t address, const StreamState* stream, Moment now) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end() || block->second.free) return false;
  used_ -= block->second.size;
  block->second.stream = stream != nullptr ? stream->id : 0;
  block->second.work = stream != nullptr ? stream->work : 0;
  block->second.at = stream != nullptr ? std::max(stream->busy_until, now) : now;
  set_free(block);
  merge(block);
  return true;
}

/// Forgets what is over, so that neighbours of different streams become one.
void Segments::settle(Moment now) {
  for (auto& [address, block] : blocks_) {
    if (block.free && block.at <= now) block.stream = block.work = 0;
  }
  for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
    if (block->second.free) block = merge(block);
  }
}

void Segments::trim(std::uint64_t keep, Moment now) {
  settle(now);
  for (auto segment = segments_.begin(); segment != segments_.end() && reserved_ > keep;) {
    const auto [address, size] = *segment;
    const auto block = blocks_.find(address);
    if (!block->second.free || block->second.size != size || block->second.at > now) {
      ++segment;
      continue;
    }
    free_.erase({size, address});
    blocks_.erase(block);
    reserved_ -= size;
    segment = segments_.erase(segment);
    upstream_.shrink(address, size);
  }
}

void Segments::clear() {
  for (const auto& [address, size] : segments_) upstream_.shrink(address, size);
  segments_.clear();
  blocks_.clear();
  free_.clear();
  reserved_ = used_ = 0;
}

}  // namespace gpuwarden::cuda::server
