// SPDX-License-Identifier: Apache-2.0
#include "gpuwarden/memory/movable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "memory/core.hpp"

namespace gpuwarden::memory {
namespace {

std::uint64_t first_page(DeviceAddress address) { return address.value / kPage.value; }
std::uint64_t last_page(DeviceAddress address, Bytes size) { return (address.value + size.value - 1) / kPage.value; }

/// How many bytes of [address, address + size) lie on a page.
std::uint64_t part_on(std::uint64_t page, DeviceAddress address, Bytes size) {
  const std::uint64_t begin = std::max(address.value, page * kPage.value);
  const std::uint64_t end = std::min(address.value + size.value, (page + 1) * kPage.value);
  return end - begin;
}

std::unexpected<Error> no_such(MovableId id) {
  return fail(ErrorCode::invalid_argument, fmt::format("there is no movable buffer {}", id.value),
              "it was given back before, or belongs to another owner");
}

}  // namespace

/// Which pages are used by how much, and which buffers that may move lie on them.
class MovableMemory::PageMap {
 public:
  PageMap(Pool::Core& core, std::map<MovableId, Buffer>& buffers) : used_(core.used_pages()) {
    for (auto& [id, buffer] : buffers) {
      if (buffer.pins != 0) continue;
      for (const std::uint64_t page : pages_of(buffer)) {
        Entry& entry = movable_[page];
        entry.bytes += part_on(page, buffer.address, buffer.held);
        entry.buffers.push_back(&buffer);
      }
    }
  }

  /// Pages that nothing but movable buffers use, those with the least on them first.
  std::vector<std::uint64_t> candidates() const {
    std::vector<std::uint64_t> pages;
    for (const auto& [page, entry] : movable_) {
      if (entry.bytes == used_.at(page)) pages.push_back(page);
    }
    std::ranges::stable_sort(pages, {}, [&](std::uint64_t page) { return used_.at(page); });
    return pages;
  }

  const std::vector<Buffer*>& on(std::uint64_t page) const { return movable_.at(page).buffers; }
  std::uint64_t used(std::uint64_t page) const { return used_.at(page); }

 private:
  struct Entry {
    std::uint64_t bytes = 0;
    std::vector<Buffer*> buffers;
  };
  std::unordered_map<std::uint64_t, std::uint64_t> used_;  ///< bytes by page number
  std::map<std::uint64_t, Entry> movable_;
};

MovableMemory::MovableMemory(Pool& pool, Copy copy) : pool_(pool), copy_(std::move(copy)) {
  if (copy_) return;
  copy_ = [&pool](DeviceAddress to, DeviceAddress from, Bytes size, StreamId stream) {
    return pool.core_->copy(to, from, size, stream);
  };
}

MovableMemory::~MovableMemory() {
  for (auto& [id, buffer] : buffers_) {
    for (const StreamId user : buffer.users) static_cast<void>(pool_.record_stream(buffer.address, user));
    static_cast<void>(pool_.deallocate(buffer.address, buffer.stream));
  }
}

MovableMemory::Buffer* MovableMemory::find(MovableId id) {
  const auto found = buffers_.find(id);
  return found == buffers_.end() ? nullptr : &found->second;
}

Result<MovableId> MovableMemory::allocate(Bytes size, StreamId stream) {
  GPUWARDEN_TRY(const DeviceAddress address, pool_.allocate(size, stream));
  const std::lock_guard lock(mutex_);
  const MovableId id{++last_id_};
  buffers_.emplace(id, Buffer{.address = address,
                              .size = size,
                              .held = pool_.core_->held(address),
                              .stream = stream,
                              .users = {},
                              .seen = {}});
  return id;
}

Result<void> MovableMemory::deallocate(MovableId id) {
  const std::lock_guard lock(mutex_);
  Buffer* const buffer = find(id);
  if (buffer == nullptr) return no_such(id);
  if (buffer->pins != 0)
    return fail(ErrorCode::invalid_argument, fmt::format("movable buffer {} is pinned", id.value), "unpin it first");
  for (const StreamId user : buffer->users) GPUWARDEN_CHECK(pool_.record_stream(buffer->address, user));
  GPUWARDEN_CHECK(pool_.deallocate(buffer->address, buffer->stream));
  buffers_.erase(id);
  return {};
}

Result<PinnedBuffer> MovableMemory::pin(MovableId id, StreamId stream) {
  const std::lock_guard lock(mutex_);
  Buffer* const buffer = find(id);
  if (buffer == nullptr) return no_such(id);
  if (stream != buffer->stream && buffer->generation != 0) {
    const auto seen = std::ranges::find(buffer->seen, stream, &std::pair<StreamId, std::uint64_t>::first);
    if (seen == buffer->seen.end() || seen->second != buffer->generation) {
      GPUWARDEN_CHECK(pool_.order(stream, buffer->stream));
      if (seen != buffer->seen.end()) buffer->seen.erase(seen);
      buffer->seen.emplace_back(stream, buffer->generation);
    }
  }
  ++buffer->pins;
  return PinnedBuffer{buffer->address, buffer->size, buffer->generation};
}

Result<void> MovableMemory::unpin(MovableId id, StreamId stream) {
  const std::lock_guard lock(mutex_);
  Buffer* const buffer = find(id);
  if (buffer == nullptr) return no_such(id);
  if (buffer->pins == 0)
    return fail(ErrorCode::invalid_argument, fmt::format("movable buffer {} is not pinned", id.value),
                "each unpin() belongs to one pin()");
  --buffer->pins;
  if (stream != buffer->stream && std::ranges::find(buffer->users, stream) == buffer->users.end())
    buffer->users.push_back(stream);
  return {};
}

std::vector<std::uint64_t> MovableMemory::pages_of(const Buffer& buffer) {
  std::vector<std::uint64_t> pages;
  for (std::uint64_t page = first_page(buffer.address); page <= last_page(buffer.address, buffer.held); ++page)
    pages.push_back(page);
  return pages;
}

MovableMemory::Group MovableMemory::group_of(const PageMap& map, std::uint64_t page) {
  Group group{.buffers = map.on(page), .leaving = {}, .bytes = {}, .pages = 0};
  std::map<std::uint64_t, std::uint64_t> leaves;
  for (const Buffer* const buffer : group.buffers) {
    group.bytes += buffer->size;
    for (const std::uint64_t on : pages_of(*buffer)) leaves[on] += part_on(on, buffer->address, buffer->held);
  }
  for (const auto& [on, bytes] : leaves) {
    group.leaving.insert(on);
    group.pages += bytes == map.used(on) ? 1 : 0;
  }
  return group;
}

Result<void> MovableMemory::move_to(Buffer& buffer, DeviceAddress target) {
  // The copy runs on the buffer's stream, behind all who have worked on it.
  for (const StreamId user : buffer.users) GPUWARDEN_CHECK(pool_.order(buffer.stream, user));
  GPUWARDEN_CHECK(copy_(target, buffer.address, buffer.size, buffer.stream));
  GPUWARDEN_CHECK(pool_.core_->vacate(buffer.address, buffer.stream));
  buffer.address = target;
  buffer.held = pool_.core_->held(target);
  ++buffer.generation;
  buffer.users.clear();
  return {};
}

Result<bool> MovableMemory::move_group(const Group& group, DefragmentStatistics& pass) {
  std::vector<DeviceAddress> targets;
  const auto give_up = [&](std::size_t from) {
    // What was just taken is live, so that it can be given back.
    for (std::size_t i = from; i < targets.size(); ++i)
      static_cast<void>(pool_.core_->vacate(targets[i], group.buffers[i]->stream));
  };
  std::uint64_t taken = 0;
  for (const Buffer* const buffer : group.buffers) {
    const auto target = pool_.core_->take_place(buffer->size, buffer->stream, group.leaving, group.pages - taken - 1);
    if (!target) {
      give_up(0);
      return false;
    }
    taken += target->pages;
    targets.push_back(target->address);
  }
  for (std::size_t i = 0; i < group.buffers.size(); ++i) {
    if (const auto moved = move_to(*group.buffers[i], targets[i]); !moved) {
      give_up(i);
      return std::unexpected(moved.error());
    }
    ++pass.moves;
    pass.bytes_moved += group.buffers[i]->size;
    ++total_.moves;
    total_.bytes_moved += group.buffers[i]->size;
  }
  pass.pages_freed += group.pages - taken;
  total_.pages_freed += group.pages - taken;
  return true;
}

Result<DefragmentStatistics> MovableMemory::defragment(const DefragmentLimits& limits) {
  if (pool_.core_->is_forked())
    return fail(ErrorCode::unavailable, "this process was forked from the one that made the pool");
  const std::lock_guard lock(mutex_);
  DefragmentStatistics pass;
  const PageMap map(*pool_.core_, buffers_);
  // The map holds for pages that nothing has left or come to in this pass.
  std::set<std::uint64_t> changed;
  for (const std::uint64_t page : map.candidates()) {
    if (changed.contains(page)) continue;
    const Group group = group_of(map, page);
    if (std::ranges::any_of(group.leaving, [&](std::uint64_t on) { return changed.contains(on); })) continue;
    if (pass.bytes_moved + group.bytes > limits.max_bytes || pass.moves + group.buffers.size() > limits.max_moves)
      continue;
    GPUWARDEN_TRY(const bool done, move_group(group, pass));
    if (!done) continue;
    changed.insert(group.leaving.begin(), group.leaving.end());
    for (const Buffer* const buffer : group.buffers) {
      const auto pages = pages_of(*buffer);
      changed.insert(pages.begin(), pages.end());
    }
  }
  return pass;
}

DefragmentStatistics MovableMemory::statistics() const {
  const std::lock_guard lock(mutex_);
  return total_;
}

}  // namespace gpuwarden::memory
